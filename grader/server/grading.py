"""The seam between the server and what grades for it.

A wiring promises: while its context is open, `grade` may be called; when it is entered, nothing that an earlier server of the same
state directory ran is left; when it is left, nothing is running.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from grader.config import Settings
from grader.dispatch.dispatcher import Grade
from grader.observability.observer import LaneNow, Observer, WarmNow
from sandbox.protocol import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """Grading by this host or by others. capacity: how many attempts may be under way, builds and runs together. device_kinds: what a
    submission may ask for. Both may change where workers come and go."""

    grade: Grade
    capacity: Callable[[], int]
    device_kinds: Callable[[], tuple[str, ...]]
    ready_kinds: Callable[[], tuple[str, ...]] | None = None  # those of them that can be graded now; None: all
    isolation: str
    safe: bool  # whether strangers' kernels may be run
    lanes: Callable[[], Sequence[LaneNow]] = tuple
    cordon: Callable[[Collection[str]], None] = lambda _: None  # which lanes, and which workers, get nothing more from now on
    fault: Callable[[], str] = str  # why nothing can be graded now; "" where it can
    proved: Callable[[], Awaitable[str]] | None = None  # the same, once the host has tried to grade a kernel of its own; None: it does not
    observe: Callable[[Observer], None] = lambda _: None  # tell it of boxes from now on
    warm: Callable[[], WarmNow] = WarmNow
    prepare: Callable[[Sequence[wire.ProblemSpec]], None] = lambda _: None  # have baselines of these problems ready, in the background


Wiring = Callable[[Settings], AbstractAsyncContextManager[Grading]]
