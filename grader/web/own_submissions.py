"""The list of one's own submissions: what ListSubmissions answers to the same caller."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from grader import access
from grader.api import messages
from grader.html_report.content import when
from grader.model import Submission, Verdict
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.web.site import Site, whole_number
from grader.web.views import PAGE_SIZE

VERDICTS = tuple(sorted(one.name for one in Verdict))


class OwnSubmissions:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def submissions(self, request: web.Request) -> web.Response:
        """A page of the list, newest first. Administrators may ask for everybody's; on a server without keys there is nothing else."""
        site, query = self._site, request.query
        caller = site.user_of(request, "ListSubmissions")
        everybody = caller.admin and (not caller.user or query.get("users") == "all")
        problem_id, verdict = query.get("problem", "")[:200], query.get("verdict", "")
        which = access.submission_filter(caller, "" if everybody else caller.user, "", site.competitions.all(), site.now())
        if verdict in VERDICTS:
            which = replace(which, verdicts=(Verdict[verdict],))
        before = whole_number(query.get("before", ""))
        found, following = await site.ledger.page(size=PAGE_SIZE, before=before, problem_id=problem_id, submission_filter=which)
        rows = await self._rows(found)
        chosen = {
            "problem": problem_id,
            "verdict": verdict if verdict in VERDICTS else "",
            "users": "all" if everybody and caller.user else "",
        }
        kept = {name: value for name, value in chosen.items() if value}
        shown = {
            "rows": rows,
            "everybody": everybody,
            "may_see_all": caller.admin and bool(caller.user),
            "chosen": chosen,
            "problems": sorted({one.problem_id for one in site.problems.all()} | ({problem_id} if problem_id else set())),
            "verdicts": VERDICTS,
            "newest": "?" + urlencode(kept) if before is not None else "",
            "older": "?" + urlencode({**kept, "before": following}) if following is not None else "",
        }
        return await site.page(request, "submissions.html", shown, form=True)

    async def _rows(self, found: list[Submission]) -> list[dict[str, Any]]:
        ledger = self._site.ledger
        redactors = {digest: Redactor.for_problem(await ledger.problem(digest)) for digest in {one.problem_digest for one in found}}
        return await asyncio.to_thread(lambda: [row(messages.submission_to_proto(one, redactors[one.problem_digest])) for one in found])


def row(one: submission_pb2.Submission) -> dict[str, Any]:
    """A submission as a line of a list."""
    over = f" over {one.score_baseline}" if one.score_baseline else ""
    return {
        "id": one.name.rpartition("/")[2],
        "user": one.user,
        "problem": one.problem.rpartition("/")[2],
        "competition": one.competition.rpartition("/")[2],
        "verdict": formatting.verdict_or_state(one),
        "accepted": one.report.verdict == report_pb2.VERDICT_ACCEPTED,
        "score": formatting.score(one.score, one.score_low, one.score_high, one.score_kind) + over if one.HasField("score") else "",
        "withdrawn": formatting.withdrawal(one),
        "mode": formatting.name_of(submission_pb2.Mode, one.mode, "MODE_").lower(),
        "language": one.language,
        "device": one.device_kind,
        "time": when(one.create_time.ToDatetime(tzinfo=UTC)),
    }
