"""A board to what its page shows: each column with one unit and one number of decimals, so that its digits align.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

from grader.model import ScoreKind
from grader_extensions.competitions.leaderboard import Board
from grader_extensions.competitions.model import Competition, TieRule, Visibility
from grader_extensions.web.plots.frames import ChartAxis
from grader_extensions.web.plots.lines import ChartSeries, line_chart
from grader_extensions.web.report.content import flags, when
from grader_extensions.web.views import PagePosition, competition_head

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
_SHARED = "entries whose intervals overlap with that of the best of their group share its rank"
_TIES = {TieRule.SHARE: _SHARED, TieRule.EARLIEST: f"{_SHARED}, and the earliest is listed first"}
_VISIBILITIES = {
    Visibility.PRIVATE: "reports and sources are shown to their owners only",
    Visibility.AFTER_END: "reports and sources are shown to everybody once it has ended",
}


def board(
    competition: Competition,
    shown_board: Board,
    now: datetime,
    titles: Mapping[str, str],
    *,
    page: int = 1,
    linked: bool = False,
    reader: str = "",
) -> dict[str, Any]:
    """A competition with one of its boards. titles: of problems; linked: whether all submissions may be looked at, or the reader's only."""
    place = PagePosition(page, len(shown_board.entries))
    scores = [(entry.score.value, entry.score.low, entry.score.high) for entry in shown_board.entries]
    shown, figure = shown_board.entries[place.shown], score_column([score[0] for score in scores], shown_board.score_kind)
    ranks = Counter(entry.rank for entry in shown_board.entries)
    return {
        "competition": competition_head(competition, now) | terms(competition),
        "problem_id": shown_board.problem_id,
        "overall": len(competition.problem_ids) > 1,
        "problems": [{"id": problem_id, "title": titles.get(problem_id, problem_id)} for problem_id in competition.problem_ids],
        "device": shown_board.device,
        "devices": shown_board.devices,
        "official": shown_board.official,
        "frozen": when(shown_board.before) if shown_board.before else "",
        "speedups": shown_board.score_kind is ScoreKind.SPEEDUP,
        "baseline": shown_board.baseline,
        "rule": shown_board.rule,
        "other_rule_count": shown_board.other_rule_count,
        "entries": [
            {
                "rank": entry.rank,
                "tied": ranks[entry.rank] > 1,
                "user": entry.user or "(no one named)",
                "score": figure(entry.score.value),
                "low": figure(entry.score.low),
                "high": figure(entry.score.high),
                "gap": gap(entry.score.value, scores[0][0], shown_board.score_kind),
                "time": when(entry.create_time),
                "submission_id": entry.submission_id if linked or (reader and entry.user == reader) else "",
                "submission_count": entry.submission_count,
                "language": entry.language,
                "problem_count": entry.problem_count,
                "flags": flags(entry.flags),
            }
            for entry in shown
        ],
        "place": place,
    }


def terms(competition: Competition) -> dict[str, Any]:
    """How a competition counts."""
    limits = [f"{count} {period}" for count, period in ((competition.hourly_limit, "an hour"), (competition.daily_limit, "a day")) if count]
    return {
        "statement": competition.statement,
        "freeze": when(competition.freeze_time) if competition.freeze_time else "",
        "limits": " and ".join(limits),
        "processes": competition.ranking.process_count,
        "secret_count": sum(len(workloads) for workloads in competition.secret_workloads.values()),
        "ties": _TIES[competition.tie_rule],
        "visibility": _VISIBILITIES[competition.visibility],
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


# The chart of best scores since the competition began.

SHOWN_USERS = 5
LONG = timedelta(days=4)  # from here on in days
NS_PER_MS = 1e6

ScoreSteps = Mapping[str, Sequence[tuple[datetime, float]]]  # by user: when a score was better than all before, and which


def progress_chart(competition: Competition, steps: ScoreSteps, until: datetime | None) -> Markup:
    """A line for each user that holds until their next better score, up to `until`, or to the last step of all: a page that nothing has
    changed stays the same. "" where there is no score."""
    shown = {user: mine for user, mine in steps.items() if mine}
    if not shown:
        return Markup("")
    until = max(until or competition.start_time, *(mine[-1][0] for mine in shown.values()))
    long = until - competition.start_time > LONG
    unit = timedelta(days=1) if long else timedelta(hours=1)
    timed = competition.ranking.score_kind is ScoreKind.TIME
    size, label = (NS_PER_MS, "ms") if timed else (1.0, "times the baseline's speed")

    def across(time: datetime) -> float:
        return (time - competition.start_time) / unit

    series = [
        ChartSeries(
            name=user or "(no one named)",
            xs=(*(across(time) for time, _ in mine), across(until)),
            ys=(*(value / size for _, value in mine), mine[-1][1] / size),
            stepped=True,
        )
        for user, mine in shown.items()
    ]
    summary = "; ".join(f"{line.name}: {line.ys[0]:.4g} to {line.ys[-1]:.4g}" for line in series)
    return Markup(
        line_chart(
            series,
            title="Best scores over time",
            description=f"{label}, first and last: {summary}.",
            x=ChartAxis(label="days since the start" if long else "hours since the start"),
            y=ChartAxis(label=label),
        )
    )
