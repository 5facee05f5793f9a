"""The first process in a box whose command is forked (`sandbox/fork_server.py`), and how every first process begins.

It imports little: its start is most of what such a box takes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from sandbox.protocol.box_start import MADE

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
KILLED = 128 + signal.SIGKILL
CODE_BYTES = 3


def main() -> None:
    """Run `fork_init ENTERED EXIT_PIPE`, two descriptors: say that the box is made, end with the command's exit code, and leave what the
    command leaves to the kernel to reap."""
    entered, exit_pipe = map(int, sys.argv[1:])
    begin().prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    settle(entered, MADE)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os._exit(int(os.read(exit_pipe, CODE_BYTES) or KILLED))


def begin() -> ctypes.CDLL:
    """Tie this process to its parent, and its children to it, without new privileges."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return libc


def settle(entered: int | None, word: bytes) -> None:
    """Report through a descriptor how far the box is, and go to its home."""
    if entered is not None:
        os.write(entered, word)
        os.close(entered)
    os.umask(0o022)
    os.chdir(os.environ.get("HOME", "/"))
    # The default, not "ignore": that would be inherited.  As process 1 the kernel shields us from it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
