"""How a rejudge ends: its judgements become those that count, or are dropped.  Functions on a connection.

Applying adds a judgement to each submission and copies it into the submission's row; nothing else of it changes, and no event follows
its last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.errors import RejudgeOutdated
from grader.ledger import hooks
from grader.ledger.rejudge_items import CHUNK
from grader.ledger.tables import events, judgements, rejudge_items, rejudges, submissions
from grader.model import SubmissionState
from grader.rules.rejudge import RejudgeState

# What a judgement has of its own, in all three tables.
FOUND = ("verdict", "reason", "summary", "report", "device", "clock", "score", "score_low", "score_high", "flags")
_RUN = submissions.alias("run")
_BASE = judgements.alias("base")


def apply(connection: sa.Connection, now: datetime, rejudge_id: str) -> None:
    """Let the new judgements count. RejudgeOutdated, and nothing changed, where a submission was judged again since it was chosen."""
    mine = rejudge_items.c.rejudge_id == rejudge_id
    joined = rejudge_items.join(submissions, submissions.c.number == rejudge_items.c.number)
    moved = submissions.c.judgement_count != rejudge_items.c.judgement_count
    outdated = connection.execute(
        sa.select(submissions.c.submission_id).select_from(joined).where(mine, moved).order_by(submissions.c.number)
    ).first()
    if outdated is not None:
        raise RejudgeOutdated(rejudge_id, outdated.submission_id)
    changed = _changed(connection, mine)
    _add_judgements(connection, now, rejudge_id)
    head = {name: rejudge_items.c[name] for name in (*FOUND, "problem_digest")}
    connection.execute(
        sa.update(submissions)
        .where(mine, submissions.c.number == rejudge_items.c.number)
        .values(judgement_count=rejudge_items.c.judgement_count + 1, **head)
    )
    hooks.enqueue(connection, now, changed, hooks.HookEvent.JUDGED_AGAIN)
    _end(connection, now, rejudge_id, RejudgeState.APPLIED)


def _changed(connection: sa.Connection, mine: sa.ColumnElement[bool]) -> Sequence[int]:
    """The submissions whose verdict, reason or score is another one."""
    names = ("verdict", "reason", "score", "score_low", "score_high")
    other = sa.or_(*(submissions.c[name].is_distinct_from(rejudge_items.c[name]) for name in names))
    query = sa.select(submissions.c.number).join(rejudge_items, rejudge_items.c.number == submissions.c.number)
    return connection.scalars(query.where(mine, other).order_by(submissions.c.number)).all()


def _add_judgements(connection: sa.Connection, now: datetime, rejudge_id: str) -> None:
    """Its facts are those of the run, or those that the judgement before was drawn from."""
    values: dict[str, sa.ColumnElement[Any]] = {
        "number": rejudge_items.c.number,
        "sequence": rejudge_items.c.judgement_count + 1,
        "source_number": sa.func.coalesce(rejudge_items.c.run_number, _BASE.c.source_number),
        "attempt": sa.func.coalesce(_RUN.c.attempt, _BASE.c.attempt),
        "problem_digest": rejudge_items.c.problem_digest,
        "rejudge_id": rejudge_items.c.rejudge_id,
        "create_time": sa.literal(now, judgements.c.create_time.type),
        **{name: rejudge_items.c[name] for name in FOUND},
    }
    base = sa.and_(_BASE.c.number == rejudge_items.c.number, _BASE.c.sequence == rejudge_items.c.judgement_count)
    joined = rejudge_items.join(_BASE, base).outerjoin(_RUN, _RUN.c.number == rejudge_items.c.run_number)
    source = sa.select(*values.values()).select_from(joined).where(rejudge_items.c.rejudge_id == rejudge_id)
    connection.execute(sa.insert(judgements).from_select(list(values), source))


def discard(connection: sa.Connection, now: datetime, rejudge_id: str) -> list[str]:
    """Drop it: runs that wait are cancelled, those that are under way are asked to stop. The answer is the ids of the latter."""
    runs = submissions.c.rejudge_id == rejudge_id
    waiting = connection.execute(
        sa.update(submissions)
        .where(runs, submissions.c.state == SubmissionState.QUEUED)
        .values(state=SubmissionState.CANCELLED, cancel_requested=True, end_time=now, event_count=submissions.c.event_count + 1)
        .returning(submissions.c.number, submissions.c.event_count, submissions.c.attempt)
    ).all()
    for start in range(0, len(waiting), CHUNK):
        sentence = [
            {
                "number": row.number,
                "sequence": row.event_count,
                "event_time": now,
                "attempt": row.attempt,
                "state": SubmissionState.CANCELLED,
            }
            for row in waiting[start : start + CHUNK]
        ]
        connection.execute(sa.insert(events), sentence)
    running = sa.update(submissions).where(runs, submissions.c.state == SubmissionState.RUNNING).values(cancel_requested=True)
    stopped = connection.scalars(running.returning(submissions.c.submission_id)).all()
    _end(connection, now, rejudge_id, RejudgeState.DISCARDED)
    return list(stopped)


def _end(connection: sa.Connection, now: datetime, rejudge_id: str, state: RejudgeState) -> None:
    """What was found out stays, but for the reports: by now they are where judgements are, or of no use."""
    connection.execute(sa.update(rejudge_items).where(rejudge_items.c.rejudge_id == rejudge_id).values(report=None))
    connection.execute(sa.update(rejudges).where(rejudges.c.rejudge_id == rejudge_id).values(state=state, end_time=now))
