"""Rejudges in the ledger: submissions that are judged again, without changing any until that is applied.

A run is a row of `submissions` that belongs to no user's list; the queue, leases and retries know no difference. Applying adds a judgement
to each submission and copies it into the submission's row; nothing else of it changes, and no event follows its last one.

What a rejudge changes is read: each judgement next to the one that it replaces, and the boards with and without it. Boards with a
rejudge are made by the code that makes boards, from rows that say what applying would write. So a preview is what comes.
"""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from grader.errors import RejudgeNotFound, RejudgeNotReady, RejudgeOutdated, RequestIdReused, SubmissionNotFound
from grader.ledger import Ledger, queue, records, transactions
from grader.ledger.changes import NewsKind, tell
from grader.ledger.tables import FOUND, events, judgements, rejudge_items, rejudges, submissions
from grader.model import Failure, Judgement, Problem, Report, SubmissionState
from grader_extensions.competitions.boards import standings_of
from grader_extensions.competitions.leaderboard import Standing, board
from grader_extensions.competitions.model import Competition
from grader_extensions.competitions.rejudge import Change, Rejudge, RejudgeMethod, RejudgeOrder, RejudgeState
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
_OWN = [submissions.c[name] for name in ("number", "submission_id", "user_name", "competition_id", "problem_id")]
_FOUND = ("verdict", "reason", "summary", "score", "score_low", "score_high", "problem_digest")
_OLD = (*_FOUND, "create_time", "rejudge_id", "sequence")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A submission that was asked for. graded: whether there is a judgement to replace."""

    number: int
    submission_id: str
    problem_id: str
    competition_id: str
    graded: bool


def new_id() -> str:
    """An id that nobody can guess."""
    return secrets.token_hex(16)


class Rejudges:
    """Every method is one transaction."""

    def __init__(self, ledger: Ledger) -> None:
        self._database, self._now = ledger.database, ledger.now

    async def by_request(self, user: str, request_id: str, order: RejudgeOrder) -> Rejudge | None:
        """The rejudge that this request made; RequestIdReused where it asked for something else."""
        return await self._database.read(lambda connection: _by_request(connection, user, request_id, order))

    async def candidates(self, order: RejudgeOrder, submission_ids: Sequence[str] | None = None) -> list[Candidate]:
        """The submissions that are meant, in the order in which they were handed in; of these only, where some are named.

        SubmissionNotFound where one that is named is no user's submission. All that are named are there, graded or not.
        """
        names = ("number", "submission_id", "problem_id", "competition_id")
        query = sa.select(*(submissions.c[name] for name in names), submissions.c.state).where(submissions.c.rejudge_id.is_(None))
        query = query.where(submissions.c.mode != wire.Mode.SWEEP)  # it has sizes of its own, which the problem does not know
        graded = query.where(submissions.c.state == SubmissionState.SUCCEEDED)
        for name, value in (("problem_id", order.problem_id), ("competition_id", order.competition_id)):
            graded = graded.where(submissions.c[name] == value) if value else graded

        def work(connection: sa.Connection) -> list[Candidate]:
            queries = [graded]
            if submission_ids is not None:
                chunks = (submission_ids[start : start + CHUNK] for start in range(0, len(submission_ids), CHUNK))
                queries = [query.where(submissions.c.submission_id.in_(chunk)) for chunk in chunks]
            by_id = {
                row.submission_id: Candidate(graded=row.state == SubmissionState.SUCCEEDED, **{name: row._mapping[name] for name in names})
                for chunk_query in queries
                for row in connection.execute(chunk_query)
            }
            if missing := [submission_id for submission_id in submission_ids or () if submission_id not in by_id]:
                raise SubmissionNotFound(missing[0])
            return sorted(by_id.values(), key=lambda candidate: candidate.number)

        return await self._database.read(work)

    async def create(
        self,
        order: RejudgeOrder,
        user: str,
        request_id: str,
        numbers: Mapping[str, Sequence[int]],
        problems: Iterable[Problem],
        *,
        rejudge_id: str = "",
    ) -> Rejudge:
        """Choose submissions, by the digest of the problem that they are to be judged by, for `undecided` to find.

        rejudge_id: from `new_id`, where a problem was made for it.
        """
        identifier = rejudge_id or new_id()
        row = {"rejudge_id": identifier, "user_name": user, "document": json.dumps(dataclasses.asdict(order))}

        def work(connection: sa.Connection) -> Rejudge:
            if request_id and (before := _by_request(connection, user, request_id, order)) is not None:
                return before
            now = self._now()
            for problem in problems:
                transactions.keep_problem(connection, now, problem)
            request_key = records.request_key(user, request_id) if request_id else None
            connection.execute(sa.insert(rejudges).values(**row, request_id=request_key, state=RejudgeState.RUNNING, create_time=now))
            for digest, chosen in numbers.items():
                for start in range(0, len(chosen), CHUNK):
                    part = submissions.c.number.in_(chosen[start : start + CHUNK])
                    columns = (sa.literal(identifier), submissions.c.number, sa.literal(digest), submissions.c.judgement_count)
                    items = ["rejudge_id", "number", "problem_digest", "judgement_count"]
                    connection.execute(sa.insert(rejudge_items).from_select(items, sa.select(*columns).where(part)))
            return _get(connection, identifier)

        return await self._database.write(work)

    async def undecided(self, limit: int) -> list[Undecided]:
        """The next that somebody has to look at, of all rejudges."""
        return await self._database.read(lambda connection: _undecided(connection, limit))

    async def decide(self, rulings: Sequence[tuple[Undecided, Report | None]]) -> int:
        """Write what facts decided, and put runs of the rest into the queue; says how many."""
        return await self._database.write(lambda connection: _decide(connection, self._now(), rulings))

    async def try_again(self, rejudge_id: str) -> int:
        """Run again what we failed at; says how many."""
        return await self._database.write(lambda connection: _try_again(connection, rejudge_id))

    async def get(self, rejudge_id: str) -> Rejudge:
        """Return a rejudge with its counts; RejudgeNotFound."""
        return await self._database.read(lambda connection: _get(connection, rejudge_id))

    async def changes(self, rejudge_id: str, competitions: Iterable[Competition]) -> tuple[Rejudge, list[Change]]:
        """Return a rejudge, and what it changes, or changed. competitions: those whose boards are known."""
        contests = tuple(competitions)
        return await self._database.read(lambda connection: (_get(connection, rejudge_id), _changes(connection, rejudge_id, contests)))

    async def page(self, *, size: int, before: int | None = None) -> tuple[list[Rejudge], int | None]:
        """Newest first; and `before` of the next page."""
        query = sa.select(rejudges).order_by(rejudges.c.sequence.desc()).limit(size + 1)
        if before is not None:
            query = query.where(rejudges.c.sequence < min(before, transactions.LARGEST))

        def work(connection: sa.Connection) -> tuple[list[Rejudge], int | None]:
            rows = connection.execute(query).all()
            return [_rejudge(connection, row) for row in rows[:size]], rows[size - 1].sequence if len(rows) > size else None

        return await self._database.read(work)

    async def apply(self, rejudge_id: str) -> None:
        """Let its judgements count. RejudgeNotReady, RejudgeOutdated; a second time changes nothing."""

        def work(connection: sa.Connection) -> None:
            state = _get(connection, rejudge_id).state
            if state in (RejudgeState.RUNNING, RejudgeState.DISCARDED):
                raise RejudgeNotReady(rejudge_id, state)
            if state is RejudgeState.READY:
                _apply(connection, self._now(), rejudge_id)

        await self._database.write(work)

    async def discard(self, rejudge_id: str) -> list[str]:
        """Drop them, and cancel runs; the answer is the ids of those that are under way. A second time changes nothing."""

        def work(connection: sa.Connection) -> list[str]:
            state = _row(connection, rejudge_id).state
            if state == RejudgeState.APPLIED:
                raise RejudgeNotReady(rejudge_id, state)
            return [] if state == RejudgeState.DISCARDED else _discard(connection, self._now(), rejudge_id)

        return await self._database.write(work)


def _undecided(connection: sa.Connection, limit: int) -> list[Undecided]:
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
        method = _order(row.document).method
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


def _order(document: str) -> RejudgeOrder:
    """Return what was asked for, from where it is kept."""
    data = json.loads(document)
    return RejudgeOrder(**data | {"submission_ids": tuple(data["submission_ids"]), "method": RejudgeMethod(data["method"])})


def _decide(connection: sa.Connection, now: datetime, rulings: Iterable[tuple[Undecided, Report | None]]) -> int:
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
            run_number = _run(connection, now, item, _order(open_item.document).device_kind, open_item.problem_digest)
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


def _try_again(connection: sa.Connection, rejudge_id: str) -> int:
    """Let what failed be looked at once more, as if it had never been run; says how many."""
    gone = sa.select(submissions.c.number).where(submissions.c.rejudge_id == rejudge_id, submissions.c.state.in_(GAVE_UP))
    mine = sa.and_(rejudge_items.c.rejudge_id == rejudge_id, rejudge_items.c.verdict.is_(None), rejudge_items.c.run_number.in_(gone))
    return connection.execute(sa.update(rejudge_items).where(mine).values(run_number=None)).rowcount


def _apply(connection: sa.Connection, now: datetime, rejudge_id: str) -> None:
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


def _discard(connection: sa.Connection, now: datetime, rejudge_id: str) -> list[str]:
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


def _by_request(connection: sa.Connection, user: str, request_id: str, order: RejudgeOrder) -> Rejudge | None:
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


def _get(connection: sa.Connection, rejudge_id: str) -> Rejudge:
    return _rejudge(connection, _row(connection, rejudge_id))


def _rejudge(connection: sa.Connection, row: sa.Row[Any]) -> Rejudge:
    run = submissions.alias("run")
    undecided, ran = rejudge_items.c.verdict.is_(None), rejudge_items.c.run_number.is_not(None)
    counted = (sa.true(), sa.and_(~undecided, ~ran), ran, undecided, sa.and_(undecided, run.c.state.in_(GAVE_UP)))
    query = (
        sa.select(*(sa.func.coalesce(sa.func.sum(sa.case((condition, 1), else_=0)), 0) for condition in counted))
        .select_from(rejudge_items.outerjoin(run, run.c.number == rejudge_items.c.run_number))
        .where(rejudge_items.c.rejudge_id == row.rejudge_id)
    )
    count, refolded, rerun, pending, failed = connection.execute(query).one()
    state = RejudgeState(row.state)
    return Rejudge(
        rejudge_id=row.rejudge_id,
        order=_order(row.document),
        state=RejudgeState.READY if state is RejudgeState.RUNNING and not pending else state,
        user=row.user_name,
        create_time=row.create_time,
        end_time=row.end_time,
        submission_count=count,
        refolded_count=refolded,
        rerun_count=rerun,
        pending_count=pending,
        failed_count=failed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A submission, what is changed of it, and the board that it may be on. decided: whether the rejudge knows."""

    number: int
    competition_id: str
    problem_id: str
    decided: bool
    change: Change


def _changes(connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition]) -> list[Change]:
    """Return a change for each submission that this rejudge judges or ranks otherwise, in the order of submission."""
    listed = _listed(connection, rejudge_id)
    without, with_it = _ranks(connection, rejudge_id, competitions, listed)
    listed_ids = {item.change.submission_id for item in listed}
    ranked_ids = sorted({*without, *with_it} - listed_ids)
    moved = [submission_id for submission_id in ranked_ids if without.get(submission_id) != with_it.get(submission_id)]
    unlisted = []
    for start in range(0, len(moved), CHUNK):
        query = (
            sa.select(*_OWN, *(_BASE.c[name].label(f"old_{name}") for name in _OLD))
            .join(_BASE, sa.and_(_BASE.c.number == submissions.c.number, _BASE.c.sequence == submissions.c.judgement_count))
            .where(submissions.c.submission_id.in_(moved[start : start + CHUNK]))
        )
        unlisted += [_item(row, decided=False) for row in connection.execute(query)]
    change_items = sorted([*listed, *unlisted], key=lambda item: item.number)
    ranked = [
        replace(item.change, rank_before=without.get(item.change.submission_id, 0), rank_after=with_it.get(item.change.submission_id, 0))
        for item in change_items
    ]
    return [
        change
        for change in ranked
        if any(getattr(change.before, name) != getattr(change.after, name) for name in ("verdict", "reason", "score"))
        or change.rank_before != change.rank_after
    ]


def _listed(connection: sa.Connection, rejudge_id: str) -> list[_Item]:
    """Every submission that was chosen. One that is not decided yet changes nothing so far."""
    columns: list[sa.ColumnElement[Any]] = [
        *_OWN,
        *(_BASE.c[name].label(f"old_{name}") for name in _OLD),
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
        .join(_BASE, sa.and_(_BASE.c.number == rejudge_items.c.number, _BASE.c.sequence == rejudge_items.c.judgement_count))
        .where(rejudge_items.c.rejudge_id == rejudge_id)
    )
    return [_item(row, decided=row.new_verdict is not None) for row in connection.execute(query)]


def _item(row: sa.Row[Any], *, decided: bool) -> _Item:
    before = _judgement(row, "old_")
    after = _judgement(row, "new_") if decided else before
    change = Change(submission_id=row.submission_id, user=row.user_name, before=before, after=after)
    return _Item(number=row.number, competition_id=row.competition_id, problem_id=row.problem_id, decided=decided, change=change)


def _judgement(row: sa.Row[Any], prefix: str) -> Judgement:
    return records.judgement({name: row._mapping[prefix + name] for name in _OLD})


def _ranks(
    connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition], listed: Sequence[_Item]
) -> tuple[dict[str, int], dict[str, int]]:
    """Ranks by submission, on the boards of the problems that the items are of: without the rejudge, and with it."""
    without, with_it = dict[str, int](), dict[str, int]()
    chosen = {item.change.submission_id for item in listed}
    decided = {item.change.submission_id for item in listed if item.decided}
    by_id = {contest.competition_id: contest for contest in competitions}
    for competition_id, problem_id in sorted({(item.competition_id, item.problem_id) for item in listed}):
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
    devices = board(competition, standings, problem_id=problem_id).devices
    device_boards = [board(competition, standings, problem_id=problem_id, device=device) for device in devices]
    return {entry.submission_id: entry.rank for device_board in device_boards for entry in device_board.entries}
