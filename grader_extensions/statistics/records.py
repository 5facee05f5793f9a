"""Submissions as rows of plain values, for files and for statistics."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from grader import devices
from grader.api.client import GraderClient
from grader.api.resource_names import PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.api.statuses import reason_of
from grader.cli.exits import UsageError
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.timing_audit import resolved
from grader.views import formatting

Row = Mapping[str, Any]
_TAG = re.compile(r"[A-Za-z0-9._/:=-]{1,64}")  # that of grader/intake/gate.py, which a client does not import
_AT_ONCE = 16  # submissions, with reports and sources, that are on their way


async def fetched(
    client: GraderClient, heads: Sequence[submission_pb2.Submission], *, full: bool = False
) -> AsyncIterator[submission_pb2.Submission]:
    """Yield the submissions of a list with reports and sources, in its order. full: with single samples."""
    for start in range(0, len(heads), _AT_ONCE):
        for submission in await asyncio.gather(*(client.get_submission(head.name, full=full) for head in heads[start : start + _AT_ONCE])):
            yield submission


async def tagged(client: GraderClient, *, tag: str, problem: str = "", user: str = "") -> AsyncIterator[submission_pb2.Submission]:
    """Yield the submissions with a tag that the caller may see, newest first, without those made meanwhile. UsageError without any."""
    if not _TAG.fullmatch(tag):
        raise UsageError(f"tag: {tag[:80]!r} is not a tag; write 1 to 64 letters, digits and characters of '._/:=-'")
    count = 0
    async for page in client.submission_pages(tag=tag, problem=full_name(PROBLEMS, problem), user=user):
        count += len(page)
        async for submission in fetched(client, page):
            yield submission
    if not count:
        raise UsageError(f"tag: there is no such submission with the tag {tag[:80]!r} that you may see; look at: grader-cli list")


def row(submission: submission_pb2.Submission, baseline: str = "") -> dict[str, Any]:
    """Return the columns of a submission; None where it has no such value. baseline: of the speedup; "": the first that reports show.

    Files have these columns: none may go, or mean something else.
    """
    report = submission.report if submission.HasField("report") else None
    speedups = {
        speedup.baseline: speedup
        for speedup in submission.report.speedups
        if 0 < speedup.ratio < math.inf > speedup.ratio_high and resolved(speedup.ratio_low, speedup.ratio_high)
    }
    speedup = speedups.get(baseline or next(iter(formatting.baselines(speedups)), ""))
    scored = submission.score > 0 and math.isfinite(submission.score + submission.score_low + submission.score_high)
    # Wrong on the emulated device, which was asked before a GPU: it failed before it had a GPU, as what did not build.
    screened = submission.report.screening.outcome == report_pb2.SCREENING_OUTCOME_FAILED
    failed = submission.state == submission_pb2.SUBMISSION_STATE_FAILED
    return {
        "submission": resource_id(SUBMISSIONS, submission.name),
        "problem": resource_id(PROBLEMS, submission.problem),
        "user": submission.user,
        "tags": " ".join(submission.tags),
        "parent": resource_id(SUBMISSIONS, submission.parent),
        "language": submission.language,
        "mode": formatting.name_of(submission_pb2.Mode, submission.mode, "MODE_").lower(),
        "state": formatting.state_name(submission),
        "error": (reason_of(submission.error) or "UNKNOWN") if failed else None,
        "verdict": report and formatting.verdict_name(report),
        "accepted": report and report.verdict == report_pb2.VERDICT_ACCEPTED,
        "reason": report and report.reason,
        "summary": report and report.summary,
        "baseline": speedup and speedup.baseline,
        "speedup": speedup and speedup.ratio,
        "speedup_low": speedup and speedup.ratio_low,
        "speedup_high": speedup and speedup.ratio_high,
        "score": submission.score if scored else None,
        "score_low": submission.score_low if scored else None,
        "score_high": submission.score_high if scored else None,
        "device_kind": devices.CUDA if screened else report and report.environment.device_kind,
        "device": "" if screened else report and report.environment.device,
        "create_time": submission.create_time.ToJsonString(),
        "end_time": submission.end_time.ToJsonString() if submission.HasField("end_time") else None,
    }
