"""Which files belong to which submission.  Their bytes are elsewhere: `grader/artifacts.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import sqlalchemy as sa

from grader.ledger import records
from grader.ledger.database import Database
from grader.ledger.tables import artifacts, submissions
from grader.model import SubmissionArtifact
from sandbox.protocol import wire

BATCH = 500


class ArtifactRecords:
    """Lists and forgets them. Reached as `ledger.artifacts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, submission_id: str, *, made_after: datetime | None = None) -> list[SubmissionArtifact]:
        """The files of the latest attempt, by name; only those made after a time, where one is given."""
        query = (
            sa.select(artifacts)
            .join(submissions, sa.and_(submissions.c.number == artifacts.c.number, submissions.c.attempt == artifacts.c.attempt))
            .where(submissions.c.submission_id == submission_id)
            .order_by(artifacts.c.name)
        )
        if made_after is not None:
            query = query.where(artifacts.c.create_time > made_after)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [records.read(SubmissionArtifact, row._mapping) for row in rows]

    async def remove_made_before(self, before: datetime) -> int:
        """Forget files that were made before a time, at most BATCH of them; how many there were."""
        key = (artifacts.c.number, artifacts.c.attempt, artifacts.c.name)
        due = sa.select(*key).where(artifacts.c.create_time < before).order_by(artifacts.c.create_time).limit(BATCH)

        def work(connection: sa.Connection) -> int:
            rows = [tuple(row) for row in connection.execute(due)]
            if rows:
                connection.execute(sa.delete(artifacts).where(sa.tuple_(*key).in_(rows)))
            return len(rows)

        return await self._database.write(work)

    async def unknown(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that no file has, at most BATCH of them."""
        query = sa.select(artifacts.c.digest).where(artifacts.c.digest.in_(digests))
        recorded = await self._database.read(lambda connection: set(connection.scalars(query)))
        return set(digests) - recorded


def insert(connection: sa.Connection, now: datetime, number: int, attempt: int, facts: Iterable[wire.Fact]) -> None:
    """Write down the files among the facts of an attempt."""
    common = {"number": number, "attempt": attempt, "create_time": now}
    files = [fact for fact in facts if isinstance(fact, wire.ArtifactFile)]
    if rows := [{**common, **wire.parts(fact)} for fact in files]:
        connection.execute(sa.insert(artifacts), rows)
