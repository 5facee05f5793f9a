"""Waits for a runner for so long as its limit says, not counting the time in which it waited for a core of a busy machine.

The kernel accounts how long each thread has been ready to run without running (proc(5), /proc/PID/schedstat). The thread of the runner that
waited most decides. A runner that starts many threads makes them wait for each other, so all of it is at most WAIT_FACTOR times the limit.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from sandbox.protocol.wire import WAIT_FACTOR

UNWATCHED_SHARE = 0.25  # of the limit: nearly every call has ended by then, and its threads need not be looked at
LEAST_SHARE = 0.05  # of the time since the last look: what waited for less was not held up
PROCESS_LIMIT = 1024  # a box has no more
WAITED = 1  # the field of /proc/PID/task/TID/schedstat

Waits = Mapping[int, int]  # nanoseconds in the run queue, by thread


def wait_patiently(limit_s: float, wait: Callable[[float], bool], run_queue_waits: Callable[[], Waits]) -> bool:
    """Whether wait(seconds) came to its end within limit_s, and as much longer as a thread waited for a core.

    wait returns whether what is waited for has happened, or can't happen any more; it is called again where it has not.
    """
    if wait(limit_s * UNWATCHED_SHARE):
        return True
    left_s, most_s = limit_s * (1 - UNWATCHED_SHARE), limit_s * (WAIT_FACTOR - UNWATCHED_SHARE)
    before, stands_for = run_queue_waits(), 1 / (1 - UNWATCHED_SHARE)  # the first look counts for the time before it, too
    while left_s > 0:
        if wait(left_s):
            return True
        most_s -= left_s
        now = run_queue_waits()
        waited_s = min(max((now[thread] - before.get(thread, 0) for thread in now), default=0) / 1e9, left_s)
        left_s = min(waited_s * stands_for, most_s) if waited_s > LEAST_SHARE * left_s else 0.0
        before, stands_for = now, 1.0
    return False


def run_queue_waits_of(link: socket.socket, root: Path = Path("/proc")) -> Waits:
    """How long the threads of the process at the other end, and of its children, have waited for a core; empty where that is not known."""
    pid, _, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    found: dict[int, int] = {}
    waiting, seen = [pid] if pid > 0 else [], 0  # 0: of a PID namespace that this process does not see
    while waiting and seen < PROCESS_LIMIT:
        process, seen = waiting.pop(), seen + 1
        for task in (root / str(process) / "task").glob("*"):
            fields = _words(task / "schedstat")
            if len(fields) > WAITED and task.name.isdecimal():
                found[int(task.name)] = int(fields[WAITED])
            waiting += [int(child) for child in _words(task / "children")]
    return found


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # it has ended
        return []
