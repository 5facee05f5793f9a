"""Removes what is kept for a time only: sources, and facts that no judgement is drawn from.  Verdicts, judgements and scores stay.

Nothing is touched that may still be graded or judged: what is not final, what belongs to a competition that is not named as over, and
what is in a rejudge that was neither applied nor discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import sqlalchemy as sa

from grader.ledger.database import Database
from grader.ledger.tables import events, judgements, rejudge_items, rejudges, submissions
from grader.model import SubmissionState

BATCH = 100  # submissions in one transaction: a submitter waits no longer than for that
REMOVED = ""  # sources of a submission: never stored so otherwise, for there is no submission without a file
_FINAL = tuple(state for state in SubmissionState if state.final)
_OVER = ("applied", "discarded")  # states of a rejudge

_Change = Callable[[Sequence[int]], sa.Executable]
# Facts that no judgement is drawn from, of the submission that they are of or of one that it was run for.
_IDLE = sa.and_(
    events.c.fact.is_not(None), ~sa.exists().where(judgements.c.source_number == events.c.number, judgements.c.attempt == events.c.attempt)
)


class Retention:
    """Process a batch; return its last number, to continue after, and the count of changed submissions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def remove_sources(self, ended_before: datetime, over: Sequence[str], *, after: int = 0) -> tuple[int, int]:
        """Empty sources. over: the competitions whose submissions may be touched."""
        due = sa.and_(_due(ended_before, over), submissions.c.sources != REMOVED)
        return await self._batch(
            due, after, lambda numbers: sa.update(submissions).where(submissions.c.number.in_(numbers)).values(sources=REMOVED)
        )

    async def remove_events(self, ended_before: datetime, over: Sequence[str], *, after: int = 0) -> tuple[int, int]:
        """Delete facts of attempts that no judgement is drawn from. Changes of state stay."""
        due = sa.and_(_due(ended_before, over), sa.exists().where(events.c.number == submissions.c.number, _IDLE))
        return await self._batch(due, after, lambda numbers: sa.delete(events).where(events.c.number.in_(numbers), _IDLE))

    async def _batch(self, due: sa.ColumnElement[bool], after: int, change: _Change) -> tuple[int, int]:
        """Look for them next to the writers, then ask again whether they are due, for a rejudge may have been made since."""
        query = sa.select(submissions.c.number).order_by(submissions.c.number).limit(BATCH)
        numbers = await self._database.read(lambda connection: connection.scalars(query.where(due, submissions.c.number > after)).all())
        if not numbers:
            return after, 0

        def work(connection: sa.Connection) -> int:
            still = connection.scalars(query.where(due, submissions.c.number.in_(numbers))).all()
            if still:
                connection.execute(change(still))
            return len(still)

        return numbers[-1], await self._database.write(work)


def _due(ended_before: datetime, over: Sequence[str]) -> sa.ColumnElement[bool]:
    awaited = sa.select(rejudges.c.rejudge_id).where(rejudges.c.state.not_in(_OVER))
    return sa.and_(
        submissions.c.state.in_(_FINAL),
        submissions.c.end_time < ended_before,
        submissions.c.competition_id.in_(["", *over]),
        submissions.c.number.not_in(sa.select(rejudge_items.c.number).where(rejudge_items.c.rejudge_id.in_(awaited))),
        sa.or_(submissions.c.rejudge_id.is_(None), submissions.c.rejudge_id.not_in(awaited)),
    )
