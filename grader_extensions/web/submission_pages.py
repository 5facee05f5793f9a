"""Pages of submissions: the list of one's own, and the comparison of two for those who may see both."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from grader import access
from grader.errors import FieldViolation, InvalidRequest
from grader.model import Submission, Verdict
from grader.peers import PeerCount, PeerLimits
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.median_interval import MedianInterval
from grader.views import formatting
from grader_extensions.web.comparison import SourceChange, SpeedChange, source_changes, workload_changes
from grader_extensions.web.report.content import when
from grader_extensions.web.site import PageAbsent, Site, TooBusy, counted, sentence, whole_number
from grader_extensions.web.views import PAGE_SIZE

# The list shows what ListSubmissions answers to the same caller.

VERDICTS = tuple(sorted(verdict.name for verdict in Verdict))


def row(submission: submission_pb2.Submission) -> dict[str, Any]:
    """A submission as a line of a list."""
    over = f" over {submission.score_baseline}" if submission.score_baseline else ""
    return {
        "id": submission.name.rpartition("/")[2],
        "user": submission.user,
        "problem": submission.problem.rpartition("/")[2],
        "competition": submission.competition.rpartition("/")[2],
        "verdict": formatting.verdict_or_state(submission),
        "accepted": submission.report.verdict == report_pb2.VERDICT_ACCEPTED,
        "score": formatting.score(submission.score, submission.score_low, submission.score_high, submission.score_kind) + over
        if submission.HasField("score")
        else "",
        "withdrawn": formatting.withdrawal(submission),
        "mode": formatting.words(submission, "mode"),
        "language": submission.language,
        "device": submission.device_kind,
        "time": when(submission.create_time.ToDatetime(tzinfo=UTC)),
    }


COMPARE_LIMITS = PeerLimits(total=8, per_address=2)  # comparisons that wait or are made; one is made at a time
SHOWN_LINES, LINE_CHARS = 2_000, 2_000
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MARKS = {"+": "added", "-": "removed"}
_COLORS = {SpeedChange.FASTER: "good", SpeedChange.SLOWER: "bad", SpeedChange.UNKNOWN: ""}


class SubmissionPages:
    """Answers GET requests. limits: of comparisons at a time."""

    def __init__(self, site: Site, limits: PeerLimits = COMPARE_LIMITS) -> None:
        self._site, self._turn = site, asyncio.Lock()
        self.count = PeerCount(limits)

    async def submissions(self, request: web.Request) -> web.Response:
        """A page of the list, newest first. Administrators may ask for everybody's; on a server without keys there is nothing else."""
        site, query = self._site, request.query
        caller = site.user_of(request, "ListSubmissions")
        everybody = caller.admin and (not caller.user or query.get("users") == "all")
        problem_id, verdict = query.get("problem", "")[:200], query.get("verdict", "")
        submission_filter = access.submission_filter(caller, "" if everybody else caller.user, "", site.readable())
        if verdict in VERDICTS:
            submission_filter = replace(submission_filter, verdicts=(Verdict[verdict],))
        before = whole_number(query.get("before", ""))
        page_submissions, following = await site.ledger.page(
            size=PAGE_SIZE, before=before, problem_id=problem_id, submission_filter=submission_filter
        )
        chosen = {
            "problem": problem_id,
            "verdict": verdict if verdict in VERDICTS else "",
            "users": "all" if everybody and caller.user else "",
        }
        set_filters = {name: value for name, value in chosen.items() if value}
        shown = {
            "rows": [row(await site.message(submission)) for submission in page_submissions],
            "everybody": everybody,
            "may_see_all": caller.admin and bool(caller.user),
            "chosen": chosen,
            "problems": sorted({problem.problem_id for problem in site.problems.all()} | ({problem_id} if problem_id else set())),
            "verdicts": VERDICTS,
            "newest": "?" + urlencode(set_filters) if before is not None else "",
            "older": "?" + urlencode({**set_filters, "before": following}) if following is not None else "",
        }
        return await site.page(request, "submissions.html", shown, form=True)

    async def compare(self, request: web.Request) -> web.Response:
        """The page."""
        names = [request.query.get(name, "") for name in ("a", "b")]
        if not all(names) or names[0] == names[1]:
            raise InvalidRequest([FieldViolation("a and b", "have to be two submissions; choose one of each in the list of submissions")])
        if not all(map(_ID.fullmatch, names)):
            raise PageAbsent
        first, second = [await self._site.seen(request, name) for name in names]
        if first.new.problem_id != second.new.problem_id:
            text = f"are of different problems, {first.new.problem_id} and {second.new.problem_id}; choose two of one problem"
            raise InvalidRequest([FieldViolation("a and b", text)])
        with counted(request, self.count, TooBusy("Too many comparisons are being made. Reload this page.", 5)):
            async with self._turn:  # a diff of long files takes a while
                shown = await asyncio.to_thread(context, await self._message(first), await self._message(second))
        return await self._site.page(request, "compare.html", shown)

    async def _message(self, submission: Submission) -> submission_pb2.Submission:
        """As its own page shows it: of hidden workloads there are no times."""
        message = await self._site.message(replace(submission, judgements=()), full=True)
        shown = [measurement for measurement in message.report.measurements if not measurement.hidden]
        if message.HasField("report"):
            del message.report.measurements[:]
            message.report.measurements.extend(shown)
        return message


def context(first: submission_pb2.Submission, second: submission_pb2.Submission) -> dict[str, Any]:
    """Return what the page shows."""
    removed = first.sources_removed or second.sources_removed
    sources = () if removed else tuple(source_changes(first, second))
    practice = any(submission.report.environment.clock == report_pb2.CLOCK_HOST for submission in (first, second))
    return {
        "first": row(first),
        "second": row(second),
        "problem_id": first.problem.rpartition("/")[2],
        "changes": workload_changes(first, second),
        "colors": _COLORS,
        "interval_of": _shown,
        "practice": sentence(formatting.PRACTICE) if practice else "",
        "sources_removed": removed,
        "sources": _sources(sources),
    }


def _sources(sources: tuple[SourceChange, ...]) -> list[dict[str, Any]]:
    """The lines of each diff, so many in all; the first two of each name its files."""
    remaining_lines, shown_sources = SHOWN_LINES, list[dict[str, Any]]()
    for source in sources:
        lines = source.lines[:remaining_lines]
        remaining_lines -= len(lines)
        shown = [{"mark": _MARKS.get(line[:1], ""), "text": line[:LINE_CHARS]} for line in lines]
        shown_sources.append({"path": source.path, "lines": shown, "more_count": len(source.lines) - len(lines)})
    return shown_sources


def _shown(interval: MedianInterval | None) -> str:
    return f"{interval.value:.3g}x ({interval.low:.3g} to {interval.high:.3g})" if interval else "-"
