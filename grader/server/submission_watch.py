"""Streams the events of one submission and the states of many, for the API and for pages: one rule of who sees what, and when."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar

from grader import access
from grader.api import messages
from grader.api.resource_names import SUBMISSIONS, parse
from grader.errors import FieldViolation, InvalidRequest, ShuttingDown, SubmissionNotFound, TooManyWatches
from grader.extensions import SubmitPolicy
from grader.intake.gate import check_tag
from grader.ledger import Ledger
from grader.ledger.changes import ManyChanges
from grader.ledger.queue import positions
from grader.ledger.transactions import FINDINGS_S
from grader.model import Caller, Event, Position, Submission, SubmissionState
from grader.peers import PeerCount, PeerLimits
from grader.rules.disclosure import Redactor
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from sandbox.protocol import wire

T = TypeVar("T")

# The queue is read once for all who ask, and never more than a share of the time.
POSITION_AGE_S = 1.0  # how old a position may be for watchers
POSITION_DELAY_S = 0.3  # so long a submission waits before its position is sent to watchers: most wait less
POSITION_PAUSE_S = 2.0  # between two answers to one watcher
PATIENCE_S = 0.25  # what it may take to answer GetSubmission
REST_MOST_S = 10.0  # and then it is, however long reading takes
SHARE = 100.0  # so many times as long as reading the queue took, it is not read again
_NOTICED = 0.25  # by how much an estimate has to change to be sent again


class Positions:
    """Used on one event loop only. lane_count: how many submissions are graded at once here."""

    def __init__(self, ledger: Ledger, lane_count: Callable[[], int]) -> None:
        self._ledger, self._lane_count = ledger, lane_count
        self._known: Mapping[str, Position] = {}
        self._read_s, self._took_s = -1e9, 0.0
        self._reading = asyncio.Lock()

    async def position(self, submission_id: str, *, patience_s: float = 0.0) -> Position | None:
        """Where it is; None where it does not wait, or where it came after the queue was read and that is not so long ago that it may be
        read again within patience_s. Without patience nobody waits for what another reads."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        if self._reading.locked() and not patience_s:  # it would be late for a place that it may not have yet
            return self._known.get(submission_id)
        await self._read_after(asked_s - self._rest_s)
        if submission_id not in self._known and self._read_s < asked_s and patience_s > 0:
            wait_s = self._read_s + self._rest_s - asked_s
            if wait_s <= patience_s:
                await asyncio.sleep(max(wait_s, 0.0))
                await self._read_after(asked_s)
        return self._known.get(submission_id)

    async def cached(self, submission_id: str) -> Position | None:
        """Where it was at most POSITION_AGE_S ago: for many who ask again and again."""
        await self._read_after(asyncio.get_running_loop().time() - max(self._rest_s, POSITION_AGE_S))
        return self._known.get(submission_id)

    @property
    def _rest_s(self) -> float:
        return min(SHARE * self._took_s, REST_MOST_S)

    async def _read_after(self, time_s: float) -> None:
        """Read the queue, unless it was read after this time."""
        if self._read_s > time_s:
            return
        async with self._reading:
            if self._read_s > time_s:  # somebody read it while we waited
                return
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            snapshot = await self._ledger.queue()
            self._known = positions(snapshot, self._lane_count())
            self._read_s, self._took_s = began_s, loop.time() - began_s


def differs(position: Position, before: Position | None) -> bool:
    """Return whether the position differs enough from the last one that was sent."""
    if before is None or (position.ahead_count, position.no_worker) != (before.ahead_count, before.no_worker):
        return True
    if position.estimated_s is None or before.estimated_s is None:
        return position.estimated_s is not before.estimated_s
    return abs(position.estimated_s - before.estimated_s) > max(_NOTICED * before.estimated_s, 1.0)


async def hear_news(news: asyncio.Event, timeout_s: float) -> None:
    """Wait until there is news, or for timeout_s."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await news.wait()


# Events of secret workloads are held back: when each of them came would tell how long it took.

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
        """Return what may be sent now."""
        events = await self._ledger.events(self._submission_id, after=sequence, limit=BATCH)
        if not self._redactor.secret:
            return events
        while events and len(events) % BATCH == 0 and self._redactor.keeps_secret(events[-1]):
            later = await self._ledger.events(self._submission_id, after=events[-1].sequence, limit=BATCH)
            if not later:
                break
            events += later
        end = next((index + 1 for index in reversed(range(len(events))) if not self._redactor.keeps_secret(events[index])), 0)
        if end < len(events) and (end > 0 or not self._inside):
            end += 1
        if end:
            self._inside = self._redactor.keeps_secret(events[end - 1])
        return events[:end]


async def converted(submission: Submission, convert: Callable[[], T]) -> T:
    """Convert what has a submission's report in it: on a thread where that takes long, for 300 kB of times a third of a second."""
    has_times = submission.report is not None and submission.report.measurements
    return await asyncio.to_thread(convert) if has_times else convert()


class Redactors:
    """Reads each problem once, and again after LIMIT others: each sweep is a problem of its own."""

    LIMIT = 1000

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Redactor] = {}

    async def for_problem(self, digest: str) -> Redactor:
        """Of the problem as it was when the submission was made."""
        if (redactor := self._known.get(digest)) is None:
            self._known[digest] = redactor = Redactor.for_problem(await self._ledger.problem(digest))
            if len(self._known) > self.LIMIT:
                del self._known[next(iter(self._known))]
        return redactor

    async def message(self, submission: Submission, *, full: bool = False, owned: bool = False) -> submission_pb2.Submission:
        """Convert a submission, without what its problem hides; see `messages.submission_to_proto`."""
        redactor = await self.for_problem(submission.problem_digest)
        return await converted(submission, partial(messages.submission_to_proto, submission, redactor, full=full, owned=owned))

    async def for_events(self, submission: Submission) -> Redactor:
        """Events stay those of the problem that it was first judged by, whatever it was judged by again."""
        redactor = await self.for_problem(submission.problem_digest)
        for judgement in await self._ledger.judgements(submission.submission_id) if submission.judgement_count > 1 else ():
            redactor = redactor.merged_with(await self.for_problem(judgement.problem_digest))
        return redactor


WATCH_POLL_S = 120.0  # news wakes a watch at once, also from another server that grades; this is for what was missed


class SubmissionWatch:
    """Used on one event loop only. lane_count: how many submissions are graded at once here."""

    def __init__(
        self, ledger: Ledger, policy: SubmitPolicy, *, lane_count: Callable[[], int] = lambda: 1, poll_s: float = WATCH_POLL_S
    ) -> None:
        self._ledger, self._policy = ledger, policy
        self.positions = Positions(ledger, lane_count)
        self.redactors = Redactors(ledger)
        self.poll_s = poll_s

    async def stream(
        self, caller: Caller, submission_id: str, after: int, until_findings: bool = False
    ) -> AsyncGenerator[submission_pb2.SubmissionEvent, None]:
        """Replay what followed the event numbered after, follow, and end with the final state. until_findings: or when the report has what
        tools find after its verdict. SubmissionNotFound; ShuttingDown."""
        reported: Position | None = None  # and when, by the loop's clock
        reported_s, loop, followed = -1e9, asyncio.get_running_loop(), False
        with self._ledger.changes.of(submission_id) as changed:
            submission, redactor, redacted = await self._open_events(caller, submission_id, after)
            ended = profiled = False  # whether the final state was sent, and whether tools are at work that it did not wait for
            while True:
                changed.clear()
                leaving = self._ledger.changes.leaving
                events = await redacted.after(after)
                moves = [(event.state, event.attempt) for event in events if event.state]
                if not events or (moves and moves[-1] != (submission.state, submission.attempt_count)):
                    submission = await self._ledger.get(submission_id)  # after the events, so that the report is there with the last
                for event in events:
                    yield await converted(submission, partial(messages.event_to_proto, event, submission, redactor))
                    after, ended = event.sequence, ended or (event.state is not None and event.state.final)
                    if isinstance(event.fact, wire.Progress | wire.KernelProfile):
                        profiled = until_findings and event.fact == wire.Progress(stage=wire.Stage.PROFILING)
                    elif event.state is not None and event.state.final:  # long ago they were lost, and of no other end are there any
                        fresh = self._ledger.now() - event.event_time < timedelta(seconds=FINDINGS_S)
                        profiled = profiled and fresh and event.state is SubmissionState.SUCCEEDED
                    if ended and not profiled:
                        return
                if not events and submission.state.final and (leaving or not profiled):  # all of it was seen before
                    return
                if leaving and not events:
                    raise ShuttingDown()
                if events and (leaving or len(events) >= BATCH or changed.is_set()):
                    continue
                if not followed:
                    self._ledger.changes.follow([submission_id])
                    followed = True
                # Not all at once: watches that were opened together would all look in the same second, every time.
                deadline_s = loop.time() + random.uniform(0.5, 1.5) * self.poll_s
                while submission.state is SubmissionState.QUEUED and not changed.is_set() and loop.time() < deadline_s:
                    await hear_news(changed, POSITION_AGE_S if reported else POSITION_DELAY_S)
                    if changed.is_set() or loop.time() - reported_s < POSITION_PAUSE_S:
                        continue
                    position = await self.positions.cached(submission_id)
                    if position is not None and differs(position, reported):
                        reported, reported_s = position, loop.time()
                        yield messages.placed_event(position, after, submission, self._ledger.now())
                await hear_news(changed, FINDINGS_S if ended else deadline_s - loop.time())
                profiled = profiled and (changed.is_set() or not ended)

    async def so_far(self, caller: Caller, submission_id: str) -> list[submission_pb2.SubmissionEvent]:
        """Return what a stream from the beginning would send at once. SubmissionNotFound."""
        submission, redactor, redacted = await self._open_events(caller, submission_id, 0)
        stream_events, last = list[submission_pb2.SubmissionEvent](), 0
        while events := await redacted.after(last):
            stream_events += [messages.event_to_proto(event, submission, redactor) for event in events]
            last = events[-1].sequence
        if submission.state is SubmissionState.QUEUED and (position := await self.positions.cached(submission_id)) is not None:
            stream_events.append(messages.placed_event(position, last, submission, self._ledger.now()))
        return stream_events

    async def _open_events(self, caller: Caller, submission_id: str, after: int) -> tuple[Submission, Redactor, RedactedEvents]:
        submission = await self._ledger.get(submission_id)
        access.check_seen(caller, submission, self._policy.readable(self._ledger.now()))
        redactor = await self.redactors.for_events(submission)
        redacted = RedactedEvents(self._ledger, submission_id, redactor)
        await redacted.begin(after)
        return submission, redactor, redacted


# States of many submissions: changes are collected and read together, however many events there were.

NAME_LIMIT = 1000  # names in a request, and submissions with a tag that are there when a watch begins
WATCH_LIMIT = 32  # streams that a user may have open on one server
PAUSE_S = 0.1  # between two looks of a stream into the ledger
REPORTS_AT_ONCE = 20  # that are in memory; one may be large

Show = Callable[[Submission], Awaitable[submission_pb2.Submission]]


class SubmissionUpdates:
    """Answers WatchSubmissions. show: a submission as its owner sees it."""

    def __init__(self, ledger: Ledger, show: Show, poll_s: float, *, tag_limit: int = NAME_LIMIT) -> None:
        self._ledger, self._show, self._poll_s, self._tag_limit = ledger, show, poll_s, tag_limit
        self._open = PeerCount(PeerLimits(total=sys.maxsize, per_address=WATCH_LIMIT))  # by user

    async def stream(self, request: api.WatchSubmissionsRequest, caller: Caller) -> AsyncGenerator[api.SubmissionUpdate, None]:
        """Yield what each is now, and each change."""
        names, revisions = _checked(request)
        tag = "" if names else request.tag  # whether new ones belong to it is asked only where there are no names
        with self._open.entered(caller.user) as inside, self._ledger.changes.of_many(caller.user, tag) as many:
            if not inside:
                raise TooManyWatches(WATCH_LIMIT)
            heads = {head.submission_id: head for head in await self._ledger.heads(names)} if names else {}
            for submission_id in names:
                if submission_id not in heads:
                    raise SubmissionNotFound(submission_id)
                access.check_owned(caller, heads[submission_id])
            many.follow([name for name in names if not request.tag or request.tag in heads[name].new.tags])
            last_number, loop = 0, asyncio.get_running_loop()
            while True:
                many.news.clear()
                leaving, looked_s = self._ledger.changes.leaving, loop.time()
                if many.maybe_new:
                    many.maybe_new = False
                    tagged = await self._ledger.tagged(caller.user, tag, after_number=last_number, limit=self._tag_limit)
                    many.follow([submission_id for _, submission_id in tagged])
                    if last_number and len(tagged) == self._tag_limit:
                        many.maybe_new = True
                    last_number = tagged[-1][0] if tagged else last_number
                async for submission in self._look(many, revisions):
                    message = await self._show(submission)
                    for field in ("parent", "annotations"):
                        message.ClearField(field)
                    yield api.SubmissionUpdate(submission=message, revision=revision(submission))
                if not many.pending:
                    if request.until_idle and not many.followed:
                        return
                    if leaving:
                        raise ShuttingDown()
                    # Not all at once: watches that were opened together would all look in the same second, every time.
                    await hear_news(many.news, random.uniform(0.5, 1.5) * self._poll_s)
                    if not many.news.is_set():
                        many.hear_all()
                await asyncio.sleep(max(looked_s + PAUSE_S - loop.time(), 0.0))

    async def _look(self, many: ManyChanges, revisions: dict[str, int]) -> AsyncIterator[Submission]:
        """Those of what changed that are in another state than was seen; reports are read where they are sent only."""
        ids, finished = many.take(NAME_LIMIT), list[str]()
        for submission in await self._ledger.heads(ids) if ids else ():
            submission_id, number, final = submission.submission_id, revision(submission), submission.state.final
            before = revisions.pop(submission_id, 0)
            if final:
                many.finish(submission_id)  # what was heard of it meanwhile is this
            else:
                revisions[submission_id] = max(number, before)
            if number > before and final:
                finished.append(submission_id)
            elif number > before:
                yield submission
        for start in range(0, len(finished), REPORTS_AT_ONCE):
            for submission in await self._ledger.heads(finished[start : start + REPORTS_AT_ONCE], reports=True):
                yield submission


def revision(submission: Submission) -> int:
    """Grows with each change of state: 1 while it waits first, 2 while it runs first, and so on; the same on every server."""
    match submission.state:
        case SubmissionState.RUNNING:
            return 2 * submission.attempt_count
        case SubmissionState.QUEUED:
            return 2 * submission.attempt_count + 1
    return 2 * submission.attempt_count + 2


def _checked(request: api.WatchSubmissionsRequest) -> tuple[list[str], dict[str, int]]:
    """The ids of the names, each once, and what was seen by id; InvalidRequest."""
    wrong = [] if not request.tag else check_tag(request.tag, "tag")
    if not request.tag and not request.names:
        wrong.append(FieldViolation("tag", "neither a tag nor names are set; say which submissions to watch"))
    for field, count in (("names", len(request.names)), ("seen_revisions", len(request.seen_revisions))):
        if count > NAME_LIMIT:
            wrong.append(FieldViolation(field, f"there are {count}; send at most {NAME_LIMIT}"))
    if any(number < 0 for number in request.seen_revisions.values()):
        wrong.append(FieldViolation("seen_revisions", "one is negative; send the last revision seen"))
    if wrong:
        raise InvalidRequest(wrong)
    names = dict.fromkeys(parse(SUBMISSIONS, name, f"names[{index}]") for index, name in enumerate(request.names))
    return list(names), {parse(SUBMISSIONS, name, "seen_revisions"): number for name, number in request.seen_revisions.items()}
