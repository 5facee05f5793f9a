"""Reads events for a watcher, and holds back those of secret workloads: when each of them came would tell how long it took."""

from __future__ import annotations

from grader.ledger import Ledger
from grader.model import Event
from grader.rules.disclosure import Redactor

BATCH = 256


class RedactedEvents:
    """The events of one submission to one watcher.

    Of a run of events that are kept secret the first is sent at once, so that it is seen what is being done, and the others when something
    else has happened: so only their total time is sent.
    """

    def __init__(self, ledger: Ledger, submission_id: str, redactor: Redactor) -> None:
        self._ledger, self._submission_id, self._redactor = ledger, submission_id, redactor
        self._inside = False  # a run of which the first was sent

    async def begin(self, after: int) -> None:
        """Go on behind an event, which is taken for one of such a run where it is not there yet."""
        if after and self._redactor.secret:
            before = await self._ledger.events(self._submission_id, after=after - 1, limit=1)
            self._inside = not before or self._redactor.keeps_secret(before[0])

    async def after(self, sequence: int) -> list[Event]:
        """What may be sent now."""
        events = await self._ledger.events(self._submission_id, after=sequence, limit=BATCH)
        if not self._redactor.secret:
            return events
        while events and len(events) % BATCH == 0 and self._redactor.keeps_secret(events[-1]):
            more = await self._ledger.events(self._submission_id, after=events[-1].sequence, limit=BATCH)
            if not more:
                break
            events += more
        return self._showable(events)

    def _showable(self, events: list[Event]) -> list[Event]:
        end = next((index + 1 for index in reversed(range(len(events))) if not self._redactor.keeps_secret(events[index])), 0)
        if end < len(events) and (end > 0 or not self._inside):
            end += 1
        if end:
            self._inside = self._redactor.keeps_secret(events[end - 1])
        return events[:end]
