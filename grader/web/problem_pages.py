"""Pages of problems: the list, each problem, and its starter files."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from grader import access
from grader.api import messages
from grader.errors import SubmissionNotFound
from grader.model import Caller, Problem, Submission, SubmissionState
from grader.rules.disclosure import Redactor
from grader.views.starter_files import starter_files
from grader.web import problem_views
from grader.web.artifacts import attachment
from grader.web.site import PageAbsent, Site, page_number
from sandbox.protocol import wire

LISTED, REPORTS = 20, 4  # the newest submissions that are looked at for baseline times; a report is some 200 kB
TIMED = frozenset((wire.Mode.BENCHMARK, wire.Mode.RANKED))


class ProblemPages:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def problems(self, request: web.Request) -> web.Response:
        """The list."""
        found = await asyncio.to_thread(lambda: [messages.problem_to_proto(one) for one in self._site.problems.all()])
        return await self._site.page(request, "problems.html", problem_views.problems(found, page=page_number(request)))

    async def problem(self, request: web.Request) -> web.Response:
        """One."""
        site, found = self._site, self._site.problems.get(request.match_info["id"])
        caller = site.viewer(request)
        rows = await site.recent(("baselines", found.digest, *self._sight(caller)), lambda: self._baselines(caller, found))
        shown = problem_views.problem(
            messages.problem_to_proto(found),
            starter_files(found),
            site.competitions.all(),
            site.now(),
            baselines=rows,
            server=site.server_address(request),
            asks_keys=site.asks_keys,
        )
        return await site.page(request, "problem.html", shown)

    async def starter(self, request: web.Request) -> web.Response:
        """A starter file, to save."""
        found = self._site.problems.get(request.match_info["id"])
        for one in starter_files(found):
            if one.name == request.match_info["name"]:
                return attachment(one.name, one.content.encode())
        raise PageAbsent

    def _sight(self, caller: Caller) -> tuple[object, ...]:
        """What decides which submissions this caller sees."""
        return caller.admin, access.opened(self._site.competitions.all(), self._site.now())

    async def _baselines(self, caller: Caller, problem: Problem) -> list[dict[str, Any]]:
        """PyTorch's times, by the newest submissions that this caller may see."""
        ledger, competitions, now = self._site.ledger, self._site.competitions.all(), self._site.now()
        if caller.admin:
            lists = [access.submission_filter(caller, "", "", competitions, now)]
        else:
            opened = [one.competition_id for one in competitions if problem.problem_id in one.problem_ids]
            lists = [
                access.submission_filter(caller, "", one, competitions, now)
                for one in opened
                if access.sees_competition(caller, one, competitions, now)
            ]
        found: list[Submission] = []
        for which in lists:
            listed, _ = await ledger.page(
                size=LISTED, problem_id=problem.problem_id, states=(SubmissionState.SUCCEEDED,), submission_filter=which
            )
            found += listed
        newest = sorted((one for one in found if one.new.mode in TIMED), key=lambda one: one.create_time, reverse=True)[:REPORTS]
        shown = []
        for one in await ledger.with_reports([one.submission_id for one in newest]):
            was = await ledger.problem(one.problem_digest)
            if self._may_see(caller, one) and _same_sizes(was, problem):
                shown.append(messages.submission_to_proto(one, Redactor.for_problem(was)))
        return problem_views.baseline_rows(messages.problem_to_proto(problem), reversed(shown))

    def _may_see(self, caller: Caller, submission: Submission) -> bool:
        try:
            access.check_seen(caller, submission, self._site.competitions.all(), self._site.now())
        except SubmissionNotFound:
            return False
        return True


def _same_sizes(was: Problem, now: Problem) -> bool:
    """Whether PyTorch did the same then, at the sizes that are shown now."""
    before = {one.workload_id: one.axes for one in was.spec.workloads if not one.hidden}
    shown = [one for one in now.spec.workloads if not one.hidden]
    return was.spec.reference == now.spec.reference and all(before.get(one.workload_id) == one.axes for one in shown)
