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


def tables(found: report_pb2.AccessCounts, *, row_limit: int) -> list[CountTable]:
    """A table of memory accesses, and one of operations, where something was counted."""
    made = []
    if found.lines:
        left_out = ", without some of their accesses, which were too many" if found.partial else ""
        made.append(
            CountTable(
                name="Memory accesses per line",
                title=f"Memory accesses per line, {_counted_in(found)}{left_out}",
                headings=_COUNTS,
                text_columns=2,
                rows=[_count_cells(one) for one in found.lines[:row_limit]],
                cut_rows=max(0, len(found.lines) - row_limit),
                note=_COUNTS_NOTE,
            )
        )
    if found.flops:
        left_out = ", perhaps not all of them" if found.partial else ""
        made.append(
            CountTable(
                name="Floating-point operations per line",
                title=f"Floating-point operations per line, {_counted_in(found)}{left_out}",
                headings=_FLOPS,
                text_columns=1,
                rows=[(f"{one.path}:{one.line}", str(one.flops)) for one in found.flops[:row_limit]],
                cut_rows=max(0, len(found.flops) - row_limit),
                note=_FLOPS_NOTE,
            )
        )
    return made


def _counted_in(found: report_pb2.AccessCounts) -> str:
    return f"counted in {found.counted_blocks} of {found.blocks} blocks"


def _count_cells(one: report_pb2.LineCounts) -> tuple[str, ...]:
    return (
        f"{one.path}:{one.line}",
        _access(one).replace("_", " "),
        str(one.requests),
        _per_request(one),
        _average(one.active_lanes, one.requests),
        byte_count(one.requested_bytes),
    )


def _access(one: report_pb2.LineCounts) -> str:
    return name_of(report_pb2.MemoryAccess, one.access, "MEMORY_ACCESS_").lower()


def _per_request(one: report_pb2.LineCounts) -> str:
    """Such as `32 sectors (least 4)`."""
    unit, units = ("pass", "passes") if _access(one).startswith("shared") else ("sector", "sectors")
    made, least = _average(one.transactions, one.requests), _average(one.least_transactions, one.requests)
    words = f"{made} {unit}" if made == "1" else f"{made} {units}"
    return words if made == least else f"{words} (least {least})"


def _average(total: int, count: int) -> str:
    return f"{total / count:.1f}".removesuffix(".0") if count else "-"
