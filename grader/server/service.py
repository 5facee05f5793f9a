"""The API's methods: from message to ledger and back.  Raises `grader.errors`; the interceptor turns them into statuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

import grpc
import structlog

from grader import convert, intake
from grader.errors import FieldViolation, InvalidRequest, ReadOnly, ShuttingDown
from grader.ledger import Ledger
from grader.model import Submission, SubmissionState
from grader.problems import Problems
from grader.server import paging
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, problem_pb2, report_pb2, submission_pb2

log = structlog.get_logger()

Context = grpc.aio.ServicerContext[Any, Any]
WATCH_POLL_S = 1.0  # news of this process wakes a watch at once; what another process wrote is seen so late
WATCH_BATCH = 256  # of events read at a time


class Worker(Protocol):
    """Who is told that there is something to do."""

    def wake(self) -> None:
        """Something was put into the queue."""

    def check(self, submission_id: str) -> None:
        """A running submission is to be cancelled."""


class GraderService(grader_service_pb2_grpc.GraderServiceServicer):
    """Answers calls. worker None: a server that only reads."""

    def __init__(
        self, ledger: Ledger, problems: Problems, *, worker: Worker | None, device_kinds: Sequence[str] = (), queue_limit: int = 1000
    ) -> None:
        self._ledger, self._problems, self._worker = ledger, problems, worker
        self._device_kinds, self._queue_limit = tuple(device_kinds), queue_limit
        self._masks: dict[str, convert.Mask] = {}
        self._accepting = True
        self._leaving = asyncio.Event()

    def stop_accepting(self) -> None:
        """Refuse new submissions from now on."""
        self._accepting = False

    def end_watches(self) -> None:
        """End the streams: what is written is sent, then they are told to come again."""
        self._leaving.set()

    async def Submit(self, request: api.SubmitRequest, context: Context) -> submission_pb2.Submission:
        """Check and keep a submission; it is on disk before this answers."""
        worker = self._writable()
        if not self._accepting:
            raise ShuttingDown()
        accepted = await asyncio.to_thread(intake.check, request, self._problems.get, self._device_kinds)
        submission = await self._ledger.submit(
            accepted.new, accepted.problem, request_id=accepted.request_id, queue_limit=self._queue_limit
        )
        worker.wake()
        log.info("submission_accepted", submission=submission.submission_id, problem=submission.new.problem_id)
        return await self._shown(submission)

    async def GetSubmission(self, request: api.GetSubmissionRequest, context: Context) -> submission_pb2.Submission:
        """Read one."""
        submission = await self._ledger.get(_submission_id(request.name))
        return await self._shown(submission, full=request.view == report_pb2.REPORT_VIEW_FULL)

    async def ListSubmissions(self, request: api.ListSubmissionsRequest, context: Context) -> api.ListSubmissionsResponse:
        """Read a page, newest first."""
        size = paging.page_size(request.page_size)
        problem_id, states = _problem_id(request.problem) if request.problem else "", _states(request.states)
        before = paging.decode(request.page_token, int, problem_id, states)
        found, following = await self._ledger.page(size=size, before=before, problem_id=problem_id, states=states)
        return api.ListSubmissionsResponse(
            submissions=[await self._shown(one) for one in found], next_page_token=paging.encode(following, problem_id, states)
        )

    async def CancelSubmission(self, request: api.CancelSubmissionRequest, context: Context) -> submission_pb2.Submission:
        """Cancel what waits at once; what runs is stopped soon after."""
        worker = self._writable()
        submission = await self._ledger.cancel(_submission_id(request.name))
        worker.check(submission.submission_id)
        return await self._shown(submission)

    async def WatchSubmission(self, request: api.WatchSubmissionRequest, context: Context) -> AsyncIterator[submission_pb2.SubmissionEvent]:
        """Replay, follow, and end with the final state."""
        submission_id, after = _submission_id(request.name), request.after_sequence
        if after < 0:
            raise InvalidRequest([FieldViolation("after_sequence", f"{after} is negative; send the last sequence seen, or 0")])
        with self._ledger.changes.of(submission_id) as changed:
            submission = await self._ledger.get(submission_id)
            mask = await self._mask(submission.problem_digest)
            while True:
                changed.clear()
                leaving = self._leaving.is_set()
                events = await self._ledger.events(submission_id, after=after, limit=WATCH_BATCH)
                if any(event.state for event in events):
                    submission = await self._ledger.get(submission_id)  # after the events, so that the report is there with the last
                for event in events:
                    yield convert.event_to_proto(event, submission, mask)
                    after = event.sequence
                    if event.state is not None and event.state.final:
                        return
                if not events and submission.state.final:  # all of it was seen before
                    return
                if leaving and not events:
                    raise ShuttingDown()
                if not events:
                    await _either(changed, self._leaving, timeout_s=WATCH_POLL_S)

    async def GetProblem(self, request: api.GetProblemRequest, context: Context) -> problem_pb2.Problem:
        """Read one."""
        return convert.problem_to_proto(self._problems.get(_problem_id(request.name)))

    async def ListProblems(self, request: api.ListProblemsRequest, context: Context) -> api.ListProblemsResponse:
        """Read a page, by name."""
        size = paging.page_size(request.page_size)
        after = paging.decode(request.page_token, str, "problems") or ""
        left = [problem for problem in self._problems.all() if problem.problem_id > after]
        following = left[size - 1].problem_id if len(left) > size else None
        return api.ListProblemsResponse(
            problems=[convert.problem_to_proto(problem) for problem in left[:size]], next_page_token=paging.encode(following, "problems")
        )

    def _writable(self) -> Worker:
        if self._worker is None:
            raise ReadOnly()
        return self._worker

    async def _shown(self, submission: Submission, *, full: bool = False) -> submission_pb2.Submission:
        return convert.submission_to_proto(submission, await self._mask(submission.problem_digest), full=full)

    async def _mask(self, digest: str) -> convert.Mask:
        """Of the problem as it was when the submission was made."""
        if digest not in self._masks:
            self._masks[digest] = convert.Mask.of(await self._ledger.problem(digest))
        return self._masks[digest]


async def _either(*events: asyncio.Event, timeout_s: float) -> None:
    """Wait until one of them is set, or for timeout_s."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()) for event in events]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()


def _submission_id(name: str) -> str:
    return _last_part(name, convert.SUBMISSION_PREFIX, "name")


def _problem_id(name: str) -> str:
    return _last_part(name, convert.PROBLEM_PREFIX, "name")


def _last_part(name: str, prefix: str, field: str) -> str:
    last = name.removeprefix(prefix)
    if last == name or not last or "/" in last:
        raise InvalidRequest([FieldViolation(field, f"{name!r} is no name of this kind; write '{prefix}' and an id")])
    return last


def _states(states: Sequence[submission_pb2.SubmissionState]) -> tuple[SubmissionState, ...]:
    try:
        return tuple(convert.state_from_proto(state) for state in states)
    except ValueError:
        names = ", ".join(f"SUBMISSION_STATE_{one.name}" for one in SubmissionState)
        raise InvalidRequest([FieldViolation("states", f"one of them is not known here; take some of: {names}")]) from None
