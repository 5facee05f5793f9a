"""The frame of a chart: its axes with ticks and labels, its grid, and its legend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from grader.plots import svg
from grader.plots.scales import Scale, label_of

WIDTH, HEIGHT = 640.0, 360.0
LEFT, RIGHT, BOTTOM, TOP = 76.0, 16.0, 46.0, 12.0
ROW = 18.0  # of a legend
_GAP = 10.0  # between labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """An axis. label: with its unit, such as `GB/s`; log: whether it is logarithmic."""

    label: str
    log: bool = False


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """A name with its mark. index: of the series, for shape and colour; dash: of a line without marks."""

    name: str
    index: int
    dash: str = ""


def legend_rows(entries: Sequence[LegendEntry], width: float) -> list[list[LegendEntry]]:
    """Entries in the rows that they need."""
    rows: list[list[LegendEntry]] = []
    room = 0.0
    for entry in entries:
        need = _entry_width(entry)
        if not rows or need > room:
            rows.append([])
            room = width
        rows[-1].append(entry)
        room -= need
    return rows


def draw_legend(parent: ElementTree.Element, rows: Sequence[Sequence[LegendEntry]], left: float, top: float) -> None:
    """Draw rows of entries from (left, top) on."""
    for row_number, row in enumerate(rows):
        x, y = left, top + ROW * row_number + ROW / 2
        for entry in row:
            color, kind = svg.color_of(entry.index), svg.series_class(entry.index)
            if entry.dash:
                svg.line(parent, x, y, x + 18, y, f"reference {kind}", stroke=color, stroke_dasharray=entry.dash)
            else:
                svg.line(parent, x, y, x + 18, y, f"line {kind}", stroke=color)
                svg.path(parent, [svg.mark(svg.shape_of(entry.index), x + 9, y)], f"point {kind}", stroke=color, fill="none")
            label = svg.text(parent, x + 24, y + 4, svg.short(entry.name), "label legend")
            if svg.short(entry.name) != entry.name:
                svg.hover(label, entry.name)
            x += _entry_width(entry)


def draw_axes(
    parent: ElementTree.Element,
    x: Scale,
    y: Scale,
    x_label: str,
    y_label: str,
    *,
    label_y: Callable[[float], str] = label_of,
) -> None:
    """Draw grid, ticks and labels of a chart whose scales are x and y. A label that would touch the one before it is left out."""
    left, right, bottom, top = x.start, x.end, y.start, y.end
    before = -1e9
    for value in x.ticks():
        at, words = x.at(value), label_of(value)
        svg.line(parent, at, bottom, at, top, "grid", stroke="#d4d9de", stroke_width="1")
        if at - svg.width_of(words) / 2 >= before + _GAP:
            svg.text(parent, at, bottom + 16, words, "label tick", text_anchor="middle")
            before = at + svg.width_of(words) / 2
    for value in y.ticks():
        at = y.at(value)
        svg.line(parent, left, at, right, at, "grid", stroke="#d4d9de", stroke_width="1")
        svg.text(parent, left - 6, at + 4, label_y(value), "label tick", text_anchor="end")
    svg.line(parent, left, bottom, right, bottom, "axis", stroke="currentColor", stroke_width="1")
    svg.line(parent, left, bottom, left, top, "axis", stroke="currentColor", stroke_width="1")
    svg.text(parent, (left + right) / 2, bottom + 36, x_label + (", log scale" if x.log else ""), "label", text_anchor="middle")
    middle = (bottom + top) / 2
    words = y_label + (", log scale" if y.log else "")
    turned = f"rotate(-90 14 {svg.number(middle)})"
    svg.text(parent, 14, middle, words, "label", text_anchor="middle", transform=turned)


def _entry_width(entry: LegendEntry) -> float:
    return 24 + svg.width_of(svg.short(entry.name)) + 16
