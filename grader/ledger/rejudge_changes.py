"""What a rejudge changes: each judgement beside the one that it replaces, and the boards with and without it.  Reads only.

Boards with a rejudge are made by the code that makes boards, from rows that say what applying would write: so a preview is what comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from grader.ledger import boards
from grader.ledger.rejudge_items import CHUNK
from grader.ledger.tables import judgements, rejudge_items, rejudges, submissions
from grader.model import Competition, Judgement, Score, Verdict
from grader.rules.leaderboard import Standing, board
from grader.rules.rejudge import Change

_BASE = judgements.alias("base")
_OWN = [submissions.c[name] for name in ("number", "submission_id", "user_name", "competition_id", "problem_id")]
_FOUND = ("verdict", "reason", "summary", "score", "score_low", "score_high", "problem_digest")
_OLD = (*_FOUND, "create_time", "rejudge_id", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A submission, what is changed of it, and the board that it may be on. decided: whether the rejudge knows."""

    number: int
    competition_id: str
    problem_id: str
    decided: bool
    change: Change


def changes(connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition]) -> list[Change]:
    """One for each submission that is judged or ranked otherwise with this rejudge, in the order in which they were handed in."""
    items = _items(connection, rejudge_id)
    without, with_it = _ranks(connection, rejudge_id, competitions, items)
    known = {one.change.submission_id for one in items}
    moved = [one for one in sorted({*without, *with_it} - known) if without.get(one) != with_it.get(one)]
    found = sorted([*items, *_others(connection, moved)], key=lambda item: item.number)
    ranked = [
        replace(one.change, rank_before=without.get(one.change.submission_id, 0), rank_after=with_it.get(one.change.submission_id, 0))
        for one in found
    ]
    return [one for one in ranked if _differs(one)]


def _differs(change: Change) -> bool:
    before, after = change.before, change.after
    judged = (before.verdict, before.reason, before.score) != (after.verdict, after.reason, after.score)
    return judged or change.rank_before != change.rank_after


def _items(connection: sa.Connection, rejudge_id: str) -> list[_Item]:
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


def _others(connection: sa.Connection, submission_ids: Sequence[str]) -> list[_Item]:
    """Submissions that were not chosen, as they are."""
    found = []
    for start in range(0, len(submission_ids), CHUNK):
        query = (
            sa.select(*_OWN, *(_BASE.c[name].label(f"old_{name}") for name in _OLD))
            .join(_BASE, sa.and_(_BASE.c.number == submissions.c.number, _BASE.c.sequence == submissions.c.judgement_count))
            .where(submissions.c.submission_id.in_(submission_ids[start : start + CHUNK]))
        )
        found += [_item(row, decided=False) for row in connection.execute(query)]
    return found


def _item(row: sa.Row[Any], *, decided: bool) -> _Item:
    before = _judgement(row, "old_")
    after = _judgement(row, "new_") if decided else before
    change = Change(submission_id=row.submission_id, user=row.user_name, before=before, after=after)
    return _Item(number=row.number, competition_id=row.competition_id, problem_id=row.problem_id, decided=decided, change=change)


def _judgement(row: sa.Row[Any], prefix: str) -> Judgement:
    values = {name: row._mapping[prefix + name] for name in _OLD}
    scored = values["score"] is not None
    return Judgement(
        sequence=values["sequence"],
        verdict=Verdict(values["verdict"]),
        reason=values["reason"],
        summary=values["summary"],
        problem_digest=values["problem_digest"],
        create_time=values["create_time"],
        score=Score(value=values["score"], low=values["score_low"], high=values["score_high"]) if scored else None,
        rejudge_id=values["rejudge_id"] or "",
    )


def _ranks(
    connection: sa.Connection, rejudge_id: str, competitions: Iterable[Competition], items: Sequence[_Item]
) -> tuple[dict[str, int], dict[str, int]]:
    """Ranks by submission, on the boards of the problems that the items are of: without the rejudge, and with it."""
    without, with_it = dict[str, int](), dict[str, int]()
    chosen = {one.change.submission_id for one in items}
    decided = {one.change.submission_id for one in items if one.decided}
    by_id = {one.competition_id: one for one in competitions}
    for competition_id, problem_id in sorted({(one.competition_id, one.problem_id) for one in items}):
        competition = by_id.get(competition_id)
        if competition is None or problem_id not in competition.problem_ids:
            continue  # there is no board
        mine = (rejudge_items.c.number == submissions.c.number, rejudge_items.c.rejudge_id == rejudge_id)
        base = (judgements.c.number == submissions.c.number, judgements.c.sequence == rejudge_items.c.judgement_count)
        rest = [one for one in boards.standings(connection, competition, problem_id) if one.submission_id not in chosen]
        old = boards.standings(connection, competition, problem_id, judged=judgements, where=(*mine, *base))
        new = boards.standings(connection, competition, problem_id, judged=rejudge_items, where=mine)
        without |= _board_ranks(competition, problem_id, [*rest, *old])
        kept = [one for one in old if one.submission_id not in decided]
        with_it |= _board_ranks(competition, problem_id, [*rest, *kept, *new])
    return without, with_it


def _board_ranks(competition: Competition, problem_id: str, standings: Sequence[Standing]) -> Mapping[str, int]:
    """The rank of every submission that is somebody's best on its device."""
    devices = board(competition, standings, problem_id=problem_id).devices
    made = [board(competition, standings, problem_id=problem_id, device=device) for device in devices]
    return {entry.submission_id: entry.rank for one in made for entry in one.entries}
