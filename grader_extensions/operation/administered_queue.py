"""The queue as an administrator sees and changes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from grader.ledger import records, transactions
from grader.ledger.queue import in_order
from grader.ledger.tables import submissions
from grader.model import SubmissionState

FIRST_PRIORITY = -1  # sooner than every other one of `grader/ledger/queue.py`


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A submission that runs or waits, as an administrator sees it. since: when it was taken up, or made; worker_id: "" where it waits;
    user: "" of what a rejudge asked for."""

    submission_id: str
    state: SubmissionState
    user: str
    mode: str
    device_kind: str
    competition_id: str
    since: datetime
    worker_id: str


def entries(connection: sa.Connection) -> list[QueueEntry]:
    """Return what runs, longest first, and what waits, in order."""
    names = ("submission_id", "state", "user_name", "mode", "device_kind", "competition_id", "create_time", "start_time", "worker_id")
    columns = [submissions.c[name] for name in (*names, "rejudge_id")]
    running = sa.select(*columns).where(submissions.c.state == SubmissionState.RUNNING).order_by(submissions.c.start_time)
    return [
        records.read(
            QueueEntry,
            row._mapping,
            state=SubmissionState(row.state),
            user="" if row.rejudge_id else row.user_name,
            since=row.start_time if row.state == SubmissionState.RUNNING else row.create_time,
            worker_id=row.worker_id if row.state == SubmissionState.RUNNING else "",
        )
        for row in [*connection.execute(running), *connection.execute(in_order(*columns))]
    ]


def take_first(connection: sa.Connection, submission_id: str) -> None:
    """Put a submission that waits before all others. SubmissionNotFound; ValueError where it runs or has ended."""
    here = sa.and_(submissions.c.submission_id == submission_id, submissions.c.state == SubmissionState.QUEUED)
    if not connection.execute(sa.update(submissions).where(here).values(priority=FIRST_PRIORITY)).rowcount:
        state = transactions.get(connection, submission_id).state
        raise ValueError(f"submission {submission_id!r} is {state.upper()}; only one that waits can be taken up next")
