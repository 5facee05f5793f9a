"""Rejudges in the ledger: submissions that are judged again, without changing any until that is applied.  Functions on a connection.

A run is a row of `submissions` that belongs to no user's list; the queue, leases and retries know no difference. Applying adds a judgement
to each submission and copies it into the submission's row; nothing else of it changes, and no event follows its last one.

What a rejudge changes is read: each judgement next to the one that it replaces, and the boards with and without it. Boards with a
rejudge are made by the code that makes boards, from rows that say what applying would write. So a preview is what comes.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import sqlalchemy as sa

from grader.errors import RequestIdReused, SubmissionNotFound
from grader.ledger import queue, records, transactions
from grader.ledger.changes import NewsKind, tell
from grader.ledger.tables import FOUND, events, judgements, rejudge_items, rejudges, submissions
from grader.model import Failure, Judgement, Problem, Report, SubmissionState
from grader_extensions.competitions.boards import standings_of
from grader_extensions.competitions.leaderboard import Standing, boards
from grader_extensions.competitions.model import Competition
from grader_extensions.competitions.refusals import RejudgeNotFound, RejudgeNotReady, RejudgeOutdated
from grader_extensions.competitions.rejudge import Change, Rejudge, RejudgeMethod, RejudgeOrder, RejudgeState
from sandbox.protocol import wire

T = TypeVar("T")
CHUNK = 500  # values in one statement
CHANGES_LIMIT = 50_000  # in an answer, which may have 64 MiB; a change takes half a kB
NO_SOURCES = Failure(reason="SOURCES_REMOVED", message="its sources are kept no longer, so it can't be run again", final=True)
# What a run has of its submission; the rest is its own.
_COPIED = ("body_digest", "problem_id", "language", "entry", "mode", "sources", "user_name", "competition_id")
GAVE_UP = (SubmissionState.FAILED, SubmissionState.CANCELLED)
_RUN = submissions.alias("run")
_BASE = judgements.alias("base")  # the judgement that counted when the submission was chosen
_IS_BASE = sa.and_(_BASE.c.number == rejudge_items.c.number, _BASE.c.sequence == rejudge_items.c.judgement_count)
_OPEN = sa.and_(rejudges.c.state == RejudgeState.RUNNING, rejudge_items.c.verdict.is_(None))
_OWN = [submissions.c[name] for name in ("number", "submission_id", "user_name", "competition_id", "problem_id")]
_FOUND = ("verdict", "reason", "summary", "score", "score_low", "score_high", "problem_digest")
_OLD = (*_FOUND, "create_time", "rejudge_id", "sequence")
_REPLACED = [_BASE.c[name].label(f"old_{name}") for name in _OLD]


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


def _chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + CHUNK] for start in range(0, len(values), CHUNK))


def candidates(connection: sa.Connection, order: RejudgeOrder, submission_ids: Sequence[str] | None = None) -> list[sa.Row[Any]]:
    """Find the submissions that are meant, in the order in which they were handed in; of these only, where some are named.

    SubmissionNotFound where one that is named is no user's submission. All that are named are there, graded or not.
    """
    query = sa.select(*(submissions.c[name] for name in ("number", "submission_id", "problem_id", "competition_id", "state")))
    query = query.where(submissions.c.rejudge_id.is_(None))
    query = query.where(submissions.c.mode != wire.Mode.SWEEP)  # it has sizes of its own, which the problem does not know
    queries = [query.where(submissions.c.submission_id.in_(chunk)) for chunk in _chunks(submission_ids or ())]
    if submission_ids is None:
        query = query.where(sa.func.coalesce(submissions.c.state, "") == SubmissionState.SUCCEEDED)  # by no index: most are
        fields = {"problem_id": order.problem_id, "competition_id": order.competition_id}
        queries = [query.filter_by(**{name: value for name, value in fields.items() if value})]
    by_id = {row.submission_id: row for chunk_query in queries for row in connection.execute(chunk_query)}
    if missing := [submission_id for submission_id in submission_ids or () if submission_id not in by_id]:
        raise SubmissionNotFound(missing[0])
    return sorted(by_id.values(), key=lambda row: row.number)


def create(
    connection: sa.Connection,
    now: datetime,
    order: RejudgeOrder,
    user: str,
    request_id: str,
    numbers: Mapping[str, Sequence[int]],
    problems: Iterable[Problem],
    *,
    rejudge_id: str,
) -> Rejudge:
    """Choose submissions, by the digest of the problem that they are to be judged by, for `undecided` to find."""
    if request_id and (before := by_request(connection, user, request_id, order)) is not None:
        return before
    for problem in problems:
        transactions.keep_problem(connection, now, problem)
    row = {"rejudge_id": rejudge_id, "user_name": user, "document": json.dumps(dataclasses.asdict(order))}
    request_key = records.request_key(user, request_id) if request_id else None
    connection.execute(sa.insert(rejudges).values(**row, request_id=request_key, state=RejudgeState.RUNNING, create_time=now))
    items = ["rejudge_id", "number", "problem_digest", "judgement_count"]
    for digest, chosen in numbers.items():
        query = sa.select(sa.literal(rejudge_id), submissions.c.number, sa.literal(digest), submissions.c.judgement_count)
        for part in _chunks(chosen):
            connection.execute(sa.insert(rejudge_items).from_select(items, query.where(submissions.c.number.in_(part))))
    return get(connection, rejudge_id)


def page(connection: sa.Connection, size: int, before: int | None = None) -> tuple[list[Rejudge], int | None]:
    """Newest first; and `before` of the next page."""
    query = sa.select(rejudges).order_by(rejudges.c.sequence.desc()).limit(size + 1)
    if before is not None:
        query = query.where(rejudges.c.sequence < min(before, transactions.LARGEST))
    rows = connection.execute(query).all()
    return [_rejudge(connection, row) for row in rows[:size]], rows[size - 1].sequence if len(rows) > size else None


def undecided(connection: sa.Connection, limit: int) -> list[Undecided]:
    """Find the next that somebody has to look at, oldest rejudge first."""
    selected: list[sa.ColumnElement[Any]] = [
        *(rejudges.c.document, rejudge_items.c.rejudge_id, rejudge_items.c.number, rejudge_items.c.problem_digest.label("new_digest")),
        *(submissions.c[name] for name in ("submission_id", "mode", "entry")),
        *(_BASE.c.source_number, _BASE.c.attempt, _BASE.c.problem_digest.label("old_digest")),
    ]
    query = (
        sa.select(*selected)
        .join(rejudges, rejudges.c.rejudge_id == rejudge_items.c.rejudge_id)
        .join(submissions, submissions.c.number == rejudge_items.c.number)
        .join(_BASE, _IS_BASE)
        .where(_OPEN, rejudge_items.c.run_number.is_(None))
        .order_by(rejudges.c.sequence, rejudge_items.c.number)
        .limit(limit)
    )
    items = []
    for row in connection.execute(query).all():
        method = _order(row.document).method
        facts = (
            sa.select(events.c.fact)
            .where(events.c.number == row.source_number, events.c.attempt == row.attempt, events.c.fact.is_not(None))
            .order_by(events.c.sequence)
        )
        columns = {name: row._mapping[name] for name in ("rejudge_id", "number", "submission_id", "entry", "old_digest", "new_digest")}
        lines = tuple(connection.scalars(facts)) if method is not RejudgeMethod.RUN else ()
        items.append(Undecided(**columns, method=method, mode=wire.Mode(row.mode), lines=lines))
    return items


def _order(document: str) -> RejudgeOrder:
    data = json.loads(document)
    return RejudgeOrder(**data | {"submission_ids": tuple(data["submission_ids"]), "method": RejudgeMethod(data["method"])})


def decide(connection: sa.Connection, now: datetime, rulings: Iterable[tuple[Undecided, Report | None]]) -> int:
    """Write what facts decided, and put runs of the rest into the queue; says how many. What another server was quicker at is left."""
    run_count = 0
    for item, report in rulings:
        this = sa.and_(rejudge_items.c.rejudge_id == item.rejudge_id, rejudge_items.c.number == item.number)
        query = sa.select(rejudges.c.document).join(rejudge_items, rejudges.c.rejudge_id == rejudge_items.c.rejudge_id)
        document = connection.scalar(query.where(this, _OPEN, rejudge_items.c.run_number.is_(None)))
        if document is None:
            continue
        if report is not None:
            values = records.judged(report)
        else:
            values = {"run_number": _run(connection, now, item, _order(document).device_kind)}
            run_count += 1
        connection.execute(sa.update(rejudge_items).where(this).values(values))
    return run_count


def _run(connection: sa.Connection, now: datetime, item: Undecided, device_kind: str) -> int:
    """A new run of a submission, by another problem; one that failed where there is nothing left to run."""
    there = bool(connection.scalar(sa.select(submissions.c.sources != "").where(submissions.c.number == item.number)))
    state = SubmissionState.QUEUED if there else SubmissionState.FAILED
    run_id = secrets.token_hex(8)
    columns: dict[str, Any] = {
        **{"submission_id": run_id, "problem_digest": item.new_digest, "state": state, "create_time": now, "rejudge_id": item.rejudge_id},
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


def try_again(connection: sa.Connection, rejudge_id: str) -> int:
    """Let what failed be looked at once more, as if it had never been run; says how many."""
    gone = sa.select(submissions.c.number).where(submissions.c.rejudge_id == rejudge_id, submissions.c.state.in_(GAVE_UP))
    mine = sa.and_(rejudge_items.c.rejudge_id == rejudge_id, rejudge_items.c.verdict.is_(None), rejudge_items.c.run_number.in_(gone))
    return connection.execute(sa.update(rejudge_items).where(mine).values(run_number=None)).rowcount


def apply(connection: sa.Connection, now: datetime, rejudge_id: str) -> None:
    """Let the new judgements count; a second time changes nothing. RejudgeNotReady; RejudgeOutdated, and nothing changed, where a
    submission was judged again since it was chosen."""
    state = get(connection, rejudge_id).state
    if state is RejudgeState.APPLIED:
        return
    if state is not RejudgeState.READY:
        raise RejudgeNotReady(rejudge_id, state)
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
        **{name: rejudge_items.c[name] for name in (*FOUND, "report")},
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
    """Drop it: cancel runs that wait, and ask those that are under way to stop; return the ids of both. A second time changes nothing."""
    state = _row(connection, rejudge_id).state
    if state == RejudgeState.APPLIED:
        raise RejudgeNotReady(rejudge_id, state)
    if state == RejudgeState.DISCARDED:
        return []
    runs = submissions.c.rejudge_id == rejudge_id
    waiting = connection.execute(
        sa.update(submissions)
        .where(runs, submissions.c.state == SubmissionState.QUEUED)
        .values(state=SubmissionState.CANCELLED, cancel_requested=True, end_time=now, event_count=submissions.c.event_count + 1)
        .returning(submissions.c.number, submissions.c.event_count, submissions.c.attempt, submissions.c.submission_id)
    ).all()
    if waiting:
        common = {"event_time": now, "state": SubmissionState.CANCELLED}
        ended = [{**common, "number": row.number, "sequence": row.event_count, "attempt": row.attempt} for row in waiting]
        connection.execute(sa.insert(events), ended)
    running = sa.update(submissions).where(runs, submissions.c.state == SubmissionState.RUNNING).values(cancel_requested=True)
    stopped = connection.scalars(running.returning(submissions.c.submission_id)).all()
    _end(connection, now, rejudge_id, RejudgeState.DISCARDED)
    return [*stopped, *(row.submission_id for row in waiting)]


def _end(connection: sa.Connection, now: datetime, rejudge_id: str, state: RejudgeState) -> None:
    """End a rejudge. Its results stay, except for the reports: by now they are where judgements are, or of no use."""
    connection.execute(sa.update(rejudge_items).where(rejudge_items.c.rejudge_id == rejudge_id).values(report=None))
    connection.execute(sa.update(rejudges).where(rejudges.c.rejudge_id == rejudge_id).values(state=state, end_time=now))


def by_request(connection: sa.Connection, user: str, request_id: str, order: RejudgeOrder) -> Rejudge | None:
    """The rejudge that this request made; RequestIdReused where it asked for something else."""
    query = sa.select(rejudges).where(rejudges.c.request_id == records.request_key(user, request_id))
    row = connection.execute(query).one_or_none()
    if row is not None and _order(row.document) != order:
        raise RequestIdReused(request_id)
    return None if row is None else _rejudge(connection, row)


def _row(connection: sa.Connection, rejudge_id: str) -> sa.Row[Any]:
    row = connection.execute(sa.select(rejudges).where(rejudges.c.rejudge_id == rejudge_id)).one_or_none()
    if row is None:
        raise RejudgeNotFound(rejudge_id)
    return row


def get(connection: sa.Connection, rejudge_id: str) -> Rejudge:
    """Return a rejudge with its counts; RejudgeNotFound."""
    return _rejudge(connection, _row(connection, rejudge_id))


def _rejudge(connection: sa.Connection, row: sa.Row[Any]) -> Rejudge:
    undecided, ran = rejudge_items.c.verdict.is_(None), rejudge_items.c.run_number.is_not(None)
    counted = {
        "submission_count": sa.true(),
        "refolded_count": sa.and_(~undecided, ~ran),
        "rerun_count": ran,
        "pending_count": undecided,
        "failed_count": sa.and_(undecided, _RUN.c.state.in_(GAVE_UP)),
    }
    query = (
        sa.select(*(sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0).label(name) for name, condition in counted.items()))
        .select_from(rejudge_items.outerjoin(_RUN, _RUN.c.number == rejudge_items.c.run_number))
        .where(rejudge_items.c.rejudge_id == row.rejudge_id)
    )
    counts, state = connection.execute(query).one()._mapping, RejudgeState(row.state)
    if state is RejudgeState.RUNNING and not counts["pending_count"]:
        state = RejudgeState.READY
    columns = {name: row._mapping[name] for name in ("rejudge_id", "create_time", "end_time")}
    return Rejudge(**columns, **counts, order=_order(row.document), state=state, user=row.user_name)


def pending_runs(connection: sa.Connection, rejudge_id: str, limit: int) -> Sequence[str]:
    """Return the ids of runs that are not over, oldest first: one that is stuck is soon the first."""
    mine = sa.and_(rejudge_items.c.rejudge_id == rejudge_id, rejudge_items.c.verdict.is_(None))
    query = sa.select(_RUN.c.submission_id).join(rejudge_items, rejudge_items.c.run_number == _RUN.c.number)
    return connection.scalars(query.where(mine, _RUN.c.state.not_in(GAVE_UP)).order_by(_RUN.c.number).limit(limit)).all()


def changes(connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition]) -> list[Change]:
    """Return a change for each submission that this rejudge judges or ranks otherwise, in the order of submission."""
    listed = _listed(connection, rejudge_id)
    without, with_it = _ranks(connection, rejudge_id, competitions, listed)
    ranked_ids = sorted({*without, *with_it} - {row.submission_id for row in listed})
    moved = [submission_id for submission_id in ranked_ids if without.get(submission_id) != with_it.get(submission_id)]
    rows = list(listed)
    for chunk in _chunks(moved):
        query = (
            sa.select(*_OWN, *_REPLACED, sa.null().label("new_verdict"))
            .join(_BASE, sa.and_(_BASE.c.number == submissions.c.number, _BASE.c.sequence == submissions.c.judgement_count))
            .where(submissions.c.submission_id.in_(chunk))
        )
        rows += connection.execute(query)
    changed = []
    for row in sorted(rows, key=lambda row: row.number):
        before = _judgement(row, "old_")
        after = before if row.new_verdict is None else _judgement(row, "new_")
        ranks = without.get(row.submission_id, 0), with_it.get(row.submission_id, 0)
        if ranks[0] != ranks[1] or any(getattr(before, name) != getattr(after, name) for name in ("verdict", "reason", "score")):
            changed.append(Change(row.submission_id, row.user_name, before, after, *ranks))
    return changed


def shown(changed: Sequence[Change], limit: int = CHANGES_LIMIT) -> Sequence[Change]:
    """Return those that an answer shows: of more than a message holds, those with the best new ranks."""
    return changed if len(changed) <= limit else sorted(changed, key=lambda change: change.rank_after or sys.maxsize)[:limit]


def _listed(connection: sa.Connection, rejudge_id: str) -> Sequence[sa.Row[Any]]:
    """Every submission that was chosen. One that is not decided yet has no new verdict, and changes nothing so far."""
    columns: list[sa.ColumnElement[Any]] = [
        *_OWN,
        *_REPLACED,
        *(rejudge_items.c[name].label(f"new_{name}") for name in _FOUND),
        (rejudge_items.c.judgement_count + 1).label("new_sequence"),
        rejudge_items.c.rejudge_id.label("new_rejudge_id"),
        sa.func.coalesce(rejudges.c.end_time, rejudges.c.create_time, type_=rejudges.c.end_time.type).label("new_create_time"),
    ]
    query = (
        sa.select(*columns)
        .select_from(rejudge_items)
        .join(rejudges, rejudges.c.rejudge_id == rejudge_items.c.rejudge_id)
        .join(submissions, submissions.c.number == rejudge_items.c.number)
        .join(_BASE, _IS_BASE)
        .where(rejudge_items.c.rejudge_id == rejudge_id)
    )
    return connection.execute(query).all()


def _judgement(row: sa.Row[Any], prefix: str) -> Judgement:
    return records.judgement({name: row._mapping[prefix + name] for name in _OLD})


def _ranks(
    connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition], listed: Sequence[sa.Row[Any]]
) -> tuple[dict[str, int], dict[str, int]]:
    """Ranks by submission, on the boards of the problems that the items are of: without the rejudge, and with it."""
    without, with_it = dict[str, int](), dict[str, int]()
    chosen = {row.submission_id for row in listed}
    decided = {row.submission_id for row in listed if row.new_verdict is not None}
    by_id = {contest.competition_id: contest for contest in competitions}
    for competition_id, problem_id in sorted({(row.competition_id, row.problem_id) for row in listed}):
        competition = by_id.get(competition_id)
        if competition is None or problem_id not in competition.problem_ids:
            continue  # there is no board
        mine = (rejudge_items.c.number == submissions.c.number, rejudge_items.c.rejudge_id == rejudge_id)
        base = (judgements.c.number == submissions.c.number, judgements.c.sequence == rejudge_items.c.judgement_count)
        rest = [standing for standing in standings_of(connection, competition, problem_id) if standing.submission_id not in chosen]
        old = standings_of(connection, competition, problem_id, judged=judgements, where=(*mine, *base))
        changed = standings_of(connection, competition, problem_id, judged=rejudge_items, where=mine)
        without |= _board_ranks(competition, problem_id, [*rest, *old])
        undecided = [standing for standing in old if standing.submission_id not in decided]
        with_it |= _board_ranks(competition, problem_id, [*rest, *undecided, *changed])
    return without, with_it


def _board_ranks(competition: Competition, problem_id: str, standings: Sequence[Standing]) -> Mapping[str, int]:
    """The rank of every submission that is somebody's best on its device."""
    device_boards = boards(competition, standings, problem_id=problem_id).values()
    return {entry.submission_id: entry.rank for device_board in device_boards for entry in device_board.entries}
