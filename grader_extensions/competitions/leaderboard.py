"""Ranks users on a board: the best of each user, ranked so that entries with overlapping intervals share a rank.  Pure.

The order is total and depends on nothing but what is counted: no clock, no order of rows, no database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from grader.model import Score, ScoreKind
from grader.verdict.scores import Estimate, averaged
from grader_extensions.competitions.model import Competition, Phase, TieRule
from sandbox.protocol import wire

PAR = Score(value=1.0, low=1.0, high=1.0)  # what everybody has without handing in: the baseline itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A submission that may count: accepted in the competition's mode and window, with a score."""

    submission_id: str
    user: str
    problem_id: str
    device: str
    clock: wire.Clock
    score: Score
    create_time: datetime
    flags: tuple[str, ...] = ()
    rule: str = ""  # what counted as right when it was judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A user's place. submission_id "" and the last of the times where it is of several problems."""

    user: str
    score: Score
    create_time: datetime
    submission_id: str = ""
    problem_count: int = 1
    flags: tuple[str, ...] = ()
    rank: int = 0
    submission_count: int = 1  # that count on this board, over all its problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board, all of it. before: submissions made since then are not counted; None: all are. official: times of a real device. rule: what
    counts as right; "" over several problems. other_rule_count: accepted submissions that were judged by another rule, such as before a
    problem's tolerance changed: they are left out until they are judged again."""

    competition_id: str
    problem_id: str  # "": over all problems
    device: str
    devices: tuple[str, ...]
    entries: tuple[Entry, ...]
    official: bool
    score_kind: ScoreKind
    baseline: str  # "" where times are compared
    before: datetime | None = None
    rule: str = ""
    other_rule_count: int = 0


@dataclass(frozen=True, slots=True)
class Standings:
    """Submissions that count on a board, as last read. applied_count: of rejudges, without which none of them changes. boards: made of
    them, by their `before`."""

    competition: Competition
    applied_count: int
    by_id: Mapping[str, Standing]
    boards: dict[datetime | None, dict[str, Board]] = field(default_factory=dict)


def counted_before(competition: Competition, now: datetime, *, admin: bool) -> datetime | None:
    """From when on submissions are left out, for this caller at this time: while the board is frozen, all but administrators."""
    return competition.freeze_time if competition.phase(now) is Phase.FROZEN and not admin else None


def board(
    competition: Competition, standings: Iterable[Standing], *, problem_id: str = "", device: str = "", before: datetime | None = None
) -> Board:
    """The board of one problem, or over all of them, on one device. device "": the first that there are entries of. A competition of one
    problem has no other board than that problem's."""
    problem_ids = competition.problem_ids if not problem_id else (problem_id,)
    counted, other_rule_count = _counted(competition, standings, problem_ids, before)
    official = {standing.device: standing.clock is wire.Clock.DEVICE_EVENTS for standing in counted}
    devices = tuple(sorted(official, key=lambda name: (not official[name], name)))
    device = device or next(iter(devices), "")
    here = [standing for standing in counted if standing.device == device]
    best = _best(here, competition.ranking.score_kind)
    counts = Counter(standing.user for standing in here)
    alone = problem_ids[0] if len(problem_ids) == 1 else ""
    kind = competition.ranking.score_kind
    if alone:
        places = [
            Entry(user=user, score=row.score, create_time=row.create_time, submission_id=row.submission_id, flags=row.flags)
            for user, rows in best.items()
            for row in rows.values()
        ]
    else:
        places = _overall(best, problem_ids, kind)
    return Board(
        competition_id=competition.competition_id,
        problem_id=alone,
        device=device,
        devices=devices,
        entries=ranked(places, kind, competition.tie_rule, counts),
        official=official.get(device, False),
        score_kind=kind,
        baseline="" if kind is ScoreKind.TIME else competition.ranking.baseline,
        before=before,
        rule=competition.rules.get(alone, ""),
        other_rule_count=other_rule_count,
    )


def boards(
    competition: Competition, standings: Collection[Standing], *, problem_id: str = "", before: datetime | None = None
) -> dict[str, Board]:
    """The boards of one problem, or over all of them, by device; "": as `board` has it."""
    first = board(competition, standings, problem_id=problem_id, before=before)
    rest = (board(competition, standings, problem_id=problem_id, device=device, before=before) for device in first.devices[1:])
    return {"": first, first.device: first, **{standing.device: standing for standing in rest}}


def improvements(competition: Competition, standings: Iterable[Standing], before: datetime | None) -> list[Standing]:
    """Those of one user that count, and that were the best of their problem on their device when they were made."""
    best: dict[tuple[str, str], Standing] = {}
    improving, kind = list[Standing](), competition.ranking.score_kind
    for standing in sorted(_counted(competition, standings, competition.problem_ids, before)[0], key=lambda row: row.create_time):
        place = (standing.problem_id, standing.device)
        if place not in best or _order(standing, kind) < _order(best[place], kind):
            best[place] = standing
            improving.append(standing)
    return improving


def ranked(entries: Iterable[Entry], kind: ScoreKind, tie_rule: TieRule, counts: Mapping[str, int]) -> tuple[Entry, ...]:
    """Best first. An entry whose interval overlaps that of the group's first, its best, belongs to the group; the first one in order that
    does not begins the next. So ties are not passed on from neighbour to neighbour, and a wide interval lifts nobody over a better score.
    A group's rank is one more than how many are before it. counts: of submissions by user."""
    groups: list[list[Entry]] = []
    for entry in sorted(entries, key=lambda entry: _order(entry, kind)):
        if groups and _overlap(groups[-1][0].score, entry.score):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    result: list[Entry] = []
    for group in groups:
        if tie_rule is TieRule.EARLIEST:
            group.sort(key=lambda entry: (entry.create_time, _order(entry, kind)))
        rank = len(result) + 1
        result += [replace(entry, rank=rank, submission_count=counts[entry.user]) for entry in group]
    return tuple(result)


def rank(score: Score, better: Iterable[Score]) -> int:
    """Return the rank of a score behind these, best first, as `ranked` has it."""
    best, first = score, 1
    for place, next_score in enumerate((*better, score), 1):
        if place == 1 or not _overlap(best, next_score):
            best, first = next_score, place
    return first


def _overlap(best: Score, score: Score) -> bool:
    return best.low <= score.high and score.low <= best.high


def _counted(
    competition: Competition, standings: Iterable[Standing], problem_ids: Sequence[str], before: datetime | None
) -> tuple[list[Standing], int]:
    """Return what counts on a board of these problems, on any device, and how many more would by the present rule."""
    eligible = [row for row in standings if row.problem_id in problem_ids and (before is None or row.create_time < before)]
    counted = [row for row in eligible if row.rule == competition.rules.get(row.problem_id, row.rule)]
    return counted, len(eligible) - len(counted)


def _order(row: Entry | Standing, kind: ScoreKind) -> tuple[float, datetime, str, str]:
    return (-row.score.value if kind is ScoreKind.SPEEDUP else row.score.value, row.create_time, row.submission_id, row.user)


def _best(standings: Iterable[Standing], kind: ScoreKind) -> dict[str, dict[str, Standing]]:
    """The best of each user in each problem; of equals the first."""
    best: dict[str, dict[str, Standing]] = {}
    for standing in standings:
        row = best.setdefault(standing.user, {})
        if standing.problem_id not in row or _order(standing, kind) < _order(row[standing.problem_id], kind):
            row[standing.problem_id] = standing
    return best


def _overall(best: dict[str, dict[str, Standing]], problem_ids: Sequence[str], kind: ScoreKind) -> list[Entry]:
    """Of speedups, the geometric mean over all problems, each at least at par: who hands nothing in for a problem has the baseline, and
    handing in what is slower must not be worse than that. There is no par of times: only who has one in every problem is compared."""
    entries = []
    for user, rows in best.items():
        if kind is ScoreKind.TIME and len(rows) < len(problem_ids):
            continue
        scores = [rows[problem_id].score if problem_id in rows else PAR for problem_id in problem_ids]
        if kind is ScoreKind.SPEEDUP:
            scores = [
                Score(value=max(score.value, PAR.value), low=max(score.low, PAR.low), high=max(score.high, PAR.high)) for score in scores
            ]
        estimates = [estimate for score in scores if (estimate := Estimate.from_interval(score.value, score.low, score.high)) is not None]
        if len(estimates) == len(scores):
            flags = tuple(sorted({flag for row in rows.values() for flag in row.flags}))
            last = max(row.create_time for row in rows.values())
            entries.append(Entry(user=user, score=averaged(estimates).score, create_time=last, problem_count=len(rows), flags=flags))
    return entries
