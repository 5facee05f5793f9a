"""Checks whether the policy admits a user now, with quota and room left, inside the transaction that takes a submission in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa

from grader.errors import QueueFull, QueueShareUsed, QuotaExceeded
from grader.ledger import statements
from grader.ledger.tables import submissions
from grader.model import SubmissionState
from grader.rules.quotas import AdmissionPolicy, Quota, QuotaUse


def check(connection: sa.Connection, now: datetime, user: str, policy: AdmissionPolicy) -> None:
    """Raise what the policy refuses by, or QuotaExceeded where one more would be too many; of several quotas the one that is spent longest.

    What we failed at, and what was cancelled before anything was done for it, is not counted.
    """
    if policy.admit is not None:
        policy.admit(connection, now, user)
    spent = []
    for quota in policy.quotas:
        if len(counted := _counted(connection, now, user, quota)) >= quota.limit:
            # There is room again when the oldest of the last `limit` leaves the window.
            retry_s = max((counted[-1] + quota.window - now).total_seconds(), 1.0)
            spent.append(QuotaExceeded(quota.limit, retry_s, quota.period))
    if spent:
        raise max(spent, key=lambda error: error.retry_s or 0.0)


def check_room(connection: sa.Connection, user: str, queue_limit: int, user_limit: int | None) -> None:
    """QueueShareUsed where as many of this user wait as may, QueueFull where as many of all do. user_limit None: no share."""
    if user_limit is not None:
        waiting = int(connection.execute(statements.QUEUED_OF_USER, {"by_user": user}).scalar_one())
        if waiting >= user_limit:
            raise QueueShareUsed(user_limit)
    if int(connection.execute(statements.QUEUED_COUNT).scalar_one()) >= queue_limit:
        raise QueueFull(queue_limit)


def uses(connection: sa.Connection, now: datetime, user: str, quotas: Sequence[Quota]) -> list[QuotaUse]:
    """How many of each of these the user has used."""
    quota_uses = []
    for quota in quotas:
        counted = _counted(connection, now, user, quota)
        next_time = counted[-1] + quota.window if counted else None
        quota_uses.append(QuotaUse(quota=quota, used_count=len(counted), next_time=next_time))
    return quota_uses


def _counted(connection: sa.Connection, now: datetime, user: str, quota: Quota) -> Sequence[datetime]:
    """When those of the window that count were made, newest first, and no more than the limit."""
    table = submissions.c
    free = sa.or_(table.state == SubmissionState.FAILED, sa.and_(table.state == SubmissionState.CANCELLED, table.attempt == 0))
    query = (
        sa.select(table.create_time)
        .where(table.user_name == user, table.create_time > now - quota.window, table.rejudge_id.is_(None), sa.not_(free))
        .order_by(submissions.c.create_time.desc())
        .limit(quota.limit)
    )
    if quota.competition_id is not None:
        query = query.where(submissions.c.competition_id == quota.competition_id)
    return connection.execute(query).scalars().all()
