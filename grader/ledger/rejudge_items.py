"""The submissions of a rejudge: how each is decided, by its facts or by a run, and how the rejudge ends.  Functions on a connection.

A run is a row of `submissions` that belongs to no user's list; the queue, leases and retries know no difference. Applying adds a judgement
to each submission and copies it into the submission's row; nothing else of it changes, and no event follows its last one.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.errors import RejudgeOutdated
from grader.ledger import queue, records
from grader.ledger.changes import NewsKind, tell
from grader.ledger.tables import FOUND, events, judgements, rejudge_items, rejudges, submissions
from grader.model import Failure, Report, SubmissionState
from grader.rules.rejudge import RejudgeMethod, RejudgeOrder, RejudgeState
from sandbox.protocol import wire

CHUNK = 500  # values in one statement
NO_SOURCES = Failure(reason="SOURCES_REMOVED", message="its sources are kept no longer, so it can't be run again", final=True)
# What a run has of its submission; the rest is its own.
_COPIED = ("body_digest", "problem_id", "language", "entry", "mode", "sources", "user_name", "competition_id")
GAVE_UP = (SubmissionState.FAILED, SubmissionState.CANCELLED)
_RUN = submissions.alias("run")
_BASE = judgements.alias("base")  # the judgement that counted when the submission was chosen
_IS_BASE = sa.and_(_BASE.c.number == rejudge_items.c.number, _BASE.c.sequence == rejudge_items.c.judgement_count)
_OPEN = sa.and_(rejudges.c.state == RejudgeState.RUNNING, rejudge_items.c.verdict.is_(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """An item that is neither decided nor being run. lines: the facts of its counting judgement, as JSON; none where all are run."""

    rejudge_id: str
    number: int
    submission_id: str
    method: RejudgeMethod
    mode: wire.Mode
    entry: str
    old_digest: str
    new_digest: str
    lines: tuple[str, ...]


def insert(connection: sa.Connection, rejudge_id: str, digest: str, numbers: Sequence[int]) -> None:
    """Choose these submissions, to be judged by the problem of this digest."""
    names = ["rejudge_id", "number", "problem_digest", "judgement_count"]
    for start in range(0, len(numbers), CHUNK):
        chosen = sa.select(sa.literal(rejudge_id), submissions.c.number, sa.literal(digest), submissions.c.judgement_count).where(
            submissions.c.number.in_(numbers[start : start + CHUNK])
        )
        connection.execute(sa.insert(rejudge_items).from_select(names, chosen))


def undecided(connection: sa.Connection, limit: int) -> list[Undecided]:
    """The next that somebody has to look at, oldest rejudge first."""
    columns: list[sa.ColumnElement[Any]] = [
        rejudges.c.document,
        *(rejudge_items.c[name] for name in ("rejudge_id", "number", "problem_digest")),
        *(submissions.c[name] for name in ("submission_id", "mode", "entry")),
        *(_BASE.c[name] for name in ("source_number", "attempt")),
        _BASE.c.problem_digest.label("old_digest"),
    ]
    query = (
        sa.select(*columns)
        .join(rejudges, rejudges.c.rejudge_id == rejudge_items.c.rejudge_id)
        .join(submissions, submissions.c.number == rejudge_items.c.number)
        .join(_BASE, _IS_BASE)
        .where(_OPEN, rejudge_items.c.run_number.is_(None))
        .order_by(rejudges.c.sequence, rejudge_items.c.number)
        .limit(limit)
    )
    items = []
    for row in connection.execute(query).all():
        method = order(row.document).method
        facts = (
            sa.select(events.c.fact)
            .where(events.c.number == row.source_number, events.c.attempt == row.attempt, events.c.fact.is_not(None))
            .order_by(events.c.sequence)
        )
        items.append(
            Undecided(
                rejudge_id=row.rejudge_id,
                number=row.number,
                submission_id=row.submission_id,
                method=method,
                mode=wire.Mode(row.mode),
                entry=row.entry,
                old_digest=row.old_digest,
                new_digest=row.problem_digest,
                lines=tuple(connection.scalars(facts)) if method is not RejudgeMethod.RUN else (),
            )
        )
    return items


def order(document: str) -> RejudgeOrder:
    """Return what was asked for, from where it is kept."""
    data = json.loads(document)
    return RejudgeOrder(**data | {"submission_ids": tuple(data["submission_ids"]), "method": RejudgeMethod(data["method"])})


def decide(connection: sa.Connection, now: datetime, rulings: Iterable[tuple[Undecided, Report | None]]) -> int:
    """Write what facts decided, and put runs of the rest into the queue; says how many. What another server was quicker at is left."""
    run_count = 0
    for item, report in rulings:
        this = sa.and_(rejudge_items.c.rejudge_id == item.rejudge_id, rejudge_items.c.number == item.number)
        query = sa.select(rejudges.c.document, rejudge_items.c.problem_digest).join(
            rejudges, rejudges.c.rejudge_id == rejudge_items.c.rejudge_id
        )
        open_item = connection.execute(query.where(this, _OPEN, rejudge_items.c.run_number.is_(None))).one_or_none()
        if open_item is None:
            continue
        if report is not None:
            connection.execute(sa.update(rejudge_items).where(this).values(records.judged(report)))
        else:
            run_number = _run(connection, now, item, order(open_item.document).device_kind, open_item.problem_digest)
            connection.execute(sa.update(rejudge_items).where(this).values(run_number=run_number))
            run_count += 1
    return run_count


def _run(connection: sa.Connection, now: datetime, item: Undecided, device_kind: str, digest: str) -> int:
    """A new run of a submission, by another problem; one that failed where there is nothing left to run."""
    there = bool(connection.scalar(sa.select(submissions.c.sources != "").where(submissions.c.number == item.number)))
    state = SubmissionState.QUEUED if there else SubmissionState.FAILED
    run_id = secrets.token_hex(8)
    columns: dict[str, Any] = {
        **{"submission_id": run_id, "problem_digest": digest, "state": state, "create_time": now, "rejudge_id": item.rejudge_id},
        **{"attempt": 0, "fault_count": 0, "judgement_count": 0, "cancel_requested": False, "event_count": 1},
        "priority": queue.REJUDGE_PRIORITY,
        **({"device_kind": device_kind} if device_kind else {}),
        **({} if there else {"end_time": now, "failure": records.to_text(NO_SOURCES)}),
    }
    copied = [*_COPIED, *(() if device_kind else ("device_kind",))]
    literals = [sa.literal(value, submissions.c[name].type) for name, value in columns.items()]
    source = sa.select(*(submissions.c[name] for name in copied), *literals).where(submissions.c.number == item.number)
    number = connection.execute(
        sa.insert(submissions).from_select([*copied, *columns], source).returning(submissions.c.number)
    ).scalar_one()
    connection.execute(sa.insert(events).values(number=number, sequence=1, event_time=now, attempt=0, state=state))
    tell(connection, NewsKind.QUEUED, run_id)
    return int(number)


def settled(connection: sa.Connection, run: sa.Row[Any], columns: dict[str, Any]) -> None:
    """A run was judged: that decides its item, in the same transaction. run: its row; found: the columns of its judgement."""
    wanted = sa.select(rejudges.c.rejudge_id).where(rejudges.c.rejudge_id == run.rejudge_id, rejudges.c.state == RejudgeState.RUNNING)
    connection.execute(
        sa.update(rejudge_items)
        .where(rejudge_items.c.rejudge_id.in_(wanted), rejudge_items.c.run_number == run.number, rejudge_items.c.verdict.is_(None))
        .values(columns)
    )


def try_again(connection: sa.Connection, rejudge_id: str) -> int:
    """Let what failed be looked at once more, as if it had never been run; says how many."""
    gone = sa.select(submissions.c.number).where(submissions.c.rejudge_id == rejudge_id, submissions.c.state.in_(GAVE_UP))
    mine = sa.and_(rejudge_items.c.rejudge_id == rejudge_id, rejudge_items.c.verdict.is_(None), rejudge_items.c.run_number.in_(gone))
    return connection.execute(sa.update(rejudge_items).where(mine).values(run_number=None)).rowcount


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
    # Its facts are those of the run, or those that the judgement before was drawn from.
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
    joined = rejudge_items.join(_BASE, _IS_BASE).outerjoin(_RUN, _RUN.c.number == rejudge_items.c.run_number)
    connection.execute(sa.insert(judgements).from_select(list(values), sa.select(*values.values()).select_from(joined).where(mine)))
    head = {name: rejudge_items.c[name] for name in (*FOUND, "problem_digest")}
    connection.execute(
        sa.update(submissions)
        .where(mine, submissions.c.number == rejudge_items.c.number)
        .values(judgement_count=rejudge_items.c.judgement_count + 1, **head)
    )
    _end(connection, now, rejudge_id, RejudgeState.APPLIED)


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
        rows = waiting[start : start + CHUNK]
        common = {"event_time": now, "state": SubmissionState.CANCELLED}
        ended = [{**common, "number": row.number, "sequence": row.event_count, "attempt": row.attempt} for row in rows]
        connection.execute(sa.insert(events), ended)
    running = sa.update(submissions).where(runs, submissions.c.state == SubmissionState.RUNNING).values(cancel_requested=True)
    stopped = connection.scalars(running.returning(submissions.c.submission_id)).all()
    _end(connection, now, rejudge_id, RejudgeState.DISCARDED)
    return list(stopped)


def _end(connection: sa.Connection, now: datetime, rejudge_id: str, state: RejudgeState) -> None:
    """End a rejudge. Its results stay, except for the reports: by now they are where judgements are, or of no use."""
    connection.execute(sa.update(rejudge_items).where(rejudge_items.c.rejudge_id == rejudge_id).values(report=None))
    connection.execute(sa.update(rejudges).where(rejudges.c.rejudge_id == rejudge_id).values(state=state, end_time=now))
