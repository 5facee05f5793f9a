"""How a box ends: the first cause wins, and what the host saw becomes a BoxExit."""

from __future__ import annotations

import asyncio
import signal
import time
from dataclasses import dataclass

from grader.isolation import BoxExit
from grader.isolation.output import OutputReader
from sandbox.protocol.wire import BoxCause

SIGNAL_EXIT_BASE = 128
NEARLY_FULL = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the kernel counted for a box; None where nobody counted."""

    peak_memory_bytes: int | None = None
    oom_kills: int = 0
    forks_refused: int = 0

    def merged(self, later: Counters) -> Counters:
        """Combine with a later look, which may have failed."""
        peaks = [peak for peak in (self.peak_memory_bytes, later.peak_memory_bytes) if peak is not None]
        return Counters(
            peak_memory_bytes=max(peaks, default=None),
            oom_kills=max(self.oom_kills, later.oom_kills),
            forks_refused=max(self.forks_refused, later.forks_refused),
        )


class FirstCause:
    """The first cause to strike; later ones change nothing."""

    def __init__(self) -> None:
        self.cause: BoxCause | None = None
        self.struck = asyncio.Event()
        self.wall_ns = 0
        self.begin()

    def begin(self) -> None:
        """Start the clock that `wall_ns` shows."""
        self._began_ns = time.monotonic_ns()

    def record_cause(self, cause: BoxCause) -> None:
        """End the box for this cause, unless it has ended for another."""
        if self.cause is None:
            self.cause = cause
            self.wall_ns = time.monotonic_ns() - self._began_ns
            self.struck.set()

    def summary(self, code: int | None, counters: Counters, output: OutputReader | None, memory_limit_bytes: int) -> BoxExit:
        """Say how it ended.  `code` is the main process's, 128+n for a signal; what it claims counts only where nothing else struck."""
        if self.cause is None:
            raise AssertionError("a box is summed up after it has ended")
        cause, exit_code, number = self.cause, code, None
        if code is not None and _is_signal(code - SIGNAL_EXIT_BASE):
            exit_code, number = None, code - SIGNAL_EXIT_BASE
        if cause is BoxCause.EXITED:
            cause = _own_end(exit_code, number, counters, memory_limit_bytes)
        return BoxExit(
            cause=cause,
            exit_code=exit_code,
            signal=number,
            output=b"" if output is None else output.head,
            wall_ns=self.wall_ns,
            peak_memory_bytes=counters.peak_memory_bytes,
            arrivals=() if output is None else tuple(output.arrivals),
        )


def _own_end(exit_code: int | None, number: int | None, counters: Counters, memory_limit_bytes: int) -> BoxCause:
    if exit_code == 0:
        return BoxCause.EXITED
    if counters.oom_kills > 0:
        return BoxCause.MEMORY_LIMIT
    # The flag is set by whoever notices; a box that is killed whole may leave us only the peak.
    if number == signal.SIGKILL and (counters.peak_memory_bytes or 0) >= NEARLY_FULL * memory_limit_bytes:
        return BoxCause.MEMORY_LIMIT
    if number == signal.SIGXCPU:
        return BoxCause.WALL_LIMIT
    if number == signal.SIGSYS:
        return BoxCause.SANDBOX_VIOLATION
    if counters.forks_refused > 0:
        return BoxCause.PROCESS_LIMIT
    return BoxCause.EXITED if number is None else BoxCause.SIGNALLED


def _is_signal(number: int) -> bool:
    return number in signal.valid_signals()
