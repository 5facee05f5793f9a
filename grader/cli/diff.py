"""`grader-cli diff`: what changed from one submission to another, in time and in the sources."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.comparison import SourceChange, SpeedChange, WorkloadChange, source_changes, workload_changes
from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli.exits import Exit, Misuse
from grader.cli.progress import stdout_console
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import one_line, plain
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.median_interval import MedianInterval
from grader.views import formatting

_STYLES = {SpeedChange.FASTER: "green", SpeedChange.SLOWER: "red", SpeedChange.UNKNOWN: "yellow"}
_LINE_CHARS = 2_000
_SHOWN_LINES = 2_000


async def diff(target: Target, first_name: str, second_name: str, *, json: bool) -> Exit:
    """Print the comparison of two submissions to one problem."""
    async with connect(target, Need.READ) as client:
        first, second = [await client.get_submission(await whole_name(client, name), full=True) for name in (first_name, second_name)]
    if first.problem != second.problem:
        problems = [one_line(resource_id(PROBLEMS, one.problem)) for one in (first, second)]
        raise Misuse(f"the submissions are of different problems, {problems[0]} and {problems[1]}; name two of one problem")
    changes = workload_changes(first, second)
    removed = first.sources_removed or second.sources_removed
    sources = [] if removed else list(source_changes(first, second))
    if json:
        print(json_module.dumps(to_data(first, second, changes, sources), indent=2))
    else:
        console = stdout_console()
        for part in render(first, second, changes, sources):
            console.print(part, soft_wrap=isinstance(part, Text))
    return Exit.DONE


def to_data(
    first: submission_pb2.Submission, second: submission_pb2.Submission, changes: Sequence[WorkloadChange], sources: Sequence[SourceChange]
) -> dict[str, Any]:
    """The comparison for programs; ratios are the first's time divided by the second's."""
    return {
        "first": {"name": first.name, "verdict": formatting.verdict_or_state(first)},
        "second": {"name": second.name, "verdict": formatting.verdict_or_state(second)},
        "problem": first.problem,
        "workloads": [
            {
                "workload_id": one.workload_id,
                "change": str(one.change),
                "reason": one.reason,
                "ratio": _interval(one.ratio),
                "ratio_over_baseline": _interval(one.against),
                "baseline": one.baseline,
            }
            for one in changes
        ],
        "sources": [{"path": one.path, "diff": list(one.lines)} for one in sources],
    }


def render(
    first: submission_pb2.Submission, second: submission_pb2.Submission, changes: Sequence[WorkloadChange], sources: Sequence[SourceChange]
) -> Iterator[RenderableType]:
    """The parts of what is printed, top to bottom."""
    for label, one in (("a", first), ("b", second)):
        yield plain(f"{label}: {one_line(one.name)}  {formatting.verdict_or_state(one)}  {one_line(one.language)}")
    yield Text()
    if changes:
        yield _table(changes)
        yield Text("time of a / time of b, with 95 % intervals: above 1, b is faster", style="dim")
    else:
        yield Text("can't tell which is faster: neither has certified times", style="yellow")
    if any(one.report.environment.clock == report_pb2.CLOCK_HOST for one in (first, second)):
        yield Text(formatting.PRACTICE, style="yellow")
    yield Text()
    yield from _sources(first, second, sources)


def _table(changes: Sequence[WorkloadChange]) -> Table:
    table = Table("workload", "b is", box=None, pad_edge=False, title="Times", title_justify="left")
    for heading in ("a / b", "by speedups"):
        table.add_column(heading, justify="right")
    for one in changes:
        against = f"{_shown(one.against)} over {one_line(one.baseline)}" if one.against else "-"
        table.add_row(plain(one_line(one.workload_id)), plain(str(one.change), _STYLES[one.change]), _shown(one.ratio), plain(against))
        if one.reason:
            table.add_row("", plain(one_line(one.reason), "dim"))
    return table


def _sources(
    first: submission_pb2.Submission, second: submission_pb2.Submission, sources: Sequence[SourceChange]
) -> Iterator[RenderableType]:
    removed = [one_line(one.name) for one in (first, second) if one.sources_removed]
    if removed:
        yield plain(f"no source diff: the sources of {' and '.join(removed)} are kept no longer", "yellow")
        return
    if not sources:
        yield Text("the sources are the same", style="dim")
    lines = [line for one in sources for line in one.lines]
    for line in lines[:_SHOWN_LINES]:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        yield plain(line[:_LINE_CHARS], style)
    if len(lines) > _SHOWN_LINES:
        yield Text(f"and {len(lines) - _SHOWN_LINES} more lines; --json has them all", style="dim")


def _shown(interval: MedianInterval | None) -> str:
    return f"{interval.value:.3g}x ({interval.low:.3g} to {interval.high:.3g})" if interval else "-"


def _interval(interval: MedianInterval | None) -> dict[str, float] | None:
    return {"value": interval.value, "low": interval.low, "high": interval.high} if interval else None
