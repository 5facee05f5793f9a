"""How the scores of a board came about: the best of its first users, over the time since the competition began.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup

from grader.model import Competition, ScoreKind
from grader.plots.frames import ChartAxis
from grader.plots.lines import ChartSeries, line_chart

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
    found = "; ".join(f"{one.name}: {one.ys[0]:.4g} to {one.ys[-1]:.4g}" for one in series)
    return Markup(
        line_chart(
            series,
            title="Best scores over time",
            description=f"{label}, first and last: {found}.",
            x=ChartAxis(label="days since the start" if long else "hours since the start"),
            y=ChartAxis(label=label),
        )
    )
