"""What each user took of the devices recently, in device-seconds that count half after HALF_LIFE_S.

Kept as the log2 of a sum of seconds, each times 2 ** (its time / half-life): a weight that never has to be decayed, for the order of two
users stays what it is as time goes by, and that never overflows.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.ledger import statements

HALF_LIFE_S = 3600.0


def charge(connection: sa.Connection, now: datetime, row: sa.Row[Any]) -> None:
    """Count the attempt that ended now for its user; what a rejudge ran is nobody's. row: the submission's."""
    if row.rejudge_id is not None or row.start_time is None:
        return
    seconds = (now - row.start_time).total_seconds()
    if seconds <= 0:
        return
    before = connection.execute(statements.USED, {"by_user": row.user_name}).scalar_one_or_none()
    weight = added(before, seconds, now)
    if before is None:
        connection.execute(statements.FIRST_USE, {"user_name": row.user_name, "log2_weight": weight})
    else:
        connection.execute(statements.USE, {"by_user": row.user_name, "log2_weight": weight})


def added(log2_weight: float | None, seconds: float, now: datetime) -> float:
    """The weight with so many seconds more."""
    new = math.log2(seconds) + now.timestamp() / HALF_LIFE_S
    if log2_weight is None:
        return new
    larger, smaller = max(log2_weight, new), min(log2_weight, new)
    return larger + math.log2(1.0 + 2.0 ** (smaller - larger))
