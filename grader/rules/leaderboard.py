"""Who is where on a board: the best of each user, ranked so that entries with overlapping intervals share a rank.  Pure.

The order is total and depends on nothing but what is counted: no clock, no order of rows, no database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from grader.model import Competition, Phase, Score, ScoreKind, TieRule
from grader.verdict.scores import Estimate, averaged
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
    """One user's place. submission_id "" and the last of the times where it is of several problems."""

    user: str
    score: Score
    create_time: datetime
    submission_id: str = ""
    problem_count: int = 1
    flags: tuple[str, ...] = ()
    rank: int = 0
    submission_count: int = 1  # that count on this board, over all its problems
    language: str = ""  # of the submission; see `with_languages`


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A board, all of it. before: submissions made since then are not counted; None: all are. official: times of a real device.

    rule: what counts as right; "" over several problems. other_rule_count: accepted submissions that were judged by another rule, such as
    before a problem's tolerance changed: they are left out until they are judged again.
    """

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


def counted_before(competition: Competition, now: datetime, *, admin: bool) -> datetime | None:
    """From when on submissions are left out, for this caller at this time: while the board is frozen, all but administrators."""
    return competition.freeze_time if competition.phase(now) is Phase.FROZEN and not admin else None


def board(
    competition: Competition, standings: Iterable[Standing], *, problem_id: str = "", device: str = "", before: datetime | None = None
) -> Board:
    """The board of one problem, or over all of them, on one device. device "": the first that there are entries of.

    A competition of one problem has no other board than that problem's.
    """
    problem_ids = competition.problem_ids if not problem_id else (problem_id,)
    counted, other_rule_count = _counted(competition, standings, problem_ids, before)
    official = {one.device: one.clock is wire.Clock.DEVICE_EVENTS for one in counted}
    devices = tuple(sorted(official, key=lambda name: (not official[name], name)))
    device = device or next(iter(devices), "")
    here = [one for one in counted if one.device == device]
    best = _best(here, competition.ranking.score_kind)
    counts = Counter(one.user for one in here)
    alone = problem_ids[0] if len(problem_ids) == 1 else ""
    kind = competition.ranking.score_kind
    entries = ranked(_singles(best) if alone else _overall(best, problem_ids, kind), kind, competition.tie_rule)
    return Board(
        competition_id=competition.competition_id,
        problem_id=alone,
        device=device,
        devices=devices,
        entries=tuple(replace(one, submission_count=counts[one.user]) for one in entries),
        official=official.get(device, False),
        score_kind=kind,
        baseline="" if kind is ScoreKind.TIME else competition.ranking.baseline,
        before=before,
        rule=competition.rules.get(alone, ""),
        other_rule_count=other_rule_count,
    )


def progress(
    competition: Competition, found: Board, standings: Iterable[Standing], users: Sequence[str]
) -> dict[str, tuple[tuple[datetime, float], ...]]:
    """When each of these users had a better score than before, and which, on a board of one problem. What it leaves out is left out."""
    kind = competition.ranking.score_kind
    counted, _ = _counted(competition, standings, (found.problem_id,), found.before)
    steps: dict[str, list[Standing]] = {user: [] for user in users}
    for one in sorted(counted, key=lambda one: (one.create_time, one.submission_id)):
        if one.user in steps and one.device == found.device:
            mine = steps[one.user]
            if not mine or _order(one, kind) < _order(mine[-1], kind):
                mine.append(one)
    return {user: tuple((one.create_time, one.score.value) for one in mine) for user, mine in steps.items()}


def with_languages(board: Board, languages: Mapping[str, str]) -> Board:
    """The board with the languages of its entries. languages: by submission, of those that will be shown."""
    entries = tuple(replace(one, language=languages.get(one.submission_id, "")) for one in board.entries)
    return replace(board, entries=entries)


def ranked(entries: Iterable[Entry], kind: ScoreKind, tie_rule: TieRule) -> tuple[Entry, ...]:
    """Best first. An entry whose interval overlaps that of the group's first, its best, belongs to the group; the first one in order that
    does not begins the next. So ties are not passed on from neighbour to neighbour, and a wide interval lifts nobody over a better score.
    A group's rank is one more than how many are before it."""
    groups: list[list[Entry]] = []
    for one in sorted(entries, key=lambda entry: _order(entry, kind)):
        if groups and _overlap(groups[-1][0].score, one.score):
            groups[-1].append(one)
        else:
            groups.append([one])
    found: list[Entry] = []
    for group in groups:
        if tie_rule is TieRule.EARLIEST:
            group.sort(key=lambda entry: (entry.create_time, _order(entry, kind)))
        rank = len(found) + 1
        found += [replace(one, rank=rank) for one in group]
    return tuple(found)


def _counted(
    competition: Competition, standings: Iterable[Standing], problem_ids: Sequence[str], before: datetime | None
) -> tuple[list[Standing], int]:
    """What counts on a board of these problems, on any device, and how many more would if they had been judged by the present rule."""
    made = [one for one in standings if one.problem_id in problem_ids and (before is None or one.create_time < before)]
    counted = [one for one in made if one.rule == competition.rules.get(one.problem_id, one.rule)]
    return counted, len(made) - len(counted)


def _order(one: Entry | Standing, kind: ScoreKind) -> tuple[float, datetime, str, str]:
    return (-one.score.value if kind is ScoreKind.SPEEDUP else one.score.value, one.create_time, one.submission_id, one.user)


def _overlap(one: Score, other: Score) -> bool:
    return one.low <= other.high and other.low <= one.high


def _best(standings: Iterable[Standing], kind: ScoreKind) -> dict[str, dict[str, Standing]]:
    """The best of each user in each problem; of equals the first."""
    best: dict[str, dict[str, Standing]] = {}
    for one in standings:
        mine = best.setdefault(one.user, {})
        if one.problem_id not in mine or _order(one, kind) < _order(mine[one.problem_id], kind):
            mine[one.problem_id] = one
    return best


def _singles(best: dict[str, dict[str, Standing]]) -> list[Entry]:
    return [
        Entry(user=user, score=one.score, create_time=one.create_time, submission_id=one.submission_id, flags=one.flags)
        for user, mine in best.items()
        for one in mine.values()
    ]


def _overall(best: dict[str, dict[str, Standing]], problem_ids: Sequence[str], kind: ScoreKind) -> list[Entry]:
    """Of speedups, the geometric mean over all problems, each at least at par: who hands nothing in for a problem has the baseline, and
    handing in what is slower must not be worse than that. There is no par of times: only who has one in every problem is compared."""
    made = []
    for user, mine in best.items():
        if kind is ScoreKind.TIME and len(mine) < len(problem_ids):
            continue
        scores = [mine[problem_id].score if problem_id in mine else PAR for problem_id in problem_ids]
        score = _mean([_at_par(one) for one in scores] if kind is ScoreKind.SPEEDUP else scores)
        if score is not None:
            flags = tuple(sorted({flag for one in mine.values() for flag in one.flags}))
            last = max(one.create_time for one in mine.values())
            made.append(Entry(user=user, score=score, create_time=last, problem_count=len(mine), flags=flags))
    return made


def _at_par(score: Score) -> Score:
    return Score(value=max(score.value, PAR.value), low=max(score.low, PAR.low), high=max(score.high, PAR.high))


def _mean(scores: Sequence[Score]) -> Score | None:
    estimates = [Estimate.of(one.value, one.low, one.high) for one in scores]
    known = [one for one in estimates if one is not None]
    return averaged(known).score if len(known) == len(scores) else None
