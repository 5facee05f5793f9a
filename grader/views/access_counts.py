"""Words for what the emulated device's sanitizer counted per source line.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from grader.v1 import report_pb2
from grader.views.formatting import byte_count, name_of

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
    rows: list[tuple[str, ...]]
    cut_rows: int
    note: str


def tables(access_counts: report_pb2.AccessCounts, *, row_limit: int) -> list[CountTable]:
    """A table of memory accesses, and one of operations, where something was counted."""
    count_tables = []
    if access_counts.lines:
        left_out = ", without some of their accesses, which were too many" if access_counts.partial else ""
        count_tables.append(
            CountTable(
                name="Memory accesses per line",
                title=f"Memory accesses per line, {_counted_in(access_counts)}{left_out}",
                headings=_COUNTS,
                text_columns=2,
                rows=[
                    (
                        f"{line.path}:{line.line}",
                        _access(line).replace("_", " "),
                        str(line.requests),
                        _per_request(line),
                        _average(line.active_lanes, line.requests),
                        byte_count(line.requested_bytes),
                    )
                    for line in access_counts.lines[:row_limit]
                ],
                cut_rows=max(0, len(access_counts.lines) - row_limit),
                note=_COUNTS_NOTE,
            )
        )
    if access_counts.flops:
        left_out = ", perhaps not all of them" if access_counts.partial else ""
        count_tables.append(
            CountTable(
                name="Floating-point operations per line",
                title=f"Floating-point operations per line, {_counted_in(access_counts)}{left_out}",
                headings=_FLOPS,
                text_columns=1,
                rows=[(f"{flop.path}:{flop.line}", str(flop.flops)) for flop in access_counts.flops[:row_limit]],
                cut_rows=max(0, len(access_counts.flops) - row_limit),
                note=_FLOPS_NOTE,
            )
        )
    return count_tables


def _counted_in(access_counts: report_pb2.AccessCounts) -> str:
    return f"counted in {access_counts.counted_blocks} of {access_counts.blocks} blocks"


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
