"""Data to what templates show.  Pure.  Submissions come as the API shows them, so that what it withholds is not here either."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from grader.html_report.content import when
from grader.html_report.source_lines import shown_sources
from grader.model import Competition, Phase
from grader.v1 import submission_pb2

PAGE_SIZE = 50
_PHASES = {
    Phase.UPCOMING: "not yet begun",
    Phase.OPEN: "open",
    Phase.FROZEN: "open, board frozen",
    Phase.ENDED: "ended",
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

    @property
    def shown(self) -> slice:
        """The entries of this page."""
        return slice(self.first, self.first + PAGE_SIZE)


def competitions(found: Sequence[Competition], now: datetime, *, page: int = 1) -> dict[str, Any]:
    """The list of competitions: those that go on first, then those to come, then the ended, latest first."""
    order = {Phase.OPEN: 0, Phase.FROZEN: 0, Phase.UPCOMING: 1, Phase.ENDED: 2}
    listed = sorted(found, key=lambda one: (order[one.phase(now)], -one.end_time.timestamp(), one.competition_id))
    place = PagePosition(page, len(listed))
    return {"competitions": [competition_head(one, now) for one in listed[place.shown]], "place": place}


def competition_head(one: Competition, now: datetime) -> dict[str, Any]:
    """What every page shows of a competition: its name and its times."""
    return {
        "id": one.competition_id,
        "title": one.title or one.competition_id,
        "phase": one.phase(now).value,
        "phase_words": _PHASES[one.phase(now)],
        "start": when(one.start_time),
        "end": when(one.end_time),
        "before": remaining(one.start_time - now),
        "left": remaining(one.end_time - now),
        "problem_count": len(one.problem_ids),
    }


def remaining(time: timedelta) -> str:
    """How long until then, to the hour where it is days, else to the minute."""
    minutes = max(int(time.total_seconds()) // 60, 0)
    hours, days = minutes // 60, minutes // (24 * 60)
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def sources(found: submission_pb2.Submission) -> dict[str, Any]:
    """The sources, in their order, line by line."""
    return {"id": found.name.rpartition("/")[2], "files": shown_sources(found.sources, {})}
