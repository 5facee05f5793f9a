"""Streams the events of one submission, for the API's WatchSubmission and for its page: one rule of who sees what, and when."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable

from grader import access
from grader.api import messages
from grader.errors import ShuttingDown
from grader.ledger import Ledger
from grader.model import Caller, SubmissionState
from grader.problems.competition_store import Competitions
from grader.server.event_redaction import RedactedEvents
from grader.server.queue_position import PositionNotifier, Positions
from grader.server.redactors import Redactors
from grader.server.waiting import first_of
from grader.v1 import submission_pb2

WATCH_POLL_S = 30.0  # news wakes a watch at once, also from another server that grades; this is for what was missed


class SubmissionWatch:
    """Used on one event loop only. lane_count: how many submissions are graded at once here."""

    def __init__(
        self, ledger: Ledger, competitions: Competitions, *, lane_count: Callable[[], int] = lambda: 1, poll_s: float = WATCH_POLL_S
    ) -> None:
        self._ledger, self._competitions = ledger, competitions
        self.positions = Positions(ledger, lane_count)
        self.redactors = Redactors(ledger)
        self.leaving = asyncio.Event()  # set when streams are to end: what is written is sent, then clients are asked to come again
        self.poll_s = poll_s

    async def stream(self, caller: Caller, submission_id: str, after: int) -> AsyncGenerator[submission_pb2.SubmissionEvent, None]:
        """Replay what followed the event numbered after, follow, and end with the final state. SubmissionNotFound; ShuttingDown."""
        notifier = PositionNotifier(self.positions, submission_id)
        with self._ledger.changes.of(submission_id) as changed:
            submission = await self._ledger.get(submission_id)
            access.check_seen(caller, submission, self._competitions.all(), self._ledger.now())
            redactor = await self.redactors.of_events(submission)
            redacted = RedactedEvents(self._ledger, submission_id, redactor)
            await redacted.begin(after)
            while True:
                changed.clear()
                leaving = self.leaving.is_set()
                events = await redacted.after(after)
                if any(event.state for event in events):
                    submission = await self._ledger.get(submission_id)  # after the events, so that the report is there with the last
                for event in events:
                    yield messages.event_to_proto(event, submission, redactor)
                    after = event.sequence
                    if event.state is not None and event.state.final:
                        return
                if not events and submission.state.final:  # all of it was seen before
                    return
                if leaving and not events:
                    raise ShuttingDown()
                if not events:
                    queued = submission.state is SubmissionState.QUEUED
                    # Not all at once: watches that were opened together would all look in the same second, every time.
                    poll_s = random.uniform(0.5, 1.5) * self.poll_s
                    await first_of(changed, self.leaving, timeout_s=notifier.idle_timeout_s if queued else poll_s)
                    if queued and not changed.is_set() and (position := await notifier.news()) is not None:
                        yield messages.placed_event(position, after, submission, self._ledger.now())

    async def so_far(self, caller: Caller, submission_id: str) -> list[submission_pb2.SubmissionEvent]:
        """What a stream from the beginning would send at once. SubmissionNotFound."""
        submission = await self._ledger.get(submission_id)
        access.check_seen(caller, submission, self._competitions.all(), self._ledger.now())
        redactor = await self.redactors.of_events(submission)
        redacted = RedactedEvents(self._ledger, submission_id, redactor)
        await redacted.begin(0)
        found: list[submission_pb2.SubmissionEvent] = []
        while events := await redacted.after(found[-1].sequence if found else 0):
            found += [messages.event_to_proto(event, submission, redactor) for event in events]
        if submission.state is SubmissionState.QUEUED and (position := await self.positions.cached(submission_id)) is not None:
            found.append(messages.placed_event(position, found[-1].sequence if found else 0, submission, self._ledger.now()))
        return found
