"""Methods of the API that this package answers, and the task that decides what rejudges ask for."""

from __future__ import annotations

from typing import Any

from extensions.competitions.board_calls import BoardCalls
from extensions.competitions.organising_calls import OrganisingCalls
from extensions.competitions.rejudge_calls import RejudgeCalls
from extensions.competitions.store import Competitions
from grader.extensions import Call, ServerAdditions, ServerContext


def server_part(server: ServerContext) -> ServerAdditions:
    """Add competitions, boards and rejudges."""
    competitions = server.policy
    assert isinstance(competitions, Competitions)  # of the same package
    organising, rejudges = OrganisingCalls(server.ledger, competitions, server.service), RejudgeCalls(server, competitions)

    def writes(call: Call) -> Call:
        async def answer(request: Any) -> Any:
            server.service.writable()
            return await call(request)

        return answer

    reads: dict[str, Call] = {
        **BoardCalls(server.ledger, competitions).calls(),
        "GetRejudge": rejudges.get,
        "ListRejudges": rejudges.page,
        "ListBans": organising.bans,
        "ListCompetitionActions": organising.actions,
    }
    changes: dict[str, Call] = {
        "CreateRejudge": rejudges.create,
        "ApplyRejudge": rejudges.apply,
        "DiscardRejudge": rejudges.discard,
        "WithdrawSubmission": organising.withdraw,
        "RestoreSubmission": organising.restore,
        "BanUser": organising.ban,
        "LiftBan": organising.lift_ban,
        "ReloadCompetitions": organising.reload,
    }
    calls = reads | {method: writes(call) for method, call in changes.items()}
    return ServerAdditions(calls=calls, run=rejudges.run, reload=organising.reload_and_log)
