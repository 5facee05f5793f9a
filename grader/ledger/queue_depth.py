"""How much waits and runs, for metrics: queries over the queue, which `--queue-limit` bounds."""

from __future__ import annotations

import sqlalchemy as sa

from grader.ledger.tables import submissions
from grader.model import DeviceDemand, QueueDepth, SubmissionState
from sandbox.protocol import wire


def depths(connection: sa.Connection) -> list[QueueDepth]:
    """What waits, by mode; modes of which nothing waits are left out."""
    query = (
        sa.select(submissions.c.mode, sa.func.count().label("waiting"), sa.func.min(submissions.c.create_time).label("oldest"))
        .where(submissions.c.state == SubmissionState.QUEUED)
        .group_by(submissions.c.mode)
    )
    return [QueueDepth(mode=wire.Mode(row.mode), count=row.waiting, oldest_time=row.oldest) for row in connection.execute(query)]


def device_demands(connection: sa.Connection) -> list[DeviceDemand]:
    """What waits and runs, by the device that it asks for."""
    table = submissions.c
    queued, running = (
        sa.func.sum(sa.case((table.state == state, 1), else_=0)) for state in (SubmissionState.QUEUED, SubmissionState.RUNNING)
    )
    query = (
        sa.select(table.device_kind, queued.label("queued"), running.label("running"))
        .where(table.state.in_([SubmissionState.QUEUED, SubmissionState.RUNNING]))
        .group_by(table.device_kind)
    )
    return [
        DeviceDemand(device_kind=row.device_kind, queued_count=int(row.queued), running_count=int(row.running))
        for row in connection.execute(query)
    ]
