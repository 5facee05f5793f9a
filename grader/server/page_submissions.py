"""Takes submissions that come from pages into the same queue as the API's Submit, by the same code and as the same caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from grader.errors import ShuttingDown
from grader.model import Caller, Submission
from grader.server.caller import enter
from grader.server.service import GraderServicer
from grader.v1 import grader_service_pb2 as api


class PageSubmissions:
    """service: None until the server has one: the web port is open before it."""

    def __init__(self, device_kinds: Callable[[], tuple[str, ...]]) -> None:
        self.device_kinds = device_kinds
        self.service: GraderServicer | None = None

    async def submit(self, caller: Caller, request: api.SubmitRequest) -> str:
        """The id of the submission, which is on disk; CallRefused, as Submit refuses it. Whether the caller may submit was asked before."""
        # A task of its own: who calls is kept for each task, and one task of the web port serves every request of a connection.
        return (await asyncio.create_task(self._take(caller, request))).submission_id

    async def _take(self, caller: Caller, request: api.SubmitRequest) -> Submission:
        if self.service is None:
            raise ShuttingDown()
        enter(caller)
        structlog.contextvars.bind_contextvars(user=caller.user, key=caller.key_id)
        return await self.service.take(request)
