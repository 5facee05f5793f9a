"""The page that compares two submissions, for those who may see both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from aiohttp import web

from grader import access
from grader.api import messages
from grader.api.comparison import SourceChange, SpeedChange, WorkloadChange, source_changes, workload_changes
from grader.errors import FieldViolation, InvalidRequest
from grader.model import Submission
from grader.peers import PeerCount, PeerLimits, network_of
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.median_interval import MedianInterval
from grader.views import formatting
from grader.web.own_submissions import row
from grader.web.site import PageAbsent, Site, sentence

COMPARE_LIMITS = PeerLimits(total=8, per_address=2)  # comparisons that wait or are made; one is made at a time
SOURCE_LINES, SHOWN_LINES, LINE_CHARS = 2_000, 2_000, 2_000
ID_CHARS = 64
_MARKS = {"+": "added", "-": "removed"}
_COLORS = {SpeedChange.FASTER: "good", SpeedChange.SLOWER: "bad", SpeedChange.UNKNOWN: ""}


class ComparePage:
    """Answers GET requests."""

    def __init__(self, site: Site, limits: PeerLimits = COMPARE_LIMITS) -> None:
        self._site, self._turn = site, asyncio.Lock()
        self.count = PeerCount(limits)

    async def compare(self, request: web.Request) -> web.Response:
        """The page."""
        names = [request.query.get(name, "") for name in ("a", "b")]
        if not all(names) or names[0] == names[1]:
            raise InvalidRequest([FieldViolation("a and b", "have to be two submissions; choose one of each in the list of submissions")])
        first, second = [await self._seen(request, name) for name in names]
        if first.new.problem_id != second.new.problem_id:
            text = f"are of different problems, {first.new.problem_id} and {second.new.problem_id}; choose two of one problem"
            raise InvalidRequest([FieldViolation("a and b", text)])
        with self.count.entered(network_of(request.remote or "unix")) as inside:
            if not inside:
                answer = await self._site.error(request, 503, "Not now", "Too many comparisons are being made. Reload this page.")
                answer.headers["Retry-After"] = "5"
                return answer
            async with self._turn:  # a diff of long files takes a while
                shown = await asyncio.to_thread(context, await self._message(first), await self._message(second))
        return await self._site.page(request, "compare.html", shown)

    async def _seen(self, request: web.Request, submission_id: str) -> Submission:
        if len(submission_id) > ID_CHARS:
            raise PageAbsent
        submission = await self._site.ledger.get(submission_id)
        access.check_seen(self._site.viewer(request), submission, self._site.competitions.all(), self._site.now())
        return submission

    async def _message(self, submission: Submission) -> submission_pb2.Submission:
        """As its own page shows it: of hidden workloads there are no times."""
        redactor = Redactor.for_problem(await self._site.ledger.problem(submission.problem_digest))
        message = messages.submission_to_proto(replace(submission, judgements=()), redactor, full=True)
        shown = [one for one in message.report.measurements if not one.hidden]
        if message.HasField("report"):
            del message.report.measurements[:]
            message.report.measurements.extend(shown)
        return message


def context(first: submission_pb2.Submission, second: submission_pb2.Submission) -> dict[str, Any]:
    """What the page shows."""
    removed = first.sources_removed or second.sources_removed
    sources = () if removed else tuple(source_changes(first, second, line_limit=SOURCE_LINES))
    practice = any(one.report.environment.clock == report_pb2.CLOCK_HOST for one in (first, second))
    return {
        "first": row(first),
        "second": row(second),
        "problem_id": first.problem.rpartition("/")[2],
        "changes": [_change(one) for one in workload_changes(first, second)],
        "practice": sentence(formatting.PRACTICE) if practice else "",
        "sources_removed": removed,
        "sources": _sources(sources),
    }


def _change(one: WorkloadChange) -> dict[str, str]:
    return {
        "workload_id": one.workload_id,
        "change": str(one.change),
        "color": _COLORS[one.change],
        "ratio": _shown(one.ratio),
        "against": f"{_shown(one.against)} over {one.baseline}" if one.against else "-",
        "reason": one.reason,
    }


def _sources(sources: tuple[SourceChange, ...]) -> list[dict[str, Any]]:
    """The lines of each diff, so many in all; the first two of each name its files."""
    left, found = SHOWN_LINES, list[dict[str, Any]]()
    for one in sources:
        lines = one.lines[:left]
        left -= len(lines)
        shown = [{"mark": _MARKS.get(line[:1], ""), "text": line[:LINE_CHARS]} for line in lines]
        found.append({"path": one.path, "lines": shown, "more_count": len(one.lines) - len(lines)})
    return found


def _shown(interval: MedianInterval | None) -> str:
    return f"{interval.value:.3g}x ({interval.low:.3g} to {interval.high:.3g})" if interval else "-"
