"""What a report shows of a profile: tools, findings, counts, kernels, launches.  Pure."""

from __future__ import annotations

from typing import Any

from grader.v1 import report_pb2
from grader.views import access_counts, formatting

ROWS = 1_000  # of a table


def profile(found: report_pb2.Profile) -> dict[str, Any]:
    """A profile as its template shows it."""
    return {
        "architecture": found.architecture,
        "workload_id": found.workload_id,
        "tools": [{"name": one.name, "outcome": formatting.profile_outcome(one.outcome), "detail": one.detail} for one in found.tools][
            :ROWS
        ],
        "kernels": [kernel_row(one) for one in found.kernels][:ROWS],
        "launches": [_launch(one) for one in found.launches][:ROWS],
        "remarks": list(found.remarks)[:ROWS],
        "findings": [_finding(one) for one in found.findings][:ROWS],
        "counts": access_counts.tables(found.access_counts, row_limit=ROWS),
    }


def _finding(one: report_pb2.SanitizerFinding) -> dict[str, Any]:
    return {
        "severity": formatting.sanitizer_severity(one),
        "place": formatting.sanitizer_place(one) or "-",
        "message": one.message,
        "thread": formatting.sanitizer_thread(one) or "-",
        "count": one.count,
    }


def kernel_row(one: report_pb2.KernelUse) -> dict[str, Any]:
    """What a kernel takes of the device."""
    return {
        "name": one.name,
        "registers": one.registers or "-",
        "shared": one.shared_bytes,
        "stack": one.stack_bytes,
        "spilled": one.spill_store_bytes + one.spill_load_bytes,
        "doubles": one.double_instruction_count,
    }


def _launch(one: report_pb2.KernelLaunch) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "count": one.count,
        "grid": formatting.dimensions(one.grid),
        "block": formatting.dimensions(one.block),
        "shared": one.shared_bytes,
        "time": formatting.time(formatting.duration_ns(one.total_duration)) if one.HasField("total_duration") else "-",
    }
