"""A heat map of at most 64 x 64 cells: where an output is wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree.ElementTree import Element

from grader.plots import svg

MOST_CELLS = 64  # of a side
SIDE = 320.0
MARGIN = 64.0
LEVELS = 8
COLOR = "#ab1f1f"


def heat_map(
    cells: Sequence[Sequence[float | None]],
    *,
    title: str,
    description: str,
    row_label: str,
    column_label: str,
    low_label: str = "0 %",
    high_label: str = "100 %",
) -> str:
    """An SVG of rows of shares from 0 to 1, the first row at the top; None is a cell of which nothing is known, and stays empty.

    Raises ValueError where there are no cells, more than MOST_CELLS in a side, or rows of different lengths.
    """
    rows, columns = len(cells), len(cells[0]) if cells else 0
    if not rows or not columns or rows > MOST_CELLS or columns > MOST_CELLS or any(len(row) != columns for row in cells):
        raise ValueError(f"a heat map takes 1 to {MOST_CELLS} rows and columns, all rows of one length")
    side = SIDE / max(rows, columns)
    width, height = side * columns, side * rows
    made = svg.drawing(MARGIN + max(width, 160) + 8, height + 72, title=title, description=description, kind="heat-map")
    by_level: dict[int, list[str]] = {}
    for row_number, row in enumerate(cells):
        for level, first, count in _runs(row):
            x, y = MARGIN + side * first, 20 + side * row_number
            by_level.setdefault(level, []).append(f"M{x:.2f} {y:.2f}h{side * count:.2f}v{side:.2f}h-{side * count:.2f}z")
    svg.rectangle(made, MARGIN, 20, width, height, "frame", stroke="currentColor", stroke_width="1")
    for level in sorted(by_level):
        svg.path(
            made, by_level[level], f"cells level-{level}", fill=COLOR, fill_opacity=f"{level / LEVELS:.3g}", shape_rendering="crispEdges"
        )
    svg.text(made, MARGIN + width / 2, 12, column_label, "label", text_anchor="middle")
    middle = 20 + height / 2
    svg.text(made, 14, middle, row_label, "label", text_anchor="middle", transform=f"rotate(-90 14 {svg.number(middle)})")
    svg.text(made, MARGIN - 6, 30, "0", "label tick", text_anchor="end")
    svg.text(made, MARGIN - 6, 20 + height, str(rows - 1), "label tick", text_anchor="end")
    _draw_key(made, height + 36, low_label, high_label)
    return svg.text_of(made)


def _draw_key(made: Element, top: float, low_label: str, high_label: str) -> None:
    left = MARGIN + svg.width_of(low_label) + 12
    svg.text(made, MARGIN, top + 12, low_label, "label")
    for level in range(LEVELS + 1):
        svg.rectangle(made, left + 8 * level, top, 8, 16, "cells", fill=COLOR, fill_opacity=f"{level / LEVELS:.3g}")
    svg.rectangle(made, left, top, 8 * (LEVELS + 1), 16, "frame", stroke="currentColor", stroke_width="1")
    svg.text(made, left + 8 * (LEVELS + 1) + 6, top + 12, high_label, "label")


def _runs(row: Sequence[float | None]) -> list[tuple[int, int, int]]:
    """Neighbours of one level above 0: level, first cell, count. What is not 0 never looks like 0."""
    found: list[tuple[int, int, int]] = []
    for place, share in enumerate(row):
        level = 0 if share is None or not share > 0 else max(1, min(LEVELS, math.floor(min(share, 1.0) * LEVELS)))
        if level and found and found[-1][0] == level and found[-1][1] + found[-1][2] == place:
            found[-1] = (level, found[-1][1], found[-1][2] + 1)
        elif level:
            found.append((level, place, 1))
    return found
