"""How much waits, for metrics: one query over the queue, which `--queue-limit` bounds."""

from __future__ import annotations

import sqlalchemy as sa

from grader.ledger.tables import submissions
from grader.model import QueueDepth, SubmissionState
from sandbox.protocol import wire


def depths(connection: sa.Connection) -> list[QueueDepth]:
    """What waits, by mode; modes of which nothing waits are left out."""
    query = (
        sa.select(submissions.c.mode, sa.func.count().label("waiting"), sa.func.min(submissions.c.create_time).label("oldest"))
        .where(submissions.c.state == SubmissionState.QUEUED)
        .group_by(submissions.c.mode)
    )
    return [QueueDepth(mode=wire.Mode(row.mode), count=row.waiting, oldest_time=row.oldest) for row in connection.execute(query)]
