"""Data to what templates show.  Pure.  Submissions come as the API shows them, so that what it withholds is not here either."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from grader.api.boards import device_differences_to_proto
from grader.html_report.content import flags, when
from grader.model import Competition, Phase, ScoreKind, TieRule, Visibility
from grader.plots.bars import IntervalPosition, interval_bar, interval_positions
from grader.rules.leaderboard import Board, Entry
from grader.v1 import submission_pb2
from grader.views import device_differences, formatting

PAGE_SIZE = 50
_PHASES = {
    Phase.UPCOMING: "not yet begun",
    Phase.OPEN: "open",
    Phase.FROZEN: "open, board frozen",
    Phase.ENDED: "ended",
}
_SHARED = "entries whose intervals overlap with that of the best of their group share its rank"
_TIES = {TieRule.SHARE: _SHARED, TieRule.EARLIEST: f"{_SHARED}, and the earliest is listed first"}
_VISIBILITIES = {
    Visibility.PRIVATE: "reports and sources are shown to their owners only",
    Visibility.AFTER_END: "reports and sources are shown to everybody once it has ended",
}


@dataclass(frozen=True, slots=True)
class PagePosition:
    """Where on a list of pages: page counts from 1."""

    page: int
    count: int

    @property
    def pages(self) -> int:
        """How many there are."""
        return max(-(-self.count // PAGE_SIZE), 1)

    @property
    def first(self) -> int:
        """The first entry of this page, from 0."""
        return (self.page - 1) * PAGE_SIZE


def competitions(found: Sequence[Competition], now: datetime, *, page: int = 1) -> dict[str, Any]:
    """The list of competitions: those that go on first, then those to come, then the ended, latest first."""
    order = {Phase.OPEN: 0, Phase.FROZEN: 0, Phase.UPCOMING: 1, Phase.ENDED: 2}
    listed = sorted(found, key=lambda one: (order[one.phase(now)], -one.end_time.timestamp(), one.competition_id))
    place = PagePosition(page, len(listed))
    return {"competitions": [_head(one, now) for one in listed[place.first : place.first + PAGE_SIZE]], "place": place}


def _head(one: Competition, now: datetime) -> dict[str, Any]:
    return {
        "id": one.competition_id,
        "title": one.title or one.competition_id,
        "phase": one.phase(now).value,
        "phase_words": _PHASES[one.phase(now)],
        "start": when(one.start_time),
        "end": when(one.end_time),
        "problem_count": len(one.problem_ids),
    }


def board(
    competition: Competition, found: Board, now: datetime, titles: Mapping[str, str], *, page: int = 1, linked: bool = False
) -> dict[str, Any]:
    """A competition with one of its boards. titles: of problems; linked: whether submissions may be looked at."""
    place = PagePosition(page, len(found.entries))
    scores = [_score(one) for one in found.entries]
    shown = slice(place.first, place.first + PAGE_SIZE)
    drawn = interval_positions(scores[shown], among=scores)
    ranks = [one.rank for one in found.entries]
    return {
        "competition": _head(competition, now) | _terms(competition),
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
        "unlike_gpus": device_differences.sentence(device_differences_to_proto(found)),
        "entries": [
            _entry(one, bar, found.score_kind, tied=ranks.count(one.rank) > 1, linked=linked)
            for one, bar in zip(found.entries[shown], drawn, strict=True)
        ],
        "place": place,
    }


def _terms(one: Competition) -> dict[str, Any]:
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


def _entry(one: Entry, bar: IntervalPosition | None, kind: ScoreKind, *, tied: bool, linked: bool) -> dict[str, Any]:
    return {
        "rank": one.rank,
        "tied": tied,
        "user": one.user or "(no one named)",
        "score": _figure(one.score.value, kind),
        "low": _figure(one.score.low, kind),
        "high": _figure(one.score.high, kind),
        "bar": Markup(interval_bar(bar, title=f"the interval of {one.user}")),
        "time": when(one.create_time),
        "submission_id": one.submission_id if linked else "",
        "problem_count": one.problem_count,
        "flags": flags(one.flags),
    }


def _score(one: Entry) -> tuple[float, float, float]:
    return one.score.value, one.score.low, one.score.high


def _figure(value: float, kind: ScoreKind) -> str:
    return formatting.time(value) if kind is ScoreKind.TIME else f"{value:.4g}x"


def sources(found: submission_pb2.Submission) -> dict[str, Any]:
    """The sources, in their order."""
    files = [{"path": one.path, "content": one.content} for one in found.sources]
    return {"id": found.name.rpartition("/")[2], "files": files}
