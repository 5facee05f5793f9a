"""A board to what its page shows: each column with one unit and one number of decimals, so that its digits align.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from grader.html_report.content import flags, when
from grader.model import Competition, ScoreKind, TieRule, Visibility
from grader.rules.leaderboard import Board
from grader.web.views import PagePosition, competition_head

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
_SHARED = "entries whose intervals overlap with that of the best of their group share its rank"
_TIES = {TieRule.SHARE: _SHARED, TieRule.EARLIEST: f"{_SHARED}, and the earliest is listed first"}
_VISIBILITIES = {
    Visibility.PRIVATE: "reports and sources are shown to their owners only",
    Visibility.AFTER_END: "reports and sources are shown to everybody once it has ended",
}


def board(
    competition: Competition,
    found: Board,
    now: datetime,
    titles: Mapping[str, str],
    *,
    page: int = 1,
    linked: bool = False,
    reader: str = "",
) -> dict[str, Any]:
    """A competition with one of its boards. titles: of problems; linked: whether all submissions may be looked at, or the reader's only."""
    place = PagePosition(page, len(found.entries))
    scores = [(one.score.value, one.score.low, one.score.high) for one in found.entries]
    shown, figure = found.entries[place.shown], score_column([one[0] for one in scores], found.score_kind)
    ranks = Counter(one.rank for one in found.entries)
    return {
        "competition": competition_head(competition, now) | terms(competition),
        "problem_id": found.problem_id,
        "overall": len(competition.problem_ids) > 1,
        "problems": [{"id": one, "title": titles.get(one, one)} for one in competition.problem_ids],
        "device": found.device,
        "devices": found.devices,
        "official": found.official,
        "frozen": when(found.before) if found.before else "",
        "speedups": found.score_kind is ScoreKind.SPEEDUP,
        "baseline": found.baseline,
        "rule": found.rule,
        "other_rule_count": found.other_rule_count,
        "entries": [
            {
                "rank": one.rank,
                "tied": ranks[one.rank] > 1,
                "user": one.user or "(no one named)",
                "score": figure(one.score.value),
                "low": figure(one.score.low),
                "high": figure(one.score.high),
                "gap": gap(one.score.value, scores[0][0], found.score_kind),
                "time": when(one.create_time),
                "submission_id": one.submission_id if linked or (reader and one.user == reader) else "",
                "submission_count": one.submission_count,
                "language": one.language,
                "problem_count": one.problem_count,
                "flags": flags(one.flags),
            }
            for one in shown
        ],
        "place": place,
    }


def terms(one: Competition) -> dict[str, Any]:
    """How a competition counts."""
    limits = [f"{count} {period}" for count, period in ((one.hourly_limit, "an hour"), (one.daily_limit, "a day")) if count]
    return {
        "statement": one.statement,
        "freeze": when(one.freeze_time) if one.freeze_time else "",
        "limits": " and ".join(limits),
        "processes": one.ranking.process_count,
        "secret_count": sum(len(workloads) for workloads in one.secret_workloads.values()),
        "ties": _TIES[one.tie_rule],
        "visibility": _VISIBILITIES[one.visibility],
    }


def score_column(values: Sequence[float], kind: ScoreKind) -> Callable[[float], str]:
    """How the scores of one board are written: times in the unit of the shortest, speedups with three or four digits of the largest."""
    if kind is ScoreKind.TIME:
        shortest = min(values, default=1.0)
        size, unit = next(((size, unit) for size, unit in _UNITS if shortest >= size), (1.0, "ns"))
        digits = _decimals(shortest / size)
        return lambda value: f"{value / size:.{digits}f} {unit}"
    decimals = _decimals(max(values, default=1.0))
    return lambda value: f"{value:.{decimals}f}x"


def gap(value: float, best: float, kind: ScoreKind) -> str:
    """How far behind the first, such as -12.5 %: of the speedup, or how much more time. "" for the first."""
    if value == best or value <= 0 or best <= 0:
        return ""
    percent = 100 * (value / best - 1)
    return f"{'-' if kind is ScoreKind.SPEEDUP else '+'}{abs(percent):.1f} %"


def _decimals(value: float) -> int:
    return 2 if value < 10 else 1 if value < 100 else 0
