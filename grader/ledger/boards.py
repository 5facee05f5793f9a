"""Sources of boards: the submissions to a competition that may count.  Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from grader.ledger import transactions
from grader.ledger.database import Database
from grader.ledger.tables import bans, submissions
from grader.model import Competition, Score, SubmissionState, Verdict
from grader.rules.leaderboard import Standing
from sandbox.protocol import wire
from sandbox.protocol.signatures import rule_of

_OWN = ("submission_id", "user_name", "problem_id", "create_time")
_JUDGED = ("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest")


class Boards:
    """Reached as `ledger.boards`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def standings(self, competition: Competition, *, problem_id: str = "", before: datetime | None = None) -> list[Standing]:
        """Every submission that may count, of one problem or of all, in no order; before: only those made until then, exclusive."""
        return await self._database.read(lambda connection: standings(connection, competition, problem_id, before))

    async def languages(self, submission_ids: Sequence[str]) -> dict[str, str]:
        """The language of each of these submissions: of the entries of a page, for it is not in the index that boards are made from."""
        columns = (submissions.c.submission_id, submissions.c.language)
        query = sa.select(*columns).where(
            submissions.c.submission_id.in_([submission_id for submission_id in submission_ids if submission_id])
        )
        return await self._database.read(lambda connection: {row.submission_id: row.language for row in connection.execute(query)})


def standings(
    connection: sa.Connection,
    competition: Competition,
    problem_id: str = "",
    before: datetime | None = None,
    *,
    judged: sa.Table = submissions,
    where: Sequence[sa.ColumnElement[bool]] = (),
) -> list[Standing]:
    """See `Boards.standings`. judged: the table whose judgements count, each of the submission that `where` joins it with."""
    columns = [*(submissions.c[name] for name in _OWN), *(judged.c[name] for name in _JUDGED)]
    end = competition.end_time if before is None else min(before, competition.end_time)
    banned = sa.select(bans.c.user_name).where(bans.c.competition_id == competition.competition_id)
    query = sa.select(*columns).where(
        *where,
        submissions.c.competition_id == competition.competition_id,
        submissions.c.problem_id.in_([problem_id] if problem_id else competition.problem_ids),
        submissions.c.mode == competition.mode,
        submissions.c.state == SubmissionState.SUCCEEDED,
        judged.c.verdict == Verdict.ACCEPTED,
        judged.c.score.is_not(None),
        submissions.c.rejudge_id.is_(None),
        submissions.c.withdraw_time.is_(None),
        submissions.c.user_name.not_in(banned),
        submissions.c.create_time >= competition.start_time,
        submissions.c.create_time < end,
    )
    rows = connection.execute(query).all()
    rules = {digest: rule_of(transactions.get_problem(connection, digest).spec) for digest in {row.problem_digest for row in rows}}
    return [
        Standing(
            submission_id=submission_id,
            user=user,
            problem_id=problem,
            device=device or "",
            clock=wire.Clock(clock or wire.Clock.HOST),
            score=Score(value=value, low=low, high=high),
            create_time=create_time,
            flags=tuple(flags.split(",")) if flags else (),
            rule=rules[digest],
        )
        for submission_id, user, problem, create_time, device, clock, value, low, high, flags, digest in rows
    ]
