"""Watches whether a subject's box computes while a baseline is timed: one busy thread makes PyTorch look almost half as fast (cheating F2).

The kernel's account of CPU time is read: of the box's cgroup, else of its processes. It counts a running thread at its ticks, so a single
reading is off by some milliseconds either way; the sum over all of a workload's runs is not.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

BUSY_SHARE = 0.25  # of one core; an idle runner looks at its gate every 50 us, which takes a tenth
POOL_NS = 4_000_000  # of each run: a runner and the threads of a pool spin before they sleep, 3.9 ms on average at most as measured here
PROCESS_LIMIT = 1024  # a box has no more
CGROUPS = Path("/sys/fs/cgroup")
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
USER, SYSTEM, WAITED_USER, WAITED_SYSTEM = 11, 12, 13, 14  # fields of /proc/PID/stat after the name, proc(5)
IDLE, IO_WAIT, STOLEN = 3, 4, 7  # fields of the line `cpu` of /proc/stat; those behind are counted in others

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class BoxLoad:
    """The CPU time that a box used during each run of a baseline, and how long that run lasted, in nanoseconds, by baseline.

    cpu_ns: reads what the box has used so far; None where this host does not tell.
    """

    cpu_ns: Callable[[], int | None]
    runs: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def watch(self, name: str, work: Callable[[], Result]) -> Result:
        """Do `work`, and count what the box uses meanwhile."""
        before, begun = self.cpu_ns(), time.monotonic_ns()
        result = work()
        after, ended = self.cpu_ns(), time.monotonic_ns()
        if before is not None and after is not None:
            self.runs.setdefault(name, []).append((after - before, ended - begun))
        return result

    def busy(self, name: str) -> bool:
        """Return whether the box used more than an idle one does while this baseline ran."""
        runs = self.runs.get(name, [])
        used_ns, lasted_ns = sum(used for used, _ in runs), sum(lasted for _, lasted in runs)
        return used_ns - POOL_NS * len(runs) > BUSY_SHARE * lasted_ns


def box_load(link: socket.socket) -> BoxLoad:
    """Return the load of the box whose process is at the other end of a Unix socket."""
    pid = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    if pid <= 0:  # of a PID namespace that this process does not see: a server in a container
        return BoxLoad(lambda: None)
    account = cgroup_account(_text(f"/proc/{pid}/cgroup"), _text("/proc/self/cgroup"))
    return BoxLoad(lambda: _of_processes(pid) if account is None else _of_cgroup(account))


def foreign_cpu_ns() -> int | None:
    """The CPU time that this machine has spent on all but this process and its children; None where it does not tell. Time that its host
    took away counts, too."""
    fields, own_ns = _text("/proc/stat").partition("\n")[0].split()[1:], _of_processes(os.getpid())
    if len(fields) <= STOLEN or own_ns is None:
        return None
    return TICK_NS * sum(int(fields[index]) for index in range(STOLEN + 1) if index not in (IDLE, IO_WAIT)) - own_ns


def cgroup_account(theirs: str, ours: str, root: Path = CGROUPS) -> Path | None:
    """Return the file with a box's CPU time; None where it has no cgroup of its own. theirs, ours: two texts of /proc/PID/cgroup.

    v1 has the controller cpuacct; v2 counts in each cgroup. See cgroups(7).
    """
    directories = dict(_entries(ours))
    for controllers, path in _entries(theirs):
        if directories.get(controllers) is None or f"{directories[controllers]}/".startswith(f"{path.rstrip('/')}/"):
            continue
        file = root / controllers / path.lstrip("/") / "cpuacct.usage" if controllers else root / path.lstrip("/") / "cpu.stat"
        if (not controllers or "cpuacct" in controllers.split(",")) and file.is_file():
            return file
    return None


def _entries(text: str) -> list[tuple[str, str]]:
    """Controllers and path of each hierarchy; no controllers: v2."""
    return [(controllers, path) for _, controllers, path in (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)]


def _of_cgroup(account: Path) -> int | None:
    text = _text(account)
    if account.name == "cpuacct.usage":
        return int(text) if text.strip().isdigit() else None
    usage = dict(line.split() for line in text.splitlines() if len(line.split()) == 2).get("usage_usec", "")
    return 1000 * int(usage) if usage.isdigit() else None


def _of_processes(first: int) -> int | None:
    """Return the CPU time that a process and those that descend from it have used, with those that they have waited for."""
    waiting, ticks, count = [first], 0, 0
    while waiting and count < PROCESS_LIMIT:
        pid, count = waiting.pop(), count + 1
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(fields) <= WAITED_SYSTEM:
            continue  # it has ended
        ticks += sum(int(fields[index]) for index in (USER, SYSTEM, WAITED_USER, WAITED_SYSTEM))
        waiting += [int(child) for children in Path(f"/proc/{pid}/task").glob("*/children") for child in _text(children).split()]
    return TICK_NS * ticks if count else None


def _text(path: str | Path) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
