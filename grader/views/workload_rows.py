"""Rows of a report for the terminal and for pages: workloads with their trials, and the steps of its time.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.figures import seconds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    """A workload. outcome: of the first trial that failed, whose shares and message are shown too; trial_count: runs on fresh inputs."""

    workload_id: str
    hidden: bool
    passed: bool
    outcome: str
    trial_count: int
    mismatched: str
    unwritten: str
    max_error: str
    message: str


def workload_rows(trials: Iterable[report_pb2.Trial]) -> list[WorkloadRow]:
    """A row for each workload, in the order in which they were run."""
    by_id: dict[str, list[report_pb2.Trial]] = {}
    for trial in trials:
        by_id.setdefault(trial.workload_id, []).append(trial)
    rows = []
    for workload_id, tried in by_id.items():
        failed = next((trial for trial in tried if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED), None)
        worst = failed or tried[-1]
        row = WorkloadRow(
            workload_id=workload_id,
            hidden=any(trial.hidden for trial in tried),
            passed=failed is None,
            outcome="passed" if failed is None else formatting.words(failed, "outcome"),
            trial_count=sum(max(trial.run_count, 1) for trial in tried),
            mismatched=formatting.share(worst.mismatched_count, worst.element_count),
            unwritten=formatting.share(worst.unwritten_count, worst.element_count),
            max_error=formatting.error(max_error(tried)),
            message=failed.message if failed is not None else "",
        )
        rows.append(row)
    return rows


def max_error(trials: Iterable[report_pb2.Trial]) -> float | None:
    """The largest absolute error over trials."""
    return max((trial.max_absolute_error for trial in trials if trial.HasField("max_absolute_error")), default=None)


NAMES = {
    report_pb2.STEP_QUEUED: "queue",
    report_pb2.STEP_SCREEN: "emulated device first",
    report_pb2.STEP_DEVICE: "wait for the device",
    report_pb2.STEP_BUILDER: "wait for a builder",
    report_pb2.STEP_BOX: "start boxes",
    report_pb2.STEP_COMPILE: "compile",
    report_pb2.STEP_ARTIFACT: "keep the artifact",
    report_pb2.STEP_LOAD: "load",
    report_pb2.STEP_BASELINE: "time the baselines",
    report_pb2.STEP_VERIFY: "verify",
    report_pb2.STEP_MEASURE: "measure",
    report_pb2.STEP_PROFILE: "profile",
    report_pb2.STEP_CLOSE: "end boxes",
}
OTHER = "other"  # a step of a newer server


def step_times(submission: submission_pb2.Submission) -> dict[str, float]:
    """The seconds of each step, in the order in which they first began: those of several processes together. Only "queue" and "grade" where
    the report has no timeline: of a competition that is not over, or of an older server."""
    lengths: dict[str, float] = {}
    for span in submission.report.timeline:
        name = NAMES.get(span.step, OTHER)
        lengths[name] = lengths.get(name, 0.0) + max(seconds_of(span.duration), 0.0)
    if not lengths and submission.HasField("start_time") and submission.HasField("end_time"):
        start_s = seconds_of(submission.start_time)
        lengths = {"queue": start_s - seconds_of(submission.create_time), "grade": seconds_of(submission.end_time) - start_s}
    return {name: length for name, length in lengths.items() if length > 0}
