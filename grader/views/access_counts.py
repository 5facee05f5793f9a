"""Words for what the emulated device's sanitizer counted per source line.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grader.v1 import report_pb2
from grader.views.formatting import byte_count, words

NAME = "Memory accesses per line"
HEADINGS = ("Line", "Access", "Requests", "Per request", "Active lanes of 32", "Bytes")
TEXT_COLUMNS = 2  # the first ones, which hold words; numbers follow
NOTE = "A sector is 32 bytes of global memory. Passes of shared memory beyond the least are bank conflicts. These are counts, not times."


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """Counts per line. title: with the share of the blocks that was counted. cut_rows: how many more rows there are."""

    title: str
    rows: list[tuple[str, ...]]
    cut_rows: int


def table(access_counts: report_pb2.AccessCounts, *, row_limit: int) -> CountTable | None:
    """The table of memory accesses; None where nothing was counted."""
    if not access_counts.lines:
        return None
    left_out = ", without some of their accesses, which were too many" if access_counts.partial else ""
    rows: list[tuple[str, ...]] = [
        (
            f"{line.path}:{line.line}",
            words(line, "access"),
            str(line.requests),
            _per_request(line),
            _average(line.active_lanes, line.requests),
            byte_count(line.requested_bytes),
        )
        for line in access_counts.lines[:row_limit]
    ]
    counted = f"counted in {access_counts.counted_blocks} of {access_counts.blocks} blocks"
    return CountTable(title=f"{NAME}, {counted}{left_out}", rows=rows, cut_rows=max(0, len(access_counts.lines) - row_limit))


def _per_request(line_counts: report_pb2.LineCounts) -> str:
    """Such as `32 sectors (least 4)`."""
    unit, units = ("pass", "passes") if words(line_counts, "access").startswith("shared") else ("sector", "sectors")
    average, least = (_average(count, line_counts.requests) for count in (line_counts.transactions, line_counts.least_transactions))
    per_request = f"{average} {unit if average == '1' else units}"
    return per_request if average == least else f"{per_request} (least {least})"


def _average(total: int, count: int) -> str:
    return f"{total / count:.1f}".removesuffix(".0") if count else "-"
