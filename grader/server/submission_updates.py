"""Streams the states of many submissions: what changed is collected, and read together, however many events there were."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from grader import access
from grader.api.resource_names import SUBMISSIONS, parse
from grader.errors import FieldViolation, InvalidRequest, ShuttingDown, SubmissionNotFound, TooManyWatches
from grader.intake.labels import check_tag
from grader.ledger import Ledger
from grader.ledger.changes import ManyChanges
from grader.model import Caller, Submission, SubmissionState
from grader.server.waiting import first_of
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2

NAME_LIMIT = 1000  # names in a request, and submissions with a tag that are there when a watch begins
WATCH_LIMIT = 32  # streams that a user may have open on one server
PAUSE_S = 0.1  # between two looks of a stream into the ledger
REPORTS_AT_ONCE = 20  # that are in memory; one may be large

Show = Callable[[Submission], Awaitable[submission_pb2.Submission]]


class SubmissionUpdates:
    """Answers WatchSubmissions. show: a submission as its owner sees it. leaving: set when streams are to end."""

    def __init__(self, ledger: Ledger, show: Show, leaving: asyncio.Event, poll_s: float, *, tag_limit: int = NAME_LIMIT) -> None:
        self._ledger, self._show, self._leaving, self._poll_s, self._tag_limit = ledger, show, leaving, poll_s, tag_limit
        self._open: Counter[str] = Counter()

    async def stream(self, request: api.WatchSubmissionsRequest, caller: Caller) -> AsyncGenerator[api.SubmissionUpdate, None]:
        """What each is now, and each change."""
        names, seen = _checked(request)
        tag = "" if names else request.tag  # whether new ones belong to it is asked only where there are no names
        with self._counted(caller.user), self._ledger.changes.of_many(caller.user, tag) as many:
            many.follow(await self._named(names, request.tag, caller))
            last_number, loop = 0, asyncio.get_running_loop()
            while True:
                many.news.clear()
                leaving, looked_s = self._leaving.is_set(), loop.time()
                if many.maybe_new:
                    last_number = await self._find_new(many, caller.user, tag, last_number)
                async for submission in self._look(many, seen):
                    yield await self._update(submission)
                if not many.pending:
                    if request.until_idle and not many.followed:
                        return
                    if leaving:
                        raise ShuttingDown()
                    # Not all at once: watches that were opened together would all look in the same second, every time.
                    await first_of(many.news, self._leaving, timeout_s=random.uniform(0.5, 1.5) * self._poll_s)
                    if not many.news.is_set():
                        many.hear_all()
                await asyncio.sleep(max(looked_s + PAUSE_S - loop.time(), 0.0))

    async def _named(self, ids: Sequence[str], tag: str, caller: Caller) -> list[str]:
        """Those that have the tag, where one is asked for; SubmissionNotFound where one is not the caller's."""
        found = {one.submission_id: one for one in await self._ledger.heads(ids)} if ids else {}
        for submission_id in ids:
            if submission_id not in found:
                raise SubmissionNotFound(submission_id)
            access.check_owned(caller, found[submission_id])
        return [one for one in ids if not tag or tag in found[one].new.tags]

    async def _find_new(self, many: ManyChanges, user: str, tag: str, last_number: int) -> int:
        many.maybe_new = False
        found = await self._ledger.tagged(user, tag, after_number=last_number, limit=self._tag_limit)
        many.follow([submission_id for _, submission_id in found])
        if last_number and len(found) == self._tag_limit:
            many.maybe_new = True
        return found[-1][0] if found else last_number

    async def _look(self, many: ManyChanges, seen: dict[str, int]) -> AsyncIterator[Submission]:
        """Those of what changed that are in another state than was seen; reports are read where they are sent only."""
        ids, finished = many.take(NAME_LIMIT), list[str]()
        for submission in await self._ledger.heads(ids) if ids else ():
            submission_id, number, final = submission.submission_id, revision(submission), submission.state.final
            before = seen.pop(submission_id, 0)
            if final:
                many.finish(submission_id)  # what was heard of it meanwhile is this
            else:
                seen[submission_id] = max(number, before)
            if number > before and final:
                finished.append(submission_id)
            elif number > before:
                yield submission
        for start in range(0, len(finished), REPORTS_AT_ONCE):
            for submission in await self._ledger.with_reports(finished[start : start + REPORTS_AT_ONCE]):
                yield submission

    async def _update(self, submission: Submission) -> api.SubmissionUpdate:
        message = await self._show(submission)
        for field in ("parent", "annotations"):
            message.ClearField(field)
        return api.SubmissionUpdate(submission=message, revision=revision(submission))

    @contextmanager
    def _counted(self, user: str) -> Iterator[None]:
        """Among the streams of this user; TooManyWatches where there are as many as may be."""
        if self._open[user] >= WATCH_LIMIT:
            raise TooManyWatches(WATCH_LIMIT)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]


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
