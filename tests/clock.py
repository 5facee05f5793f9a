"""The time of a ledger under test."""

from datetime import UTC, datetime, timedelta


class Clock:
    """A clock that tests move."""

    def __init__(self, now=datetime(2026, 1, 1, tzinfo=UTC)):
        self.now = now

    def __call__(self):
        return self.now

    def pass_s(self, seconds):
        self.now += timedelta(seconds=seconds)
