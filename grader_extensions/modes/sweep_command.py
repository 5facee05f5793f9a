"""`grader-cli sweep`: several kernels and the baselines over a range of sizes, as a table, a plot and a CSV file.

A provider is what one line of the plot is of: a kernel, or a baseline. A size at which a kernel is not right has a point without times.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api import conversion
from grader.api.client import GraderClient
from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli import sources
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.options import DeviceOption, SandboxOption, Server, StateDir
from grader.cli.output import plain, print_note, print_parts, text_table
from grader.cli.progress import ProgressDisplay, progress
from grader.cli.saved_files import open_directory
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submit import (
    build_submission,
    cancelled_with_command,
    described,
    exit_of,
    explain_no_answer,
    follow,
    nanoseconds,
    problem_at,
    require_answer,
)
from grader.isolations import AUTO
from grader.v1 import problem_pb2, report_pb2, submission_pb2
from grader.verdict.scores import median_interval
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.export_file import csv_text
from grader_extensions.web.plots.charts import ChartAxis, ChartSeries, line_chart
from grader_extensions.web.plots.svg import LABEL_CHARS

RIGHT, NOT_RUN = "right", "not run"
BASELINES = {"eager": "PyTorch eager", "compile": "torch.compile"}
INTENSITY = 10.0  # operations for each byte: a problem with more is compared by its arithmetic
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
    rows = table_rows(table)
    values = ((repr(value) if isinstance(value, float) else value for value in row.values()) for row in rows)
    return csv_text(rows[0] if rows else (), *values)


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
    interval = median_interval(times)
    low_ns, high_ns = (interval.low, interval.high) if interval else (None, None)
    return replace(point, outcome=RIGHT, certified_ns=middle, low_ns=low_ns, high_ns=high_ns)


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


LOG_FACTOR = 15.0  # between the largest value and the least: with more, an axis is logarithmic


def axis_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Read texts AXIS=SIZE; UsageError where one is not."""
    axes = dict[str, int]()
    for text in texts:
        name, equals, size = text.partition("=")
        if not equals or not size.isascii() or not size.isdecimal() or len(size) > 18:
            raise UsageError(f"--at: {text!r} is not AXIS=SIZE; write it such as rows=4096")
        axes[name] = int(size)
    return axes


async def _submit(
    client: GraderClient, message: submission_pb2.Submission, display: ProgressDisplay, target: Target
) -> submission_pb2.Submission:
    with explain_no_answer(target, "see whether it is there with: grader-cli list"):
        submission = await client.submit(message, request_id=str(uuid.uuid4()))
    async with cancelled_with_command(client, target, submission.name):
        display.say(described(submission, target))
        final = await follow(client, submission.name, display)
    return await client.get_submission(final.name, full=True)


def render(table: SweepTable, metric: SweepMetric, ended: Sequence[tuple[str, submission_pb2.Submission]]) -> Iterator[RenderableType]:
    """A row for each size, then the fault of each kernel that is not right."""
    axes = "".join(f", {one_line(name)} = {size:,}" for name, size in table.axes.items())
    yield Text()
    yield plain(f"{one_line(resource_id(PROBLEMS, table.problem))}{axes}: {metric.label}, median (95 % interval)", "bold")
    yield _rows(table, metric)
    for name, submission in ended:
        if exit_of(submission) is not Exit.ACCEPTED:
            why = submission.report.summary if submission.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED else submission.error.message
            verdict = formatting.verdict_or_state(submission)
            yield plain(f"{one_line(name)}: {verdict}: {one_line(why, most_chars=1000)}", "red")
    if table.device:
        yield plain(f"device: {one_line(table.device)}")
    if table.practice:
        yield Text(formatting.PRACTICE, style="yellow")


def _rows(table: SweepTable, metric: SweepMetric) -> Table:
    headings = (one_line(table.axis), *(one_line(provider, most_chars=40) for provider in table.providers))
    lines = [table.of(provider) for provider in table.providers]
    rows: list[list[str | Text]] = [[f"{size:,}", *(_cell(line.get(size), metric) for line in lines)] for size in table.sizes]
    return text_table(headings, rows, right=headings)


def _cell(point: SweepPoint | None, metric: SweepMetric) -> Text:
    if point is None or point.outcome != RIGHT:
        outcome = "-" if point is None else point.outcome
        return plain(one_line(outcome), "" if point is None or point.baseline else "red")
    value, *ends = point.figure(metric)
    low, high = (f"{end:.3g}" if math.isfinite(end) else "?" for end in ends)
    return Text(f"{value:.4g} ({low} to {high})" if math.isfinite(value) else "-")


def draw(table: SweepTable, metric: SweepMetric) -> str:
    """The plot as SVG: a line with a band for each provider; a size at which a kernel is not right is a gap."""
    series = [_series(table, provider, metric) for provider in table.providers]
    axes = ", ".join(f"{name} = {size}" for name, size in table.axes.items())
    axis = f"{table.axis} ({axes})" if axes else table.axis
    device = formatting.PRACTICE if table.practice else table.device
    values = [value for line in series for value in line.ys if math.isfinite(value)] or [1.0]
    return line_chart(
        series,
        title=f"{resource_id(PROBLEMS, table.problem)} over {axis}",
        subtitle=device,
        description=f"{metric.label} over {axis} on {table.device}, medians with 95 % intervals, verified at every size; {device}",
        x=ChartAxis(label=axis, log=table.sizes[-1] > LOG_FACTOR * table.sizes[0]),
        y=ChartAxis(label=metric.label, log=max(values) > LOG_FACTOR * min(values)),
    )


def _series(table: SweepTable, provider: str, metric: SweepMetric) -> ChartSeries:
    points = list(table.of(provider).values())
    figures = [point.figure(metric) for point in points]
    values, lows, highs = ([figure[part] for figure in figures] for part in range(3))
    wrong = sum(not point.baseline and point.outcome not in (RIGHT, NOT_RUN, formatting.NOT_RESOLVED) for point in points)
    remark = f" (wrong at {wrong} of {len(points)})" if wrong else ""
    name = provider if len(provider) + len(remark) <= LABEL_CHARS else f"{provider[: LABEL_CHARS - len(remark) - 1]}…"
    return ChartSeries(name=name + remark, xs=[float(point.size) for point in points], ys=values, lows=lows, highs=highs)


def _names(files: Sequence[Path]) -> list[str]:
    """Name each kernel: its file's name without ending, or its whole path where two have the same."""
    stems = [path.stem for path in files]
    return [stem if stems.count(stem) == 1 else str(path) for stem, path in zip(stems, files, strict=True)]


def _write(out_dir: Path, table: SweepTable, metric: SweepMetric) -> None:
    stem = f"{resource_id(PROBLEMS, table.problem)}_{table.axis}"
    for name, text in ((f"{stem}.svg", draw(table, metric)), (f"{stem}.csv", to_csv(table))):
        path = out_dir / name
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            raise GraderFailed(f"{path} can't be written: {error.strerror}; name another directory with --out") from None
        print_note(f"wrote {path}")


def _as_data(table: SweepTable, metric: SweepMetric, ended: Sequence[tuple[str, submission_pb2.Submission]]) -> dict[str, object]:
    """Data of --json: the points as in the CSV file, with numbers, and the submissions without sources and samples."""
    for _, submission in ended:
        submission.ClearField("sources")
        for row in submission.report.measurements:
            for samples in (row.reported, row.certified, *row.baselines.values(), *row.reported_baselines.values()):
                samples.ClearField("sample_durations_ns")
    return {
        "problem": table.problem,
        "axis": table.axis,
        "metric": str(metric),
        "practice": table.practice,
        "points": [{name: value for name, value in row.items() if value is not None} for row in table_rows(table)],
        "submissions": [conversion.to_data(submission) for _, submission in ended],
    }


async def sweep_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernels: each file is one, and one line of the plot.")],
    problem: Annotated[str | None, typer.Option(help="The problem. Default: as for submit; it has to be the same for all files.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write PROBLEM_AXIS.svg and .csv there.", show_default=False)
    ] = None,
    metric: Annotated[
        SweepMetric | None,
        typer.Option(help="GB/s, TFLOP/s, or times. Default: what suits the problem's moved_bytes and flops.", show_default=False),
    ] = None,
    axis: Annotated[str, typer.Option(metavar="AXIS", help="Default: that of the problem's first sweep.", show_default=False)] = "",
    start: Annotated[int | None, typer.Option(metavar="SIZE", help="The first size.", show_default=False)] = None,
    stop: Annotated[int | None, typer.Option(metavar="SIZE", help="No size is larger.", show_default=False)] = None,
    factor: Annotated[float | None, typer.Option(metavar="NUMBER", help="A size is the one before times this.", show_default=False)] = None,
    step: Annotated[int | None, typer.Option(metavar="SIZE", help="A size is the one before plus this.", show_default=False)] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="AXIS=SIZE", help="The size of another axis; may be given more than once.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="About how long to time one size, at most 30. Default: the server's (2).", show_default=False),
    ] = None,
    device: DeviceOption = AUTO,
    sandbox: SandboxOption = AUTO,
    server: Server = None,
    state_dir: StateDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print the points and submissions as JSON, and nothing else, on stdout.")] = False,
) -> Exit:
    """Time kernels and PyTorch over a range of sizes: a table, and with --out a plot. Each size is verified first.

    The first sweep in the problem says which sizes; options change them. A kernel that is wrong at a size has no time there. Nothing is
    scored.
    """
    requested = problem_pb2.Sweep(axis=axis, start=start, stop=stop, factor=factor, step=step, axes=axis_sizes(at or ()))
    if seconds is not None:
        requested.measure_duration.FromNanoseconds(nanoseconds(seconds, "--seconds"))
    if out is not None:
        os.close(open_directory(out))  # before anything is run
    named, problem_path = (problem, None) if server is not None else problem_at(problem)
    kernels = [sources.read((path,), named) for path in files]
    if len(ids := dict.fromkeys(kernel.problem_id for kernel in kernels)) > 1:
        text = f"problem: the files are for several problems ({', '.join(ids)}); name one with --problem, or sweep them separately"
        raise UsageError(text)
    problem_dirs = dict.fromkeys(path for path in (*(kernel.problem_dir for kernel in kernels), problem_path) if path is not None)
    quiet = json and not sys.stderr.isatty()
    target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, quiet=quiet, problem_dirs=tuple(problem_dirs))
    ended: list[tuple[str, submission_pb2.Submission]] = []
    async with connect(target, ServerRequirement.GRADE) as client:
        await require_answer(client, target)
        # One after the other, so that none is timed next to another.
        for number, (name, kernel) in enumerate(zip(_names(files), kernels, strict=True), 1):
            kind = "" if device == AUTO else device
            message = build_submission(kernel, submission_pb2.Submission(device_kind=kind, mode=submission_pb2.MODE_SWEEP))
            message.sweep.CopyFrom(requested)
            with progress(json=json) as display:
                display.say(f"kernel {number} of {len(kernels)}: {name}")
                ended.append((name, await _submit(client, message, display, target)))
    try:
        table = collate(ended)
    except ValueError as error:
        raise GraderFailed(f"the server sent no sweep: {error}; use a grader-cli of its version") from None
    metric = metric or table.metric()
    if out is not None:
        _write(out, table, metric)
    if json:
        typer.echo(conversion.to_text(_as_data(table, metric, ended), indent=2))
    else:
        print_parts(render(table, metric, ended))
    return max((exit_of(submission) for _, submission in ended), default=Exit.DONE)
