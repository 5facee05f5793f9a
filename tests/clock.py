"""Clocks that stand still until a test, or what it tests, moves them."""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """The time of a ledger under test: a clock that tests move, and that passes by step_s at each look."""

    def __init__(self, now=datetime(2026, 1, 1, tzinfo=UTC), step_s=0):
        self.now, self.step_s = now, step_s

    def __call__(self):
        self.pass_s(self.step_s)
        return self.now

    def pass_s(self, seconds):
        self.now += timedelta(seconds=seconds)


class Seconds:
    """A monotonic clock that tests move."""

    def __init__(self, now_s=0.0):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


class SteppedTime:
    """Stands for the module `time`: passes by step_ns at each look, and by what is slept, however busy the machine is."""

    def __init__(self, step_ns=1_000):
        self.now_ns, self.step_ns = 1, step_ns

    def monotonic_ns(self):
        self.now_ns += self.step_ns
        return self.now_ns

    def monotonic(self):
        return self.monotonic_ns() / 1e9

    def sleep(self, seconds):
        """Let other threads go on, for as long as it says of the real time."""
        self.now_ns += int(seconds * 1e9)
        time.sleep(seconds)
