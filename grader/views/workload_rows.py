"""Trials of each workload, as a row for the terminal and for pages.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from grader.v1 import report_pb2
from grader.views import formatting


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
    return [_row(workload_id, of) for workload_id, of in by_id.items()]


def max_error(trials: Iterable[report_pb2.Trial]) -> float | None:
    """The largest absolute error over trials."""
    return max((trial.max_absolute_error for trial in trials if trial.HasField("max_absolute_error")), default=None)


def _row(workload_id: str, trials: Sequence[report_pb2.Trial]) -> WorkloadRow:
    failed = next((trial for trial in trials if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED), None)
    worst = failed or trials[-1]
    return WorkloadRow(
        workload_id=workload_id,
        hidden=any(trial.hidden for trial in trials),
        passed=failed is None,
        outcome="passed" if failed is None else formatting.outcome_name(failed),
        trial_count=sum(max(trial.run_count, 1) for trial in trials),
        mismatched=formatting.share(worst.mismatched_count, worst.element_count),
        unwritten=formatting.share(worst.unwritten_count, worst.element_count),
        max_error=formatting.error(max_error(trials)),
        message=failed.message if failed is not None else "",
    )
