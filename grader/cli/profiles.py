"""Draws what the tools of profile mode, or a sanitizer, found.  All of it is what the kernel's processes say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.cli import times
from grader.cli.output import plain
from grader.v1 import report_pb2
from grader.views import access_counts, formatting
from grader.views.sanitize import one_line

_MOST_LAUNCHES, _MOST_FINDINGS, _MOST_LINES = 12, 10, 12
_DETAIL_CHARS = 400
_STYLES = {
    report_pb2.PROFILE_TOOL_OUTCOME_RAN: "green",
    report_pb2.PROFILE_TOOL_OUTCOME_FAILED: "red",
    report_pb2.PROFILE_TOOL_OUTCOME_UNAVAILABLE: "yellow",
}


def render(profile: report_pb2.Profile, submission_id: str) -> Iterator[RenderableType]:
    """Each tool, what the kernels take of the device, and what was launched."""
    table = Table("tool", "", "", box=None, pad_edge=False, title="Profile", title_justify="left")
    for tool in profile.tools:
        outcome = Text(formatting.profile_outcome(tool.outcome), style=_STYLES.get(tool.outcome, ""))
        table.add_row(plain(one_line(tool.name)), outcome, plain(one_line(tool.detail, most_chars=_DETAIL_CHARS)))
    yield table
    if profile.findings:
        yield Text()
        yield _findings(profile.findings)
    for counts in access_counts.tables(profile.access_counts, row_limit=_MOST_LINES):
        yield Text()
        yield plain(counts.title, "italic")  # not the table's own title: it may be wider than the table
        yield _counts(counts)
        yield plain(counts.note, "dim")
    if profile.kernels:
        yield Text()
        yield plain(f"compiled for {one_line(profile.architecture)}:", "dim")
        yield from times.kernels(profile.kernels)
    if profile.launches:
        yield Text()
        yield _launches(profile.launches, profile.workload_id)
    for remark in profile.remarks:
        yield plain(f"note: {one_line(remark, most_chars=_DETAIL_CHARS)}", "yellow")
    sanitized = profile.findings or profile.access_counts.lines
    files = "" if sanitized else f" Its files: grader-cli show {one_line(submission_id)} --files --out DIR"
    yield plain(f"{'What the sanitizer saw' if sanitized else 'A profile'} decides nothing.{files}", "dim")


def _findings(findings: Sequence[report_pb2.SanitizerFinding]) -> Table:
    table = Table("", "where", "finding", "first", box=None, pad_edge=False, title="What the sanitizer saw", title_justify="left")
    for one in findings[:_MOST_FINDINGS]:
        severity = formatting.sanitizer_severity(one)
        count = f" ({one.count} times)" if one.count > 1 else ""
        table.add_row(
            Text(severity, style={"error": "red", "warning": "yellow"}.get(severity, "dim")),
            plain(one_line(formatting.sanitizer_place(one))),
            plain(one_line(f"{one.message}{count}", most_chars=_DETAIL_CHARS)),
            plain(formatting.sanitizer_thread(one)),
        )
    if len(findings) > _MOST_FINDINGS:
        table.add_row("", "", f"and {len(findings) - _MOST_FINDINGS} more; --json has them all", "")
    return table


def _counts(found: access_counts.CountTable) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(found.headings):
        table.add_column(heading.lower(), justify="left" if number < found.text_columns else "right")
    for row in found.rows:
        table.add_row(*(plain(one_line(cell)) for cell in row))
    if found.cut_rows:
        table.add_row(f"and {found.cut_rows} more; --json has them all")
    return table


def _launches(launches: Sequence[report_pb2.KernelLaunch], workload_id: str) -> Table:
    title = f"Launches on {one_line(workload_id)}"
    table = Table("kernel", box=None, pad_edge=False, title=title, title_justify="left")
    timed = any(one.HasField("total_duration") for one in launches)
    for heading in ("launches", "grid", "block", "shared", *(["time"] if timed else [])):
        table.add_column(heading, justify="right")
    for one in launches[:_MOST_LAUNCHES]:
        time = formatting.time(formatting.duration_ns(one.total_duration)) if one.HasField("total_duration") else "-"
        table.add_row(
            plain(one_line(one.kernel, most_chars=60)),
            str(one.count),
            formatting.dimensions(one.grid),
            formatting.dimensions(one.block),
            f"{one.shared_bytes} B",
            *([time] if timed else []),
        )
    if len(launches) > _MOST_LAUNCHES:
        table.add_row(f"and {len(launches) - _MOST_LAUNCHES} more; --json has them all")
    return table
