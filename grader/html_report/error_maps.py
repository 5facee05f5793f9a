"""Draws where a wrong output is wrong and where it was never written.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from grader.plots.heat_map import heat_map
from grader.v1 import report_pb2
from grader.views.error_maps import ALL, is_map
from grader.views.sanitize import one_line

MAPS = 4  # of a report


def error_maps(trials: Sequence[report_pb2.Trial]) -> list[dict[str, Any]]:
    """A title and plots for each map with more than one block."""
    return list(_maps(trials))[:MAPS]


def _maps(trials: Sequence[report_pb2.Trial]) -> Iterator[dict[str, Any]]:
    for trial in trials:
        found = trial.error_map
        if trial.hidden or not is_map(found) or found.rows * found.columns == 1:
            continue
        name, workload = one_line(found.output), one_line(trial.workload_id)
        shape = " x ".join(map(str, found.shape))
        kinds = [("wrong", found.wrong_count, found.wrong_shares)]
        if found.unwritten_shares:
            kinds.append(("never written", found.unwritten_count, found.unwritten_shares))
        plots = [_plot(found, f"Where {name} is {what} on {workload}", what, wrong, shares) for what, wrong, shares in kinds]
        yield {"title": f"{name} ({shape}) on {workload}", "description": one_line(found.description), "plots": plots}


def _plot(found: report_pb2.ErrorMap, title: str, what: str, count: int, shares: bytes) -> Markup:
    columns = found.columns
    cells = [[share / ALL for share in shares[row * columns : (row + 1) * columns]] for row in range(found.rows)]
    description = f"{count} elements are {what}. {found.rows} x {columns} blocks of {found.block_rows} x {found.block_columns} elements."
    return Markup(
        heat_map(
            cells,
            title=title,
            description=description,
            row_label=f"rows, in blocks of {found.block_rows}",
            column_label=f"{what}: columns, in blocks of {found.block_columns}",
        )
    )
