"""Methods of the API that this package answers, and the task that decides what rejudges ask for."""

from __future__ import annotations

from functools import partial
from typing import Any

from grader.extensions import Call, ServerAdditions, ServerContext
from grader.server.service import GraderServicer
from grader_extensions.competitions.boards import BoardCalls
from grader_extensions.competitions.organising_calls import OrganisingCalls
from grader_extensions.competitions.rejudge_calls import RejudgeCalls
from grader_extensions.competitions.store import Competitions


def server_part(server: ServerContext) -> ServerAdditions:
    """Add competitions, boards and rejudges."""
    service, competitions = server.service, server.service.policy
    assert isinstance(competitions, Competitions)  # of the same package
    organising, rejudges = OrganisingCalls(service, competitions), RejudgeCalls(service, competitions)
    calls = calls_of(BoardCalls(service.ledger, competitions)) | calls_of(organising) | calls_of(rejudges)
    changes = {method: partial(_write, service, call) for method, call in calls.items() if not method.startswith(("Get", "List"))}
    return ServerAdditions(calls=calls | changes, run=rejudges.run, reload=organising.reload)


def calls_of(methods: object) -> dict[str, Call]:
    """Return the methods that have the names of the API's."""
    return {name: getattr(methods, name) for name in dir(methods) if name[0].isupper()}


async def _write(service: GraderServicer, call: Call, request: Any) -> Any:
    service.writable()
    return await call(request)
