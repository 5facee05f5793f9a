"""Words for what the emulated device's sanitizer counted per source line.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grader.v1 import report_pb2
from grader.views.formatting import byte_count, name_of

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
            _access(line).replace("_", " "),
            str(line.requests),
            _per_request(line),
            _average(line.active_lanes, line.requests),
            byte_count(line.requested_bytes),
        )
        for line in access_counts.lines[:row_limit]
    ]
    counted = f"counted in {access_counts.counted_blocks} of {access_counts.blocks} blocks"
    return CountTable(title=f"{NAME}, {counted}{left_out}", rows=rows, cut_rows=max(0, len(access_counts.lines) - row_limit))


def _access(line_counts: report_pb2.LineCounts) -> str:
    return name_of(report_pb2.MemoryAccess, line_counts.access, "MEMORY_ACCESS_").lower()


def _per_request(line_counts: report_pb2.LineCounts) -> str:
    """Such as `32 sectors (least 4)`."""
    unit, units = ("pass", "passes") if _access(line_counts).startswith("shared") else ("sector", "sectors")
    average, least = (
        _average(line_counts.transactions, line_counts.requests),
        _average(line_counts.least_transactions, line_counts.requests),
    )
    words = f"{average} {unit}" if average == "1" else f"{average} {units}"
    return words if average == least else f"{words} (least {least})"


def _average(total: int, count: int) -> str:
    return f"{total / count:.1f}".removesuffix(".0") if count else "-"
