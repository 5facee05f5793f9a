"""Pages of submissions: the list of one's own, and the comparison of two for those who may see both."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from enum import StrEnum
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from grader import access
from grader.errors import FieldViolation, InvalidRequest
from grader.model import Score, Submission, Verdict
from grader.peers import PeerCount, PeerLimits
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.scores import Estimate, ratio_of_medians
from grader.views import formatting
from grader_extensions.web.report.content import verdict_color, when
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
        "color": verdict_color(submission.report.verdict),
        "score": formatting.score(submission.score, submission.score_low, submission.score_high, submission.score_kind) + over
        if submission.HasField("score")
        else "",
        "withdrawn": formatting.withdrawal(submission),
        "mode": formatting.words(submission, "mode"),
        "language": submission.language,
        "time": when(submission.create_time.ToDatetime(tzinfo=UTC)),
    }


COMPARE_LIMITS = PeerLimits(total=8, per_address=2)  # comparisons at a time
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SubmissionPages:
    """Answers GET requests. limits: of comparisons at a time."""

    def __init__(self, site: Site, limits: PeerLimits = COMPARE_LIMITS) -> None:
        self._site, self.count, self._turn = site, PeerCount(limits), asyncio.Lock()

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
            async with self._turn:  # two whole reports take memory
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


# From here on pure.

WIDEST = math.log(1000)  # half of an interval of a speedup that is compared


class SpeedChange(StrEnum):
    """Change of the second submission against the first."""

    FASTER = "faster"
    SLOWER = "slower"
    UNKNOWN = "can't tell"


_COLORS = {SpeedChange.FASTER: "good", SpeedChange.SLOWER: "bad", SpeedChange.UNKNOWN: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadChange:
    """Change on a workload.

    ratio: the first's certified time divided by the second's, above 1 where the second is faster; None where a time is missing. against:
    the same of the times over those of a baseline, which was timed in turns with each of them, so that what changed between the two
    gradings is not taken for a change of the kernel. reason: why nothing can be concluded, or "".
    """

    workload_id: str
    ratio: Score | None = None
    against: Score | None = None
    baseline: str = ""
    change: SpeedChange = SpeedChange.UNKNOWN
    reason: str


def workload_changes(first: submission_pb2.Submission, second: submission_pb2.Submission) -> list[WorkloadChange]:
    """Every workload that either was measured on, in their order."""
    by_id = [{row.workload_id: row for row in submission.report.measurements} for submission in (first, second)]
    names = dict.fromkeys([*by_id[0], *by_id[1]])
    before, after = first.report.environment, second.report.environment
    elsewhere = "timed by different clocks" if before.clock != after.clock else ""
    if (before.device_kind, before.device) != (after.device_kind, after.device):
        elsewhere = f"graded on different devices, {before.device or before.device_kind} and {after.device or after.device_kind}"
    return [_changed(name, by_id[0].get(name), by_id[1].get(name), elsewhere) for name in names]


def changed_files(first: submission_pb2.Submission, second: submission_pb2.Submission) -> list[str]:
    """Paths of the sources that differ, or that only one of them has."""
    before, after = ({source.path: source.content for source in submission.sources} for submission in (first, second))
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _changed(name: str, first: report_pb2.Measurement | None, second: report_pb2.Measurement | None, elsewhere: str) -> WorkloadChange:
    if first is None or second is None:
        return WorkloadChange(workload_id=name, reason=f"{'a' if first is None else 'b'} has no certified time")
    ratio = ratio_of_medians(list(first.certified.sample_durations_ns), list(second.certified.sample_durations_ns))
    against, baseline = _against_baseline(first.speedups, second.speedups)
    reason = elsewhere or ("too few samples, or a time that was not resolved" if ratio is None else "")
    change = SpeedChange.UNKNOWN
    if ratio is not None and not reason:
        change, reason = _concluded(ratio, against, baseline)
    return WorkloadChange(workload_id=name, ratio=ratio, against=against, baseline=baseline, change=change, reason=reason)


def _concluded(ratio: Score, against: Score | None, baseline: str) -> tuple[SpeedChange, str]:
    """Faster or slower only where no interval has 1 within it, and both are on one side of it."""
    ratios: list[Score] = [ratio] if against is None else [ratio, against]
    if all(interval.low > 1 for interval in ratios):
        return SpeedChange.FASTER, ""
    if all(interval.high < 1 for interval in ratios):
        return SpeedChange.SLOWER, ""
    if ratio.low > 1 or ratio.high < 1:
        return SpeedChange.UNKNOWN, f"the speedup over {baseline} does not confirm it: the device may have changed between the two"
    return SpeedChange.UNKNOWN, "1x is within the interval"


def _against_baseline(first: Sequence[report_pb2.Speedup], second: Sequence[report_pb2.Speedup]) -> tuple[Score | None, str]:
    """The second's speedup divided by the first's, over the baseline that both have; the two intervals are of independent gradings."""
    by_baseline = {speedup.baseline: speedup for speedup in first}
    for after in sorted(second, key=lambda speedup: (speedup.baseline != "eager", speedup.baseline)):
        speedups = [speedup for speedup in (by_baseline.get(after.baseline), after) if speedup is not None]
        estimates = [Estimate.from_interval(speedup.ratio, speedup.ratio_low, speedup.ratio_high) for speedup in speedups]
        usable = [estimate for estimate in estimates if estimate is not None and estimate.half < WIDEST]
        if len(usable) == 2:
            return Estimate(usable[1].log - usable[0].log, math.hypot(usable[0].half, usable[1].half)).score, after.baseline
    return None, ""


def context(first: submission_pb2.Submission, second: submission_pb2.Submission) -> dict[str, Any]:
    """Return what the page shows."""
    removed = first.sources_removed or second.sources_removed
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
        "changed_files": changed_files(first, second),
    }


def _shown(interval: Score | None) -> str:
    return f"{interval.value:.3g}x ({interval.low:.3g} to {interval.high:.3g})" if interval else "-"
