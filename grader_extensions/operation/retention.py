"""Removes what is kept for a time only: sources, and facts that no judgement is drawn from.  Verdicts, judgements and scores stay.

Nothing is touched that may still be graded or judged: what is not final, what belongs to a competition that is not named as over, and
what is in a rejudge that was neither applied nor discarded.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog

from grader.errors import GraderFault
from grader.extensions import SubmitPolicy
from grader.ledger import Ledger
from grader.ledger.tables import events, judgements, rejudge_items, rejudges, submissions
from grader.model import SubmissionState

log = structlog.get_logger()

DELAY_S = 60.0  # after a server's start, when whatever waited is under way
INTERVAL_S = 24 * 3600.0
BATCH_PAUSE_S = 0.05  # between batches, for others that want to write
BATCH = 100  # submissions in one transaction: a submitter waits no longer than for that
REMOVED = ""  # sources of a submission: never stored so otherwise, for there is no submission without a file
_FINAL = tuple(state for state in SubmissionState if state.final)
_OVER = ("applied", "discarded")  # states of a rejudge

# Facts that no judgement is drawn from, of the submission that they are of or of one that it was run for.
_IDLE = sa.and_(
    events.c.fact.is_not(None), ~sa.exists().where(judgements.c.source_number == events.c.number, judgements.c.attempt == events.c.attempt)
)


class Retention:
    """Removes once a day what is due. Several servers on one ledger may all do it.

    sources_days, events_days: for how long each is kept; 0: for ever.
    """

    def __init__(self, ledger: Ledger, policy: SubmitPolicy, *, sources_days: int = 0, events_days: int = 0) -> None:
        self._ledger, self._database, self._policy = ledger, ledger.database, policy
        self._days = {"sources": (sources_days, self.remove_sources), "events": (events_days, self.remove_events)}
        self._finished = Counter[str]()  # by table: up to this number nothing is left, so that no later pass of this process looks there

    async def run(self, first_s: float = DELAY_S) -> None:
        """Work until cancelled; return at once where everything is kept for ever."""
        if not any(days for days, _ in self._days.values()):
            return
        await asyncio.sleep(first_s)
        while True:
            try:
                counts = await self.remove_due()
                log.info("retention_done", **{f"{kind}_removed_count": counts[kind] for kind in self._days})
            except GraderFault as error:  # a busy ledger; what is left is removed the next time
                log.warning("retention_failed", reason=error.reason, detail=error.detail)
            await asyncio.sleep(INTERVAL_S)

    async def remove_due(self) -> Counter[str]:
        """Remove what is due now, and return how many."""
        counts = Counter[str]()
        for kind, (days, remove) in self._days.items():
            if not days:
                continue
            before = self._ledger.now() - timedelta(days=days)
            # As long after a competition's end as after a submission's own: its final may run them again. One that is not known may go on.
            over = self._policy.ended(before)
            after, last = -1, 0
            while last > after:
                after = last
                last, count = await remove(before, over, after=after)
                counts[kind] += count
                await asyncio.sleep(BATCH_PAUSE_S if last > after else 0)
        return counts

    async def remove_sources(self, ended_before: datetime, over: Sequence[str], *, after: int = 0) -> tuple[int, int]:
        """Empty the sources of a batch; return its last number, to continue after, and the count of changed submissions. over: the
        competitions whose submissions may be touched."""
        there = submissions.c.sources != REMOVED
        change = sa.update(submissions).values(sources=REMOVED)
        return await self._batch(_due(ended_before, over), there, after, change)

    async def remove_events(self, ended_before: datetime, over: Sequence[str], *, after: int = 0) -> tuple[int, int]:
        """Delete, in the same way, facts of attempts that no judgement is drawn from. Changes of state stay."""
        there = sa.exists().where(events.c.number == submissions.c.number, _IDLE)
        return await self._batch(_due(ended_before, over), there, after, sa.delete(events).where(_IDLE))

    async def _batch(
        self, due: sa.ColumnElement[bool], there: sa.ColumnElement[bool], after: int, change: sa.Update | sa.Delete
    ) -> tuple[int, int]:
        """Look for them next to the writers, then ask again whether they are due, for a rejudge may have been made since. there: something
        is left to remove."""
        table, query = str(change.table), sa.select(submissions.c.number).order_by(submissions.c.number).limit(BATCH)
        batch = query.where(due, there, submissions.c.number > max(after, self._finished[table]))
        numbers = await self._database.read(lambda connection: connection.scalars(batch).all())
        if not numbers:
            unfinished = query.where(sa.or_(sa.not_(due), there), submissions.c.number > self._finished[table])
            first = await self._database.read(lambda connection: connection.scalar(unfinished.limit(1)))
            self._finished[table] = max(self._finished[table], (first or 0) - 1)
            return after, 0

        def work(connection: sa.Connection) -> int:
            still = connection.scalars(query.where(due, there, submissions.c.number.in_(numbers))).all()
            if still:
                connection.execute(change.where(change.table.c.number.in_(still)))
            return len(still)

        return numbers[-1], await self._database.write(work)


def _due(ended_before: datetime, over: Sequence[str]) -> sa.ColumnElement[bool]:
    # By no index of states or competitions, and not by a list of a rejudge's items: each batch would read them all again.
    awaited = sa.select(rejudges.c.rejudge_id).where(rejudges.c.state.not_in(_OVER))
    return sa.and_(
        sa.func.coalesce(submissions.c.state, "").in_(_FINAL),
        submissions.c.end_time < ended_before,
        sa.func.coalesce(submissions.c.competition_id, "").in_(["", *over]),
        ~sa.exists().where(rejudge_items.c.number == submissions.c.number, rejudge_items.c.rejudge_id.in_(awaited)),
        sa.or_(submissions.c.rejudge_id.is_(None), submissions.c.rejudge_id.not_in(awaited)),
    )
