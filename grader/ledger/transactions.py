"""What happens inside one transaction each.  Plain functions on a connection; `ledger.py` runs them on its threads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.errors import AlreadyFinished, LeaseLost, QueueFull, RequestIdReused, SubmissionNotFound
from grader.ledger import records
from grader.ledger.tables import events, problems, submissions
from grader.model import Event, Failure, Lease, NewSubmission, Problem, Report, Submission, SubmissionState
from sandbox import wire

ATTEMPT_LIMIT = 3  # spoiled attempts; the last one fails the submission
_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
_LISTED = [column for column in submissions.c if column.name not in {"sources", "report"}]


def _fence(lease: Lease) -> sa.ColumnElement[bool]:
    return sa.and_(
        submissions.c.submission_id == lease.submission.submission_id,
        submissions.c.worker_id == lease.worker_id,
        submissions.c.attempt == lease.attempt,
        submissions.c.state == SubmissionState.RUNNING,
    )


def _move(
    connection: sa.Connection, where: sa.ColumnElement[bool], now: datetime, state: SubmissionState, **values: Any
) -> sa.Row[Any] | None:
    """Change the one row that `where` finds to state, and write the event of it; None where no row is found."""
    change = {"state": state, "event_count": submissions.c.event_count + 1, **values}
    if state.final:
        change["end_time"] = now
    if state is not SubmissionState.RUNNING:
        change |= {"worker_id": None, "lease_expire_time": None}
    row = connection.execute(sa.update(submissions).where(where).values(change).returning(submissions)).one_or_none()
    if row is not None:
        connection.execute(
            sa.insert(events).values(number=row.number, sequence=row.event_count, event_time=now, attempt=row.attempt, state=state)
        )
    return row


def submit(
    connection: sa.Connection, now: datetime, submission_id: str, new: NewSubmission, problem: Problem, request_id: str, queue_limit: int
) -> Submission:
    """Put a new submission into the queue, or find the one that the same request made."""
    digest = records.body_digest(new)
    if request_id:
        before = connection.execute(sa.select(submissions).where(submissions.c.request_id == request_id)).one_or_none()
        if before is not None:
            if before.body_digest != digest:
                raise RequestIdReused(request_id)
            return records.submission(before)
    if queued_count(connection) >= queue_limit:
        raise QueueFull(queue_limit)
    _keep(connection, now, problem)
    row = connection.execute(
        sa.insert(submissions)
        .values(
            submission_id=submission_id,
            request_id=request_id or None,
            body_digest=digest,
            problem_id=new.problem_id,
            problem_digest=problem.digest,
            language=new.language,
            entry=new.entry,
            device_kind=new.device_kind,
            mode=new.mode,
            sources=records.sources_to_text(new.sources),
            state=SubmissionState.QUEUED,
            create_time=now,
            attempt=0,
            fault_count=0,
            cancel_requested=False,
            event_count=1,
        )
        .returning(submissions)
    ).one()
    connection.execute(sa.insert(events).values(number=row.number, sequence=1, event_time=now, attempt=0, state=SubmissionState.QUEUED))
    return records.submission(row)


def _keep(connection: sa.Connection, now: datetime, problem: Problem) -> None:
    """Write the problem down, unless it is there."""
    known = connection.execute(sa.select(problems.c.digest).where(problems.c.digest == problem.digest)).first()
    if known is None:
        document = records.to_text(problem)
        values = {"digest": problem.digest, "problem_id": problem.problem_id, "document": document, "create_time": now}
        connection.execute(sa.insert(problems).values(values))


def queued_count(connection: sa.Connection) -> int:
    """How many wait."""
    counted = sa.select(sa.func.count()).select_from(submissions).where(submissions.c.state == SubmissionState.QUEUED)
    return int(connection.execute(counted).scalar_one())


def get(connection: sa.Connection, submission_id: str) -> Submission:
    """One submission with everything."""
    row = connection.execute(sa.select(submissions).where(submissions.c.submission_id == submission_id)).one_or_none()
    if row is None:
        raise SubmissionNotFound(submission_id)
    return records.submission(row)


def get_problem(connection: sa.Connection, digest: str) -> Problem:
    """The problem as it was when submissions were made to it."""
    return records.problem(connection.execute(sa.select(problems.c.document).where(problems.c.digest == digest)).scalar_one())


def page(
    connection: sa.Connection, size: int, before: int | None, problem_id: str, states: Sequence[SubmissionState]
) -> tuple[list[Submission], int | None]:
    """Newest first, without sources; the second value is `before` of the next page."""
    query = sa.select(*_LISTED).order_by(submissions.c.number.desc()).limit(size + 1)
    if before is not None:
        query = query.where(submissions.c.number < before)
    if problem_id:
        query = query.where(submissions.c.problem_id == problem_id)
    if states:
        query = query.where(submissions.c.state.in_(states))
    rows = connection.execute(query).all()
    return [records.submission(row) for row in rows[:size]], rows[size - 1].number if len(rows) > size else None


def events_after(connection: sa.Connection, submission_id: str, after: int, limit: int) -> list[Event]:
    """Events in their order."""
    query = (
        sa.select(events)
        .join(submissions, submissions.c.number == events.c.number)
        .where(submissions.c.submission_id == submission_id, events.c.sequence > after)
        .order_by(events.c.sequence)
        .limit(limit)
    )
    return [records.event(row) for row in connection.execute(query)]


def lease(connection: sa.Connection, now: datetime, worker_id: str, expire_time: datetime, device_kinds: Sequence[str]) -> Lease | None:
    """Take the oldest that waits for a device of these kinds, for one of a kind (such as cuda:H200), or for any."""
    one_of_a_kind = (submissions.c.device_kind.startswith(f"{kind}:", autoescape=True) for kind in device_kinds)
    oldest = (
        sa.select(submissions.c.number)
        .where(
            submissions.c.state == SubmissionState.QUEUED,
            sa.or_(submissions.c.device_kind.in_(["", *device_kinds]), *one_of_a_kind),
        )
        .order_by(submissions.c.number)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = _move(
        connection,
        sa.and_(submissions.c.number == oldest.scalar_subquery(), submissions.c.state == SubmissionState.QUEUED),
        now,
        SubmissionState.RUNNING,
        attempt=submissions.c.attempt + 1,
        worker_id=worker_id,
        lease_expire_time=expire_time,
        start_time=now,
    )
    if row is None:
        return None
    problem = get_problem(connection, row.problem_digest)
    return Lease(submission=records.submission(row), problem=problem, attempt=row.attempt, worker_id=worker_id)


def heartbeat(connection: sa.Connection, held: Lease, expire_time: datetime) -> bool:
    """Keep a lease; the answer is whether the submission is to be cancelled."""
    extended = sa.update(submissions).where(_fence(held)).values(lease_expire_time=expire_time).returning(submissions.c.cancel_requested)
    row = connection.execute(extended).one_or_none()
    if row is None:
        raise LeaseLost(held.submission.submission_id, held.attempt)
    return bool(row.cancel_requested)


def append(connection: sa.Connection, now: datetime, held: Lease, facts: Sequence[wire.Fact]) -> None:
    """Write facts down, in their order."""
    counted = sa.update(submissions).where(_fence(held)).values(event_count=submissions.c.event_count + len(facts))
    row = connection.execute(counted.returning(submissions.c.number, submissions.c.event_count)).one_or_none()
    if row is None:
        raise LeaseLost(held.submission.submission_id, held.attempt)
    first = row.event_count - len(facts) + 1
    connection.execute(
        sa.insert(events),
        [
            {
                "number": row.number,
                "sequence": first + index,
                "event_time": now,
                "attempt": held.attempt,
                "fact": json.dumps(wire.as_json(fact), separators=(",", ":")),
            }
            for index, fact in enumerate(facts)
        ],
    )


def settle(connection: sa.Connection, now: datetime, held: Lease, report: Report) -> Submission:
    """Record the verdict."""
    row = _move(
        connection,
        _fence(held),
        now,
        SubmissionState.SUCCEEDED,
        verdict=report.verdict,
        reason=report.reason,
        summary=report.summary,
        report=records.to_text(report),
    )
    if row is None:
        raise LeaseLost(held.submission.submission_id, held.attempt)
    return records.submission(row)


def give_up(connection: sa.Connection, now: datetime, where: sa.ColumnElement[bool], counted: bool, failure: Failure) -> Submission | None:
    """End an attempt without a verdict: back into the queue, FAILED after the last or a final one, CANCELLED where that was asked."""
    found = connection.execute(
        sa.select(submissions.c.fault_count, submissions.c.cancel_requested).where(where).with_for_update()
    ).one_or_none()
    if found is None:
        return None
    faults = found.fault_count + (1 if counted else 0)
    if found.cancel_requested:
        row = _move(connection, where, now, SubmissionState.CANCELLED)
    elif failure.final:
        row = _move(connection, where, now, SubmissionState.FAILED, fault_count=faults, failure=records.to_text(failure))
    elif counted and faults >= ATTEMPT_LIMIT:
        last = Failure(reason=_EXHAUSTED, message=f"the grader failed {faults} times, last with {failure.reason}: {failure.message}")
        row = _move(connection, where, now, SubmissionState.FAILED, fault_count=faults, failure=records.to_text(last))
    else:
        row = _move(connection, where, now, SubmissionState.QUEUED, fault_count=faults)
    return None if row is None else records.submission(row)


def release(connection: sa.Connection, now: datetime, held: Lease, counted: bool, failure: Failure) -> Submission:
    """Give a lease back."""
    given_back = give_up(connection, now, _fence(held), counted, failure)
    if given_back is None:
        raise LeaseLost(held.submission.submission_id, held.attempt)
    return given_back


def reclaim(connection: sa.Connection, now: datetime, expired_only: bool, failure: Failure) -> list[Submission]:
    """Take leases away: those that nobody kept alive, or all of them."""
    lost = sa.select(submissions.c.number).where(submissions.c.state == SubmissionState.RUNNING)
    if expired_only:
        lost = lost.where(submissions.c.lease_expire_time < now)
    numbers = connection.execute(lost.order_by(submissions.c.number)).scalars().all()
    given_up = (give_up(connection, now, submissions.c.number == number, True, failure) for number in numbers)
    return [one for one in given_up if one is not None]


def cancel(connection: sa.Connection, now: datetime, submission_id: str) -> Submission:
    """CANCELLED at once where it waits; where it runs, its worker is told with the next heartbeat."""
    before = get(connection, submission_id)
    this = submissions.c.submission_id == submission_id
    if before.state.final:
        raise AlreadyFinished(submission_id, before.state)
    if before.state is SubmissionState.RUNNING:
        connection.execute(sa.update(submissions).where(this).values(cancel_requested=True))
        return before
    row = _move(
        connection, sa.and_(this, submissions.c.state == SubmissionState.QUEUED), now, SubmissionState.CANCELLED, cancel_requested=True
    )
    return get(connection, submission_id) if row is None else records.submission(row)
