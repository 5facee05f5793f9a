"""The trusted side, next to the device: verifies and measures, and reports facts.  Here is the rest that its processes share."""

from __future__ import annotations

import ctypes
import os
import select
import signal

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ReferenceFailed(Exception):
    """The problem's own code raised, or returned something else than it declares. Its author has to fix it."""


class ReferenceTooLarge(ReferenceFailed):
    """The problem does not fit into this machine's memory. That says nothing of the problem itself."""


def end_with_parent(descriptor: int) -> None:
    """Be killed when the parent dies, even in C code that never gives the interpreter up; end now where it has died already.

    descriptor: a pipe or socket whose other end nobody but the parent has. The system goes by the thread that started us: that one has to
    live as long as it wants us, as an event loop's does.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    hung_up = select.poll()
    hung_up.register(descriptor, 0)  # errors and the other end's closing are always reported
    if hung_up.poll(0):
        os._exit(1)  # the parent died before the line above
