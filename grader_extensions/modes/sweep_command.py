"""`grader-cli sweep`: several kernels and the baselines over a range of sizes, as a table, a plot and a CSV file."""

from __future__ import annotations

import math
import os
import sys
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api import stable_json
from grader.api.client import GraderClient
from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli import sources
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.options import DeviceOption, SandboxOption, Server, StateDir
from grader.cli.output import plain, print_note, stdout_console, text_table
from grader.cli.progress import ProgressDisplay, progress
from grader.cli.running import run
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
from grader.v1 import problem_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.modes.sweep_table import NOT_RUN, RIGHT, SweepMetric, SweepPoint, SweepTable, collate, table_rows, to_csv
from grader_extensions.web.plots.frames import ChartAxis
from grader_extensions.web.plots.lines import ChartSeries, line_chart
from grader_extensions.web.plots.svg import LABEL_CHARS

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


async def sweep(
    target: Target,
    files: Sequence[Path],
    problem: str | None,
    requested: problem_pb2.Sweep,
    *,
    device_kind: str,
    out_dir: Path | None,
    metric: SweepMetric | None,
    json: bool,
) -> Exit:
    """Submit the kernels one after the other, so that none is timed next to another, and print what became of them."""
    if out_dir is not None:
        os.close(open_directory(out_dir))  # before anything is run
    named, problem_path = (problem, None) if target.server is not None else problem_at(problem)
    kernels = [sources.read((path,), named) for path in files]
    if len(ids := dict.fromkeys(kernel.problem_id for kernel in kernels)) > 1:
        raise UsageError(
            f"problem: the files are for several problems ({', '.join(ids)}); name one with --problem, or sweep them separately"
        )
    problem_dirs = [kernel.problem_dir for kernel in kernels] + [problem_path]
    target = replace(target, problem_dirs=(*target.problem_dirs, *dict.fromkeys(path for path in problem_dirs if path is not None)))
    ended: list[tuple[str, submission_pb2.Submission]] = []
    async with connect(target, ServerRequirement.GRADE) as client:
        await require_answer(client, target)
        for number, (name, kernel) in enumerate(zip(_names(files), kernels, strict=True), 1):
            message = build_submission(kernel, submission_pb2.Submission(device_kind=device_kind, mode=submission_pb2.MODE_SWEEP))
            message.sweep.CopyFrom(requested)
            with progress(json=json) as display:
                display.say(f"kernel {number} of {len(kernels)}: {name}")
                ended.append((name, await _submit(client, message, display, target)))
    try:
        table = collate(ended)
    except ValueError as error:
        raise GraderFailed(f"the server sent no sweep: {error}; use a grader-cli of its version") from None
    metric = metric or table.metric()
    if out_dir is not None:
        _write(out_dir, table, metric)
    if json:
        typer.echo(stable_json.to_text(_as_data(table, metric, ended), indent=2))
    else:
        console = stdout_console()
        for part in render(table, metric, ended):
            console.print(part, soft_wrap=isinstance(part, Text))
    return max((exit_of(submission) for _, submission in ended), default=Exit.DONE)


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
        title=f"{resource_id(PROBLEMS, table.problem)} over {axis}, on {table.device}",
        description=f"{metric.label} over {axis}, medians with 95 % intervals, verified at every size; {device}",
        x=ChartAxis(label=f"{axis}; {device}", log=table.sizes[-1] > LOG_FACTOR * table.sizes[0]),
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
        "submissions": [stable_json.to_data(submission) for _, submission in ended],
    }


def sweep_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernels: each file is one, and one line of the plot.")],
    problem: Annotated[str | None, typer.Option(help="The problem. Default: as for submit; it has to be the same for all files.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write PROBLEM_AXIS.svg and .csv there.", show_default=False),
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
) -> None:
    """Time kernels and PyTorch over a range of sizes: a table, and with --out a plot. Each size is verified first.

    The first sweep in the problem says which sizes; options change them. A kernel that is wrong at a size has no time there. Nothing is
    scored.
    """

    async def work() -> Exit:
        requested = problem_pb2.Sweep(axis=axis, start=start, stop=stop, factor=factor, step=step, axes=axis_sizes(at or ()))
        if seconds is not None:
            requested.measure_duration.FromNanoseconds(nanoseconds(seconds, "--seconds"))
        target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, quiet=json and not sys.stderr.isatty())
        kind = "" if device == AUTO else device
        return await sweep(target, files, problem, requested, device_kind=kind, out_dir=out, metric=metric, json=json)

    run(work())
