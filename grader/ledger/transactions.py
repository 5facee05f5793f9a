"""Operations of one transaction each.  Plain functions on a connection; `ledger.py` runs them on its threads."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from grader.errors import AlreadyFinished, LeaseLost, QueueFull, QueueShareUsed, QuotaExceeded, RequestIdReused, SubmissionNotFound
from grader.ledger import queue, records, statements
from grader.ledger.changes import NewsKind, tell
from grader.ledger.tables import FOUND, artifacts, judgements, problems, rejudge_items, rejudges, submission_tags, submissions
from grader.model import Failure, Lease, NewSubmission, Problem, Report, Submission, SubmissionState
from grader.rules.quotas import AdmissionPolicy, Quota, QuotaUse
from sandbox.protocol import wire

# Three failures of ours fail a submission, or eight lost leases. A server that is killed loses all of its leases, so a lost lease says
# less of its submission than a failure. A submission that kills its server each time is failed too.
FAILURE_LIMIT, LOSS_LIMIT = 3, 8


class Fault(IntEnum):
    """Why an attempt had no verdict, where that is counted: what it adds to `fault_count`, a column that holds both counts."""

    NONE = 0
    LOST_LEASE = 1
    FAILURE = LOSS_LIMIT + 1


LeaseKey = tuple[str, str, int]  # submission, worker and attempt


def lease_key(lease: Lease) -> LeaseKey:
    """The key that fences what a worker writes."""
    return lease.submission.submission_id, lease.worker_id, lease.attempt


FINDINGS_S = 15.0  # so long after a verdict findings of tools may come; a sanitizer that looks for a cause has less
REUSED_FOR = timedelta(days=1)  # the result of an identical submission: compilers, drivers and this grader change
_NEWEST = statements.Prepared(
    sa.select(submissions, judgements.c.report, judgements.c.source_number, judgements.c.attempt.label("source_attempt"))
    .join(judgements, sa.and_(judgements.c.number == submissions.c.number, judgements.c.sequence == submissions.c.judgement_count))
    .where(
        submissions.c.content_digest == sa.bindparam("by_content"),
        sa.func.coalesce(submissions.c.state, "") == SubmissionState.SUCCEEDED,  # by no index: most are
        submissions.c.rejudge_id.is_(None),
        submissions.c.attempt > 0,  # it was graded itself, so that a result does not get younger
    )
    .order_by(submissions.c.number.desc())
    .limit(1)
)


_CONTENT = ("user", "language", "entry", "device_kind", "mode", "competition_id", "precision", "measure_s")


def _content_digest(new_submission: NewSubmission, problem: Problem, sources: str) -> str:
    """Return what is the same in identical submissions. sources: the text of those of new, as the ledger keeps it."""
    flags = [name for name in ("skip_sanitizer", "cascade") if getattr(new_submission, name)]
    data = json.dumps([problem.digest, *(getattr(new_submission, name) for name in _CONTENT), *flags, sources])
    return hashlib.sha256(data.encode()).hexdigest()


def _find(connection: sa.Connection, now: datetime, digest: str) -> tuple[Report, int, int] | None:
    """The last report of a submission with this content, and the number and attempt that its facts are of. None while it may get findings,
    which a copy would not have."""
    row = next(iter(_NEWEST.run(connection, {"by_content": digest})), None)
    if row is None or row.end_time < now - REUSED_FOR or (report := records.submission(row).report) is None:
        return None
    fresh = report.profile is None and row.end_time > now - timedelta(seconds=FINDINGS_S)
    if fresh and connection.execute(statements.TOOLS_BEGAN, {"by_number": row.number}).first() is not None:
        return None
    return replace(report, cached_from=row.submission_id, timeline=()), row.source_number, row.source_attempt  # the time was another's


# Device-seconds of a user count half after this time. The weight is the log2 of a sum of seconds, each times 2 ** (its time / half-life):
# it never has to be decayed, for the order of two users stays what it is as time goes by, and it never overflows.
HALF_LIFE_S = 3600.0


def charge(connection: sa.Connection, now: datetime, row: sa.Row[Any]) -> None:
    """Count the attempt that ended now for its share; what a rejudge ran is nobody's. row: the submission's."""
    if row.rejudge_id is not None or row.start_time is None:
        return
    seconds = (now - row.start_time).total_seconds()
    if seconds <= 0:
        return
    before = statements.USED.run(connection, {"by_user": row.share})
    weight = added(before[0][0] if before else None, seconds, now)
    if not before:  # clients come and go: with each new share, forget those that count less than a second
        statements.FORGET_SMALL.run(connection, {"by_weight": now.timestamp() / HALF_LIFE_S})
        statements.FIRST_USE.run(connection, {"user_name": row.share, "log2_weight": weight})
    else:
        statements.USE.run(connection, {"by_user": row.share, "log2_weight": weight})


def added(log2_weight: float | None, seconds: float, now: datetime) -> float:
    """The weight with so many seconds more."""
    total = math.log2(seconds) + now.timestamp() / HALF_LIFE_S
    if log2_weight is None:
        return total
    larger, smaller = max(log2_weight, total), min(log2_weight, total)
    return larger + math.log2(1.0 + 2.0 ** (smaller - larger))


# Columns that are set from the field of the same name.
_SAME_NAME = tuple(name for name in wire.field_names(NewSubmission) if name in submissions.c)
_EXHAUSTED = "ATTEMPTS_EXHAUSTED"
LARGEST = 2**31 - 1  # that a column of integers holds; a larger one finds nothing


def _move(
    connection: sa.Connection, where: sa.ColumnElement[bool], now: datetime, state: SubmissionState, **values: Any
) -> sa.Row[Any] | None:
    """Change the one row that `where` finds to state, and write the event of it; None where no row is found."""
    change = {"state": state, "event_count": submissions.c.event_count + 1, **values}
    if state.final:  # a clock that was set back makes no end before the start
        end_time = sa.literal(now, submissions.c.end_time.type)
        change["end_time"] = sa.case((submissions.c.start_time > now, submissions.c.start_time), else_=end_time)
    if state is not SubmissionState.RUNNING:
        change |= {"worker_id": None, "lease_expire_time": None}
    row = connection.execute(sa.update(submissions).where(where).values(change).returning(submissions)).one_or_none()
    if row is not None:
        _moved(connection, row, now, state)
    return row


def _moved(connection: sa.Connection, row: sa.Row[Any], now: datetime, state: SubmissionState) -> None:
    statements.INSERT_EVENT.run(connection, _move_event(row, now, state))
    tell(connection, NewsKind.QUEUED if state is SubmissionState.QUEUED else NewsKind.CHANGED, row.submission_id)


def _move_event(row: sa.Row[Any], now: datetime, state: SubmissionState) -> dict[str, Any]:
    return {"number": row.number, "sequence": row.event_count, "event_time": now, "attempt": row.attempt, "state": state, "fact": None}


def submit(
    connection: sa.Connection,
    now: datetime,
    submission_id: str,
    new_submission: NewSubmission,
    problem: Problem,
    request_id: str,
    queue_limit: int,
    policy: AdmissionPolicy,
    allow_cached: bool = False,
    share: str = "",
    batch: bool = False,
    announced: bool = True,
    problem_known: bool = False,
) -> Submission:
    """Put a new submission into the queue, or find the one that the same request made. allow_cached: it may end at once with the result of
    an identical one. batch: it lets all others go first. announced: other servers are, that it waits. problem_known: it is
    in the ledger already."""
    digest = records.body_digest(new_submission, problem)
    request_key = records.request_key(new_submission.user, request_id) if request_id else None
    if request_key and (before := statements.OF_REQUEST.run(connection, {"by_request": request_key})):
        if before[0].body_digest != digest:
            raise RequestIdReused(request_id)
        return records.submission(before[0])
    statements.check_parent(connection, new_submission)
    _check_quotas(connection, now, new_submission.user, policy)
    sources = records.to_text(new_submission.sources)
    content = _content_digest(new_submission, problem, sources)
    earlier = _find(connection, now, content) if allow_cached else None
    if earlier is None:
        _check_room(connection, new_submission.user, queue_limit, policy.user_queue_limit)
    if not problem_known:
        keep_problem(connection, now, problem)
    ((number,),) = statements.INSERT_SUBMISSION.run(
        connection,
        {
            **{name: getattr(new_submission, name) for name in _SAME_NAME},
            **{"submission_id": submission_id, "request_id": request_key, "body_digest": digest, "content_digest": content},
            **{"problem_digest": problem.digest, "sources": sources, "state": SubmissionState.QUEUED, "create_time": now},
            **{"attempt": 0, "fault_count": 0, "judgement_count": 0, "cancel_requested": False, "event_count": 1},
            "user_name": new_submission.user,
            "share": share or new_submission.user,
            "priority": queue.PRIORITIES[new_submission.mode] + queue.BATCH_PRIORITY * batch,
            "tags": ",".join(new_submission.tags),
            "annotations": records.to_text(new_submission.annotations) if new_submission.annotations else "",
        },
    )
    if new_submission.tags:
        tags = [{"tag": tag, "user_name": new_submission.user, "number": number} for tag in new_submission.tags]
        connection.execute(sa.insert(submission_tags), tags)
    event = {"number": number, "sequence": 1, "event_time": now, "attempt": 0, "state": SubmissionState.QUEUED, "fact": None}
    statements.INSERT_EVENT.run(connection, event)
    if earlier is not None:  # its facts stay where they are: no worker takes it, and nobody is charged
        report, source_number, source_attempt = earlier
        columns = records.judged(report)
        head = {name: columns[name] for name in FOUND}
        row = _move(connection, submissions.c.number == number, now, SubmissionState.SUCCEEDED, judgement_count=1, **head)
        assert row is not None
        _record_judgement(connection, now, row, columns, source_number, source_attempt)
        return replace(records.submission(row), report=report)
    if announced:
        tell(connection, NewsKind.QUEUED, submission_id)
    return Submission(
        submission_id=submission_id, new=new_submission, problem_digest=problem.digest, state=SubmissionState.QUEUED, create_time=now
    )


def _check_quotas(connection: sa.Connection, now: datetime, user: str, policy: AdmissionPolicy) -> None:
    """Raise what the policy refuses by, or QuotaExceeded where one more would be too many; of several quotas the one that is spent longest.

    What we failed at, and what was cancelled before anything was done for it, is not counted.
    """
    if policy.admit is not None:
        policy.admit(connection, now, user)
    spent = [use for use in quota_uses(connection, now, user, policy.quotas) if use.used_count >= use.quota.limit]
    if spent:
        last = max(spent, key=lambda use: use.next_time or now)
        # There is room again when the oldest of the last `limit` leaves the window.
        retry_s = max(((last.next_time or now) - now).total_seconds(), 1.0)
        raise QuotaExceeded(last.quota.limit, retry_s, last.quota.period)


def _check_room(connection: sa.Connection, user: str, queue_limit: int, user_limit: int | None) -> None:
    """QueueShareUsed where as many of this user wait as may, QueueFull where as many of all do. user_limit None: no share."""
    if user_limit is not None and statements.QUEUED_OF_USER.run(connection, {"by_user": user})[0][0] >= user_limit:
        raise QueueShareUsed(user_limit)
    if statements.QUEUED_COUNT.run(connection)[0][0] >= queue_limit:
        raise QueueFull(queue_limit)


def quota_uses(connection: sa.Connection, now: datetime, user: str, quotas: Sequence[Quota]) -> list[QuotaUse]:
    """How many of each of these the user has used."""
    counts = [(quota, _counted(connection, now, user, quota)) for quota in quotas]
    return [
        QuotaUse(quota=quota, used_count=len(counted), next_time=counted[-1] + quota.window if counted else None)
        for quota, counted in counts
    ]


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


def _record_judgement(
    connection: sa.Connection, now: datetime, row: sa.Row[Any], columns: Mapping[str, Any], source_number: int, attempt: int
) -> None:
    """Add a submission's newest judgement, made of the facts that this attempt at the submission of source_number left."""
    about = {"number": row.number, "sequence": row.judgement_count, "problem_digest": row.problem_digest, "create_time": now}
    statements.INSERT_JUDGEMENT.run(connection, {**about, "source_number": source_number, "attempt": attempt, **columns})


def keep_problem(connection: sa.Connection, now: datetime, problem: Problem) -> None:
    """Write the problem down, unless it is there."""
    if not statements.KNOWN_PROBLEM.run(connection, {"by_digest": problem.digest}):
        values = {"digest": problem.digest, "problem_id": problem.problem_id, "document": records.to_text(problem), "create_time": now}
        connection.execute(sa.insert(problems).values(values))


def get(connection: sa.Connection, submission_id: str, *, lock: bool = False) -> Submission:
    """Return a submission with everything. lock: it stays so until the transaction ends."""
    rows = (statements.ONE_LOCKED if lock else statements.ONE).run(connection, {"by_submission": submission_id})
    if not rows:
        raise SubmissionNotFound(submission_id)
    return records.submission(rows[0])


def get_problem(connection: sa.Connection, digest: str) -> Problem:
    """The problem as it was when submissions were made to it."""
    return records.problem(connection.execute(statements.PROBLEM, {"by_digest": digest}).scalar_one())


def lease(
    connection: sa.Connection,
    now: datetime,
    worker_id: str,
    expire_time: datetime,
    choices: tuple[str, ...],
    turn: int = 1,
    known_problems: Mapping[str, Problem] = MappingProxyType({}),
) -> Lease | None:
    """Take the next that asks for one of these `statements.choices_to_lease`. turn: of this server, from 1. known_problems: by digest."""
    taking = {"worker_id": worker_id, "lease_expire_time": expire_time, "start_time": now}
    first_come = (turn % queue.FIRST_COME_TURN == 0) + (turn % queue.FIRST_COME_TURN**2 == 0)
    rows = statements.take_next(choices, first_come=first_come).run(connection, taking)
    if not rows:
        return None
    row = rows[0]
    _moved(connection, row, now, SubmissionState.RUNNING)
    problem = known_problems.get(row.problem_digest) or get_problem(connection, row.problem_digest)
    return Lease(submission=records.submission(row), problem=problem, attempt=row.attempt, worker_id=worker_id)


def _fenced_row(connection: sa.Connection, statement: statements.Prepared, worker_lease: Lease, **parameters: Any) -> sa.Row[Any]:
    """Run a statement on the row of a lease. LeaseLost where it is another's by now."""
    key = dict(zip(("by_submission", "by_worker", "by_attempt"), lease_key(worker_lease), strict=True))
    rows = statement.run(connection, {**key, **parameters})
    if not rows:
        raise LeaseLost(worker_lease.submission.submission_id, worker_lease.attempt)
    return rows[0]


def heartbeat(connection: sa.Connection, worker_lease: Lease, expire_time: datetime) -> bool:
    """Keep a lease; the answer is whether the submission is to be cancelled."""
    return bool(_fenced_row(connection, statements.EXTEND, worker_lease, lease_expire_time=expire_time).cancel_requested)


def append(connection: sa.Connection, now: datetime, worker_lease: Lease, facts: Sequence[wire.Fact]) -> None:
    """Write facts down, in their order."""
    row = _fenced_row(connection, statements.COUNT_EVENTS, worker_lease, by_count=len(facts))
    tell(connection, NewsKind.CHANGED, worker_lease.submission.submission_id)
    if facts:
        statements.INSERT_EVENT.run(connection, *_fact_events(now, row.number, row.event_count, worker_lease.attempt, facts))
        _insert_artifacts(connection, now, row.number, worker_lease.attempt, facts)


def _fact_events(now: datetime, number: int, last: int, attempt: int, facts: Sequence[wire.Fact]) -> list[dict[str, Any]]:
    """Facts as events, the last of them with this sequence."""
    common = {"number": number, "event_time": now, "attempt": attempt, "state": None}
    return [
        {**common, "sequence": sequence, "fact": wire.encode(fact).decode().rstrip()}
        for sequence, fact in enumerate(facts, last - len(facts) + 1)
    ]


def _insert_artifacts(connection: sa.Connection, now: datetime, number: int, attempt: int, facts: Sequence[wire.Fact]) -> None:
    """Write down the files among the facts of an attempt."""
    common = {"number": number, "attempt": attempt, "create_time": now}
    files = [fact for fact in facts if isinstance(fact, wire.ArtifactFile)]
    if rows := [{**common, **wire.parts(fact)} for fact in files]:
        connection.execute(sa.insert(artifacts), rows)


def settle(connection: sa.Connection, now: datetime, worker_lease: Lease, report: Report, facts: Sequence[wire.Fact]) -> None:
    """Record the verdict, after the last facts."""
    columns = records.judged(report)
    head = {name: columns[name] for name in FOUND}
    end_time = max(now, worker_lease.submission.start_time or now)
    row = _fenced_row(connection, statements.SETTLE, worker_lease, by_count=len(facts), end_time=end_time, **head)
    events_made = _fact_events(now, row.number, row.event_count - 1, row.attempt, facts)
    statements.INSERT_EVENT.run(connection, *events_made, _move_event(row, now, SubmissionState.SUCCEEDED))
    _insert_artifacts(connection, now, row.number, row.attempt, facts)
    tell(connection, NewsKind.CHANGED, row.submission_id)
    _record_judgement(connection, now, row, columns, row.number, row.attempt)
    if row.rejudge_id is not None:
        _decide(connection, row, columns)
    charge(connection, now, row)  # last: all settlements of a user lock one row until they commit


def amend(connection: sa.Connection, now: datetime, settled: Lease, report: Report, facts: Sequence[wire.Fact]) -> None:
    """Replace the report that an attempt was settled with, unless the submission was judged again since, by other facts or rules."""
    table, columns = submissions.c, records.judged(report)
    first = (table.submission_id == settled.submission.submission_id, table.attempt == settled.attempt, table.judgement_count == 1)
    change = sa.update(submissions).where(*first).values(event_count=table.event_count + len(facts), summary=columns["summary"])
    row = connection.execute(change.returning(table.number, table.event_count)).one_or_none()
    if row is not None:
        texts = {"summary": columns["summary"], "report": columns["report"]}
        connection.execute(sa.update(judgements).where(judgements.c.number == row.number).values(texts))
        statements.INSERT_EVENT.run(connection, *_fact_events(now, row.number, row.event_count, settled.attempt, facts))
        _insert_artifacts(connection, now, row.number, settled.attempt, facts)
        tell(connection, NewsKind.CHANGED, settled.submission.submission_id)


def _decide(connection: sa.Connection, run: sa.Row[Any], columns: Mapping[str, Any]) -> None:
    open_rejudge = sa.select(rejudges.c.rejudge_id).where(rejudges.c.rejudge_id == run.rejudge_id, rejudges.c.state == "running")
    item = (rejudge_items.c.rejudge_id.in_(open_rejudge), rejudge_items.c.run_number == run.number, rejudge_items.c.verdict.is_(None))
    connection.execute(sa.update(rejudge_items).where(*item).values(columns))


def give_up(connection: sa.Connection, now: datetime, where: sa.ColumnElement[bool], fault: Fault, failure: Failure) -> Submission | None:
    """End an attempt without a verdict: back into the queue, FAILED after the last or a final one, CANCELLED where that was asked."""
    failed_row = connection.execute(
        sa.select(submissions.c.fault_count, submissions.c.attempt, submissions.c.cancel_requested).where(where).with_for_update()
    ).one_or_none()
    if failed_row is None:
        return None
    fault_count = failed_row.fault_count + fault
    failures, losses = divmod(fault_count, Fault.FAILURE)
    if failed_row.cancel_requested:
        row = _move(connection, where, now, SubmissionState.CANCELLED)
        if row is not None and fault is Fault.NONE:  # what we spoiled is not charged
            charge(connection, now, row)
    elif failure.final:
        row = _move(connection, where, now, SubmissionState.FAILED, fault_count=fault_count, failure=records.to_text(failure))
    elif fault is not Fault.NONE and (failures >= FAILURE_LIMIT or losses >= LOSS_LIMIT):
        text = f"no verdict after {failed_row.attempt} attempts, the last ended with {failure.reason}: {failure.message}"
        last = Failure(reason=_EXHAUSTED, message=text)
        row = _move(connection, where, now, SubmissionState.FAILED, fault_count=fault_count, failure=records.to_text(last))
    else:
        row = _move(connection, where, now, SubmissionState.QUEUED, fault_count=fault_count)
    return None if row is None else records.submission(row)


def release(connection: sa.Connection, now: datetime, worker_lease: Lease, counted: bool, failure: Failure) -> Submission:
    """Give a lease back."""
    given_back = give_up(connection, now, statements.lease_row(*lease_key(worker_lease)), Fault.FAILURE if counted else Fault.NONE, failure)
    if given_back is None:
        raise LeaseLost(worker_lease.submission.submission_id, worker_lease.attempt)
    return given_back


def reclaim(
    connection: sa.Connection,
    now: datetime,
    expired_only: bool,
    failure: Failure,
    worker_prefix: str = "",
    own_leases: Mapping[LeaseKey, bool] = MappingProxyType({}),
) -> list[Submission]:
    """Take leases away: those that expired, or all of them; of workers whose ids begin so. own_leases: of this process, whether
    each is over by its own clock, whatever the stored time says."""
    lost: sa.ColumnElement[bool] = submissions.c.state == SubmissionState.RUNNING
    if worker_prefix:
        lost = sa.and_(lost, submissions.c.worker_id.startswith(worker_prefix, autoescape=True))
    if expired_only:
        own_over = (statements.lease_row(*key) for key, over in own_leases.items() if over)
        lost = sa.and_(lost, sa.or_(submissions.c.lease_expire_time < now, *own_over))
    # Locked: a heartbeat or a settlement that comes now finds the lease gone; the worker that holds the row is alive, and is left alone.
    columns = (submissions.c.number, submissions.c.submission_id, submissions.c.worker_id, submissions.c.attempt)
    query = sa.select(*columns).where(lost).order_by(submissions.c.number).with_for_update(skip_locked=True)
    rows = [row for row in connection.execute(query).all() if not expired_only or own_leases.get(tuple(row)[1:], True)]
    of_number = (sa.and_(submissions.c.number == row.number, lost) for row in rows)
    given_up = (give_up(connection, now, where, Fault.LOST_LEASE, failure) for where in of_number)
    return [submission for submission in given_up if submission is not None]


def cancel(connection: sa.Connection, now: datetime, submission_id: str) -> Submission:
    """CANCELLED at once where it waits; where it runs, its worker learns of it with the next heartbeat."""
    before = get(connection, submission_id, lock=True)
    this = submissions.c.submission_id == submission_id
    if before.state.final:
        raise AlreadyFinished(submission_id, before.state)
    if before.state is SubmissionState.RUNNING:
        connection.execute(sa.update(submissions).where(this).values(cancel_requested=True))
        tell(connection, NewsKind.CANCELLING, submission_id)
        return replace(before, cancel_requested=True)
    row = _move(
        connection, sa.and_(this, submissions.c.state == SubmissionState.QUEUED), now, SubmissionState.CANCELLED, cancel_requested=True
    )
    return get(connection, submission_id) if row is None else records.submission(row)
