"""The order in which submissions are taken up, and what is known of when.  One order for leases, positions and estimates.

By priority, then by share, which is a user's, or a client's on a server without keys: who has fewest running now, then who used the
devices least recently (`charge`), then who came first. Of one share and priority always by number. What a rejudge asked for comes after
users' submissions, belongs to no share, and is taken by number; the class `batch` comes after all. Of each FIRST_COME_TURN turns of a
server one goes to the first that came of the quickest mode, whatever its share and class, and of each FIRST_COME_TURN of these one to the
first of all: neither shares that are new, or have more, nor a stream of a quicker mode keep it waiting for ever. Positions leave these
turns out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean
from typing import Any

import sqlalchemy as sa

from grader.ledger.tables import submissions, usage
from grader.model import DeviceDemand, Position, QueueDepth, SubmissionState
from sandbox.protocol import wire

# Smaller is sooner.
PRIORITIES = {
    **dict.fromkeys((wire.Mode.TEST, wire.Mode.SANITIZE), 0),
    **dict.fromkeys((wire.Mode.BENCHMARK, wire.Mode.PROFILE, wire.Mode.SWEEP), 1),
    wire.Mode.RANKED: 2,
}
REJUDGE_PRIORITY = 3
BATCH_PRIORITY = 10  # more than all of these, and added to the mode's
FIRST_COME_TURN = 7  # a prime: devices that are free in turn do not always meet the same
RECENT_COUNT = 200  # graded submissions that estimates are drawn from
_NO_USAGE = -1e300
# Built once: to build a statement takes longer than to run it.
_TIMED = (submissions.c.mode, submissions.c.device_kind, submissions.c.start_time)
_RUNNING = sa.select(*_TIMED).where(submissions.c.state == SubmissionState.RUNNING)
_RECENT = (
    sa.select(*_TIMED, submissions.c.end_time)
    .where(submissions.c.state == SubmissionState.SUCCEEDED, submissions.c.start_time.is_not(None))  # not one with another's result
    .order_by(submissions.c.number.desc())
    .limit(RECENT_COUNT)
    .subquery()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queue at one time: who waits, in order, each (id, mode, device kind); what runs, each (mode, device kind, seconds so far);
    what was graded recently, each (mode, device kind, mean seconds)."""

    waiting: tuple[tuple[str, str, str], ...]
    running: tuple[tuple[str, str, float], ...]
    recent: tuple[tuple[str, str, float], ...]


def next_number(choices: Sequence[str], *, first_come: int) -> sa.Select[tuple[int]]:
    """The number of the submission that is next among those that ask for one of these. first_come: 1: of its mode; 2: of all."""
    ordered, running, weight = _with_shares()
    order = ((submissions.c.priority, running, weight), (submissions.c.priority % BATCH_PRIORITY,), ())[first_come]
    return (
        sa.select(submissions.c.number)
        .select_from(ordered)
        .where(submissions.c.state == SubmissionState.QUEUED, submissions.c.device_kind.in_([sa.literal(choice) for choice in choices]))
        .order_by(*order, submissions.c.number)
        .limit(1)
        .with_for_update(skip_locked=True, of=submissions)
    )


def snapshot(connection: sa.Connection, now_s: float) -> Snapshot:
    """The whole queue in the order in which it is taken up if nothing else comes: each one taken is one more that its user has running."""
    query = in_order(submissions.c.submission_id, submissions.c.mode, submissions.c.device_kind)
    waiting = tuple((row.submission_id, row.mode, row.device_kind) for row in connection.execute(query))
    running, recent = connection.execute(_RUNNING).all(), connection.execute(_mean_seconds(connection.dialect.name)).all()
    return Snapshot(
        waiting=waiting,
        running=tuple((row.mode, row.device_kind, max(now_s - row.start_time.timestamp(), 0.0)) for row in running),
        recent=tuple((mode, device_kind, max(mean_s, 0.0)) for mode, device_kind, mean_s in recent),
    )


@cache
def _mean_seconds(dialect: str) -> sa.Select[Any]:
    """Select by mode and device; the database computes them, for Python gives its interpreter up for each row that it reads of SQLite."""
    seconds = (lambda time: sa.extract("epoch", time)) if dialect == "postgresql" else (lambda time: sa.func.julianday(time) * 86400.0)
    mean_s = sa.func.avg(seconds(_RECENT.c.end_time) - seconds(_RECENT.c.start_time), type_=sa.Float)
    return sa.select(_RECENT.c.mode, _RECENT.c.device_kind, mean_s).group_by(_RECENT.c.mode, _RECENT.c.device_kind)


@cache
def in_order(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Select columns of what waits, in the order in which it is taken up."""
    ordered, running, weight = _with_shares()
    owner = sa.case((submissions.c.rejudge_id.is_(None), submissions.c.share), else_=None)
    nth = sa.func.row_number().over(partition_by=owner, order_by=[submissions.c.priority, submissions.c.number])
    turn = sa.case((submissions.c.rejudge_id.is_(None), running + nth), else_=0)
    return (
        sa.select(*columns)
        .select_from(ordered)
        .where(submissions.c.state == SubmissionState.QUEUED)
        .order_by(submissions.c.priority, turn, weight, submissions.c.number)
    )


def positions(of: Snapshot, lane_count: int) -> dict[str, Position]:
    """Where each one that waits is. Those for another kind of device are not in its way. lane_count: 0 where no worker is joined."""
    seconds: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for mode, kind, took_s in of.recent:
        seconds[mode, _base(kind)].append(took_s)
    mean_s = {key: fmean(values) for key, values in seconds.items()}
    left_s: defaultdict[str, float] = defaultdict(float)  # by kind of device, of which there are few
    for mode, kind, ran_s in of.running:
        left_s[_base(kind)] += max(mean_s.get((mode, _base(kind)), 0.0), ran_s) - ran_s
    lanes = max(lane_count, len(of.running))
    counts: Counter[str] = Counter()
    ahead_s: defaultdict[str, float] = defaultdict(float)
    by_id = {}
    for submission_id, mode, device_kind in of.waiting:
        base = _base(device_kind)
        own_s = mean_s.get((mode, base))
        meets = {base, ""} if base else {"", *counts, *left_s}
        estimated_s = None
        if own_s is not None and lanes:
            estimated_s = sum(ahead_s.get(kind, 0.0) + left_s.get(kind, 0.0) for kind in meets) / lanes
        by_id[submission_id] = Position(ahead_count=sum(counts[kind] for kind in meets), estimated_s=estimated_s, no_worker=not lanes)
        counts[base] += 1
        ahead_s[base] += own_s or 0.0
    return by_id


def _with_shares() -> tuple[sa.FromClause, sa.ColumnElement[int], sa.ColumnElement[float]]:
    """Submissions next to what their shares have running, and have used recently."""
    usage_rows = (
        sa.select(submissions.c.share, sa.func.count().label("running_count"))
        .where(submissions.c.state == SubmissionState.RUNNING, submissions.c.rejudge_id.is_(None))
        .group_by(submissions.c.share)
        .subquery("taken")
    )
    ordered = submissions.outerjoin(usage_rows, usage_rows.c.share == submissions.c.share).outerjoin(
        usage, usage.c.user_name == submissions.c.share
    )
    is_users = submissions.c.rejudge_id.is_(None)
    running = sa.case((is_users, sa.func.coalesce(usage_rows.c.running_count, 0)), else_=0)
    weight = sa.case((is_users, sa.func.coalesce(usage.c.log2_weight, _NO_USAGE)), else_=_NO_USAGE)
    return ordered, running, weight


def _base(kind: str) -> str:
    return kind.split(":", 1)[0]


def depths(connection: sa.Connection) -> list[QueueDepth]:
    """Return what waits, by mode; modes of which nothing waits are left out."""
    query = (
        sa.select(submissions.c.mode, sa.func.count().label("waiting"), sa.func.min(submissions.c.create_time).label("oldest"))
        .where(submissions.c.state == SubmissionState.QUEUED)
        .group_by(submissions.c.mode)
    )
    return [QueueDepth(mode=wire.Mode(row.mode), count=row.waiting, oldest_time=row.oldest) for row in connection.execute(query)]


def device_demands(connection: sa.Connection) -> list[DeviceDemand]:
    """Return what waits and runs, by the device that it asks for."""
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
