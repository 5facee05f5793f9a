"""The first page: competitions that run or are to come, the queue, and problems."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from aiohttp import web

from grader.api import messages
from grader.errors import ProblemNotFound
from grader.model import Competition, Phase
from grader.web import views
from grader.web.problem_views import problem_row
from grader.web.site import Site

PROBLEMS = 8
_RUNNING = (Phase.OPEN, Phase.FROZEN)


class HomePage:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def home(self, request: web.Request) -> web.Response:
        """The page."""
        site, now = self._site, self._site.now()
        found = site.competitions.all()
        running = sorted((one for one in found if one.phase(now) in _RUNNING), key=lambda one: (one.end_time, one.competition_id))
        upcoming = sorted((one for one in found if one.phase(now) is Phase.UPCOMING), key=lambda one: (one.start_time, one.competition_id))
        shown = {
            "running": [views.competition_head(one, now) for one in running[: views.PAGE_SIZE]],
            "upcoming": [views.competition_head(one, now) for one in upcoming[: views.PAGE_SIZE]],
            "competition_count": len(found),
            "queue": await self._queue(request),
            "problems": await asyncio.to_thread(self._problems, found, now),
        }
        return await site.page(request, "home.html", shown, scripted=True)

    async def _queue(self, request: web.Request) -> dict[str, int] | None:
        """How many wait and run; None for those whom the API does not show everybody's submissions."""
        if not self._site.viewer(request).admin:
            return None
        demands = await self._site.recent(("queue",), self._site.ledger.device_demands)
        return {"waiting": sum(one.queued_count for one in demands), "running": sum(one.running_count for one in demands)}

    def _problems(self, competitions: tuple[Competition, ...], now: datetime) -> list[dict[str, Any]]:
        """Those of the competitions that began last first, and then others by name."""
        begun = sorted((one for one in competitions if one.start_time <= now), key=lambda one: one.start_time, reverse=True)
        names = dict.fromkeys(name for one in begun for name in one.problem_ids)
        names |= dict.fromkeys(one.problem_id for one in self._site.problems.all())
        found: list[dict[str, Any]] = []
        for name in names:
            if len(found) == PROBLEMS:
                break
            try:
                found.append(problem_row(messages.problem_to_proto(self._site.problems.get(name))))
            except ProblemNotFound:
                continue
        return found
