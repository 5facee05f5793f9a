"""Puts the reports of one sweep's submissions together: points for a plot, rows for a CSV file.  Pure.

A provider is what one line of the plot is of: a kernel, or a baseline. A size at which a kernel is not right has a point without times.
"""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from grader.v1 import problem_pb2, report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

RIGHT, NOT_RUN = "right", "not run"
BASELINES = {"eager": "PyTorch eager", "compile": "torch.compile"}
INTENSITY = 10.0  # operations for each byte: a problem with more is compared by its arithmetic
_Z = 1.96
_LEAST_NS = 0.5  # as formatting.time has it


class SweepMetric(StrEnum):
    """Figures that the plot compares."""

    BANDWIDTH = "gbps"
    COMPUTE = "tflops"
    TIME = "time"

    @property
    def label(self) -> str:
        """With its unit."""
        return {SweepMetric.BANDWIDTH: "GB/s", SweepMetric.COMPUTE: "TFLOP/s", SweepMetric.TIME: "us"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A provider at a size. certified_ns: the median, with its 95 % interval; None where the provider is not right there, or the time
    is below what the clock resolves. outcome: RIGHT, NOT_RUN, or what is wrong."""

    provider: str
    baseline: bool
    submission: str
    size: int
    axes: Mapping[str, int]
    outcome: str
    certified_ns: float | None = None
    low_ns: float | None = None
    high_ns: float | None = None
    sample_count: int = 0
    moved_bytes: int | None = None
    flops: int | None = None
    reported_ns: float | None = None
    speedups: Mapping[str, report_pb2.Speedup] = field(default_factory=dict)

    def figure(self, metric: SweepMetric) -> tuple[float, float, float]:
        """The value with the ends of its interval, NaN where there is none."""
        times = (self.certified_ns, self.high_ns, self.low_ns)
        if metric is SweepMetric.TIME:
            value, high, low = (math.nan if time is None else time / 1e3 for time in times)
            return value, low, high
        amount = self.moved_bytes if metric is SweepMetric.BANDWIDTH else self.flops
        unit_ns = 1e-9 * (1e9 if metric is SweepMetric.BANDWIDTH else 1e12)
        # A short time is a high rate, so that the ends change places.
        value, low, high = (math.nan if amount is None or not time or time <= 0 else amount / (time * unit_ns) for time in times)
        return value, low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTable:
    """All points of one sweep, by provider and size. sizes: ascending. practice: the times are of an emulated device."""

    problem: str
    axis: str
    axes: Mapping[str, int]
    device: str
    practice: bool
    points: tuple[SweepPoint, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the axis."""
        return tuple(sorted({point.size for point in self.points}))

    @property
    def providers(self) -> tuple[str, ...]:
        """Kernels in their order, then baselines."""
        return tuple(dict.fromkeys(point.provider for point in self.points))

    def of(self, provider: str) -> dict[int, SweepPoint]:
        """A provider's points by size."""
        return {point.size: point for point in self.points if point.provider == provider}

    def metric(self) -> SweepMetric:
        """Choose what suits the problem: GB/s, TFLOP/s where there is much arithmetic for each byte, a time where nothing is declared."""
        largest = max(self.points, key=lambda point: point.size)
        if not largest.moved_bytes:
            return SweepMetric.COMPUTE if largest.flops else SweepMetric.TIME
        return SweepMetric.COMPUTE if (largest.flops or 0) > INTENSITY * largest.moved_bytes else SweepMetric.BANDWIDTH


def collate(kernels: Sequence[tuple[str, submission_pb2.Submission]]) -> SweepTable:
    """The points of submissions in mode SWEEP to one problem, by the names of their kernels; ValueError where there are none. Submissions
    need their samples (the full view). A baseline's samples of one size are those next to all kernels."""
    ended = [(name, submission) for name, submission in kernels if submission.sweep.workloads]
    if not ended:
        raise ValueError("no submission has the sizes of a sweep")
    first = ended[0][1]
    reports = [submission.report for _, submission in ended]
    environment = next((report.environment for report in reports if report.HasField("environment")), report_pb2.Environment())
    kinds = ("", environment.device_kind)
    workloads = [workload for workload in first.sweep.workloads if workload.device_kind in kinds or not environment.device_kind]
    points = [_kernel_point(name, submission, workload, first.sweep.axis) for name, submission in ended for workload in workloads]
    for baseline in formatting.baselines(name for report in reports for row in report.measurements for name in row.baselines):
        points += [_baseline_point(baseline, ended, workload, first.sweep.axis) for workload in workloads]
    return SweepTable(
        problem=first.problem,
        axis=first.sweep.axis,
        axes={name: size for name, size in workloads[0].axes.items() if name != first.sweep.axis} if workloads else {},
        device=environment.device,
        practice=environment.clock == report_pb2.CLOCK_HOST,
        points=tuple(points),
    )


def table_rows(table: SweepTable) -> list[dict[str, str | int | float | None]]:
    """Every point with everything known of it, by column; times are in nanoseconds, None where there is none. All rows have all columns."""
    axes = list(dict.fromkeys(name for point in table.points for name in point.axes))
    baselines = list(dict.fromkeys(name for point in table.points for name in point.speedups))
    return [_row(table, point, axes, baselines) for point in table.points]


def to_csv(table: SweepTable) -> str:
    """The rows with a line of headings; numbers in full."""
    rows, out = table_rows(table), io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: repr(value) if isinstance(value, float) else value for name, value in row.items()} for row in rows)
    return out.getvalue()


def _row(table: SweepTable, point: SweepPoint, axes: Sequence[str], baselines: Sequence[str]) -> dict[str, str | int | float | None]:
    row: dict[str, str | int | float | None] = {
        "problem": table.problem,
        "device": table.device,
        "clock": "host" if table.practice else "device",
        "provider": point.provider,
        "role": "baseline" if point.baseline else "kernel",
        "submission": point.submission,
        "axis": table.axis,
        "size": point.size,
        "outcome": point.outcome,
        "certified_ns": point.certified_ns,
        "certified_low_ns": point.low_ns,
        "certified_high_ns": point.high_ns,
        **{name: getattr(point, name) for name in ("sample_count", "reported_ns", "moved_bytes", "flops")},
    }
    for metric, name in ((SweepMetric.BANDWIDTH, "gb_per_s"), (SweepMetric.COMPUTE, "tflop_per_s")):
        for end, value in zip(("", "_low", "_high"), point.figure(metric), strict=True):
            row[name + end] = value if math.isfinite(value) else None
    row |= {f"axis_{name}": point.axes[name] for name in axes}
    for name in baselines:
        speedup = point.speedups.get(name)
        for end in ("", "_low", "_high"):
            row[f"speedup_over_{name}{end}"] = None if speedup is None else getattr(speedup, f"ratio{end}")
    return row


def median_interval(samples_ns: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by ranks of a binomial(n, 1/2) in its normal approximation; of few samples all of them."""
    ordered = sorted(samples_ns)
    first = max(0, math.floor((len(ordered) - _Z * math.sqrt(len(ordered))) / 2))
    return ordered[first], ordered[len(ordered) - 1 - first]


def _kernel_point(name: str, submission: submission_pb2.Submission, workload: problem_pb2.Workload, axis: str) -> SweepPoint:
    measured = next((row for row in submission.report.measurements if row.workload_id == workload.workload_id), None)
    if measured is None:
        return replace(_point(name, submission.name, workload, axis, ()), outcome=_why_not(submission, workload.workload_id))
    reported = measured.reported.median_duration.ToNanoseconds() if measured.HasField("reported") else None
    speedups = {speedup.baseline: speedup for speedup in measured.speedups}
    return replace(_point(name, submission.name, workload, axis, [measured.certified]), reported_ns=reported, speedups=speedups)


def _baseline_point(
    baseline: str, kernels: Sequence[tuple[str, submission_pb2.Submission]], workload: problem_pb2.Workload, axis: str
) -> SweepPoint:
    rows = [row for _, submission in kernels for row in submission.report.measurements if row.workload_id == workload.workload_id]
    timed = [row.baselines[baseline] for row in rows if baseline in row.baselines]
    point = _point(BASELINES.get(baseline, one_line(baseline)), "", workload, axis, timed)
    # A baseline that was timed, and seemed to take no longer than the protocol, is not resolved.
    return replace(point, outcome=formatting.NOT_RESOLVED) if rows and not timed else point


def _point(provider: str, submission: str, workload: problem_pb2.Workload, axis: str, samples: Sequence[report_pb2.Samples]) -> SweepPoint:
    times = [float(duration_ns) for of in samples for duration_ns in of.sample_durations_ns]
    point = SweepPoint(
        provider=provider,
        baseline=not submission,
        submission=submission,
        size=workload.axes[axis],
        axes=dict(workload.axes),
        outcome=NOT_RUN,
        sample_count=len(times),
        **{name: getattr(workload, name) for name in ("moved_bytes", "flops") if workload.HasField(name)},
    )
    if not times:
        return point
    middle = statistics.median(times)
    if middle < _LEAST_NS:
        return replace(point, outcome=formatting.NOT_RESOLVED)
    low, high = median_interval(times) if len(times) > 1 else (None, None)
    return replace(point, outcome=RIGHT, certified_ns=middle, low_ns=low, high_ns=high)


def _why_not(submission: submission_pb2.Submission, workload_id: str) -> str:
    if submission.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        failed = submission.state == submission_pb2.SUBMISSION_STATE_FAILED
        return "the grader failed" if failed else formatting.state_name(submission).lower()
    trials = [trial for trial in submission.report.trials if trial.workload_id == workload_id]
    wrong = next((trial for trial in trials if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED), None)
    if wrong is not None:
        return formatting.words(wrong, "outcome")
    void = submission.report.verdict in (report_pb2.VERDICT_COMPILE_ERROR, report_pb2.VERDICT_DISQUALIFIED)
    return formatting.verdict_name(submission.report).lower().replace("_", " ") if void or trials else NOT_RUN
