"""The first process in a box: ties its output to the server, sets the last limits, runs the command and reaps.

Standard library only.  It shares the box with untrusted code, so nothing it says is believed: its exit code is a claim.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
from typing import Any, NoReturn

from sandbox.fork_init import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, begin, settle
from sandbox.protocol.box_start import ENTERED

FAREWELL_S = 0.5
CANNOT_EXECUTE = 127


def main() -> NoReturn:
    """Run `enter CONFIG COMMAND...`; CONFIG is JSON: stdio (a socket's path or null), entered (a descriptor or null) and rlimits."""
    config: dict[str, Any] = json.loads(sys.argv[1])
    command = sys.argv[2:]
    libc = begin()
    output = connect_output(config["stdio"]) if config["stdio"] else None
    settle(config["entered"], ENTERED)
    code = reap(run(command, config["rlimits"], libc))
    if output is not None:
        report_exit(output)
    os._exit(code)


def connect_output(path: str) -> socket.socket:
    """Make /dev/null the input and the server's socket the output.  Docker never sees a byte of it."""
    output = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    output.connect(path)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    os.close(null)
    return output


def run(command: list[str], rlimits: dict[str, int], libc: ctypes.CDLL) -> int:
    """Start the command, and close our own memory to it first: it has our uid."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        become(command, rlimits, libc)
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # after the fork: the child must write its own oom_score_adj
    os.close(reading)
    os.close(writing)
    return child


def become(command: list[str], rlimits: dict[str, int], libc: ctypes.CDLL) -> NoReturn:
    """Turn this child into the command, limited."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # this one dies first, not we and not the server
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and that would be inherited
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    for name, value in rlimits.items():
        limit(getattr(resource, name), value)
    close_inherited()
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot execute {command[0]}: {error.strerror}\n".encode())
    os._exit(CANNOT_EXECUTE)


def limit(resource_id: int, value: int) -> None:
    """Set both limits, never above the hard limit that is already there."""
    hard = resource.getrlimit(resource_id)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(resource_id, (value, value))


def close_inherited() -> None:
    """Leave the command with descriptors 0, 1 and 2."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing's own descriptor is gone already
                os.close(int(name))


def reap(child: int) -> int:
    """Reap everything until the command ends; return its exit code, 128+n for a signal."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def report_exit(output: socket.socket) -> None:
    """End the output and wait briefly for the server to hang up: until then it can read the box's counters."""
    with contextlib.suppress(OSError):
        output.shutdown(socket.SHUT_WR)
    select.select([output], [], [], FAREWELL_S)


if __name__ == "__main__":
    main()
