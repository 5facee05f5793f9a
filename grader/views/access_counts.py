"""Words for what the emulated device's sanitizer counted per source line.  Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.v1 import report_pb2
from grader.views.formatting import byte_count, words

_COUNTS = ("Line", "Access", "Requests", "Per request", "Active lanes of 32", "Bytes")
_COUNTS_NOTE = (
    "A sector is 32 bytes of global memory. Passes of shared memory beyond the least are bank conflicts. These are counts, not times."
)
_FLOPS = ("Line", "Flops")
_FLOPS_NOTE = "Of float and double: an operation is one, fma is two. Half, matrix instructions, atomics and library calls are not counted."


@dataclass(frozen=True, slots=True, kw_only=True)
class CountTable:
    """Counts per line. text_columns: the first ones, which hold words; numbers follow. cut_rows: how many more rows there are."""

    name: str
    title: str  # with the share of the blocks that was counted
    headings: tuple[str, ...]
    text_columns: int
    rows: Sequence[tuple[str, ...]]
    cut_rows: int
    note: str


def tables(access_counts: report_pb2.AccessCounts, *, row_limit: int) -> list[CountTable]:
    """A table of memory accesses, and one of operations, where something was counted."""
    rows = [
        (
            f"{line.path}:{line.line}",
            words(line, "access"),
            str(line.requests),
            _per_request(line),
            _average(line.active_lanes, line.requests),
            byte_count(line.requested_bytes),
        )
        for line in access_counts.lines
    ]
    flops = [(f"{flop.path}:{flop.line}", str(flop.flops)) for flop in access_counts.flops]
    counted_in = f"counted in {access_counts.counted_blocks} of {access_counts.blocks} blocks"

    def table(
        name: str, left_out: str, rows: Sequence[tuple[str, ...]], headings: tuple[str, ...], text_columns: int, note: str
    ) -> CountTable:
        return CountTable(
            name=name,
            title=f"{name}, {counted_in}{left_out if access_counts.partial else ''}",
            headings=headings,
            text_columns=text_columns,
            rows=rows[:row_limit],
            cut_rows=max(0, len(rows) - row_limit),
            note=note,
        )

    accesses = table("Memory accesses per line", ", without some of their accesses, which were too many", rows, _COUNTS, 2, _COUNTS_NOTE)
    operations = table("Floating-point operations per line", ", perhaps not all of them", flops, _FLOPS, 1, _FLOPS_NOTE)
    return [count_table for count_table in (accesses, operations) if count_table.rows]


def _per_request(line_counts: report_pb2.LineCounts) -> str:
    """Such as `32 sectors (least 4)`."""
    unit, units = ("pass", "passes") if words(line_counts, "access").startswith("shared") else ("sector", "sectors")
    average, least = (_average(count, line_counts.requests) for count in (line_counts.transactions, line_counts.least_transactions))
    per_request = f"{average} {unit if average == '1' else units}"
    return per_request if average == least else f"{per_request} (least {least})"


def _average(total: int, count: int) -> str:
    return f"{total / count:.1f}".removesuffix(".0") if count else "-"
