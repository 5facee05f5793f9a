"""Takes submissions into the queue, one or many at a time: the same checks, quotas, limits and request ids for both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from grader.intake.gate import Accepted, SubmissionGate
from grader.ledger import Ledger
from grader.model import Submission
from grader.server import interceptors
from grader.server.request_limits import check_fields
from grader.v1 import grader_service_pb2 as api

log = structlog.get_logger()

AT_ONCE_BYTES = 16 * 1024  # a submission of this size is checked in less time than a thread takes to begin


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionService:
    """Puts submissions into the queue."""

    ledger: Ledger
    gate: SubmissionGate
    device_kinds: Callable[[], tuple[str, ...]]
    queue_limit: int
    user_queue_limit: int | None

    async def take(self, request: api.SubmitRequest) -> Submission:
        """Check and keep a submission; it is on disk when this returns."""
        if request.ByteSize() <= AT_ONCE_BYTES:
            return await self._keep(self._check(request))
        return await self._keep(await asyncio.to_thread(self._check, request))

    async def take_batch(self, requests: Sequence[api.SubmitRequest]) -> list[Submission | Exception]:
        """Each by itself, in their order: the submission, or what `take` would have raised."""
        checked = await asyncio.to_thread(lambda: [self._checked(request) for request in requests])
        async with asyncio.TaskGroup() as group:  # all wait at once, so that they share a commit
            tasks = [group.create_task(self._kept(result)) for result in checked]
        return [task.result() for task in tasks]

    def _check(self, request: api.SubmitRequest) -> Accepted:
        check_fields(request)
        return self.gate.check(request, self.device_kinds())

    async def _keep(self, accepted: Accepted) -> Submission:
        submission = await self.ledger.submit(
            replace(accepted.submission, user=interceptors.current_caller().user),
            accepted.problem,
            request_id=accepted.request_id,
            queue_limit=self.queue_limit,
            policy=replace(accepted.policy, user_queue_limit=self.user_queue_limit),
            allow_cached=accepted.allow_cached,
        )
        log.info("submission_accepted", submission=submission.submission_id, problem=submission.new.problem_id)
        return submission

    def _checked(self, request: api.SubmitRequest) -> Accepted | Exception:
        try:
            return self._check(request)
        except Exception as error:  # noqa: BLE001  # it is the result of this request, and the others have their own
            return error

    async def _kept(self, checked: Accepted | Exception) -> Submission | Exception:
        if isinstance(checked, Exception):
            return checked
        try:
            return await self._keep(checked)
        except Exception as error:  # noqa: BLE001  # as above
            return error
