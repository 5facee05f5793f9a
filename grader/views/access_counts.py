"""Words for what the emulated device's sanitizer counted per source line.  Pure."""

from __future__ import annotations

from grader.v1 import report_pb2
from grader.views.formatting import byte_count, name_of

HEADINGS = ("Line", "Access", "Requests", "Per request", "Active lanes of 32", "Bytes")
NOTE = "A sector is 32 bytes of global memory. Passes of shared memory beyond the least are bank conflicts. These are counts, not times."


FLOP_HEADINGS = ("Line", "Flops")
FLOP_NOTE = "Of float and double: an operation is one, fma is two. Half, matrix instructions, atomics and library calls are not counted."


def title(found: report_pb2.AccessCounts) -> str:
    """What the table is of, with the share of the blocks that was counted."""
    left_out = ", without some of their accesses, which were too many" if found.partial else ""
    return f"Memory accesses per line, {_counted_in(found)}{left_out}"


def flop_title(found: report_pb2.AccessCounts) -> str:
    """What the table of operations is of."""
    left_out = ", perhaps not all of them" if found.partial else ""
    return f"Floating-point operations per line, {_counted_in(found)}{left_out}"


def _counted_in(found: report_pb2.AccessCounts) -> str:
    return f"counted in {found.counted_blocks} of {found.blocks} blocks"


def flop_cells(one: report_pb2.LineFlops) -> tuple[str, ...]:
    """A row of the table, under FLOP_HEADINGS."""
    return f"{one.path}:{one.line}", str(one.flops)


def cells(one: report_pb2.LineCounts) -> tuple[str, ...]:
    """A row of the table, under HEADINGS."""
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
