"""The frame of a chart: its scales, its axes with ticks and labels, its grid, and its legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from grader_extensions.web.plots import svg

WIDTH, HEIGHT = 640.0, 360.0
LEFT, RIGHT, BOTTOM, TOP = 76.0, 16.0, 46.0, 12.0
ROW = 18.0  # of a legend
_GAP = 10.0  # between labels
_TICKS = 5  # about so many
_MANY_DECADES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A linear or logarithmic scale from [low, high], with low < high, to [start, end] in pixels; start may be beyond end."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    binary: bool = False  # ticks at powers of two

    def at(self, value: float) -> float:
        """The pixel of a value; values outside are drawn at the edge."""
        inside = min(max(value, self.low), self.high)
        low, high, at = (math.log(number) if self.log else number for number in (self.low, self.high, inside))
        part = (at - low) / (high - low)
        return self.start + part * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the scale, ascending."""
        if not self.log:
            return linear_ticks(self.low, self.high)
        if not self.binary:
            return log_ticks(self.low, self.high)
        powers = range(math.ceil(math.log2(self.low) - 1e-9), math.floor(math.log2(self.high) + 1e-9) + 1)
        return [2.0**power for power in powers[:: max(1, math.ceil(len(powers) / 9))]]

    def drawable(self, value: float) -> bool:
        """Check that a value has a place on the scale."""
        return math.isfinite(value) and (value > 0 or not self.log)


def scale_of(values: Sequence[float], start: float, end: float, *, log: bool = False, from_zero: bool = False) -> Scale:
    """A scale that shows all finite values (positive ones where it is logarithmic) with a margin, [1, 10] where there are none.

    from_zero: a linear scale begins at 0, so that heights can be compared.
    """
    usable = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
    if not usable:
        return Scale(low=1.0, high=10.0, start=start, end=end, log=log)
    low, high = min(usable), max(usable)
    if log:
        margin = (high / low) ** 0.05 if high > low else 1.5
        binary = all(value == 2.0 ** round(math.log2(value)) for value in usable) and high > low
        return Scale(low=low / margin, high=high * margin, start=start, end=end, log=True, binary=binary)
    if from_zero and low >= 0:
        return Scale(low=0.0, high=high * 1.08 if high > 0 else 1.0, start=start, end=end)
    margin = 0.06 * (high - low) if high > low else 0.1 * abs(high) or 1.0
    # Times and sizes are never negative, so neither is their axis.
    return Scale(low=max(low - margin, 0.0) if low >= 0 else low - margin, high=high + margin, start=start, end=end)


def linear_ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [step * count for count in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten; 1, 2 and 5 times them where they are few; round steps within less than half a decade."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, math.ceil(len(decades) / _MANY_DECADES))
    inside = [10.0**power for power in decades if low <= 10.0**power <= high and power % every == 0]
    if len(inside) >= 3:
        return inside
    finer = [factor * 10.0**power for power in decades for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]
    return finer if len(finer) >= 2 else [tick for tick in linear_ticks(low, high) if tick > 0]


def label_of(value: float) -> str:
    """A tick's value in few characters: 0.25, 4,096, 2Mi, 3e9."""
    size = abs(value)
    if size >= 1 << 20 and value % (1 << 20) == 0 and math.log2(size).is_integer():
        return f"{value / (1 << 20):,.0f}Mi"
    if size != 0 and (size >= 1e7 or size < 1e-4):
        return f"{value:.3g}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """An axis. label: with its unit, such as `GB/s`; log: whether it is logarithmic."""

    label: str
    log: bool = False


def legend_rows(names: Sequence[str], width: float) -> list[list[tuple[int, str]]]:
    """The names of the series, each with its index, in the rows that they need."""
    rows: list[list[tuple[int, str]]] = []
    room = 0.0
    for entry in enumerate(names):
        need = _entry_width(entry[1])
        if not rows or need > room:
            rows.append([])
            room = width
        rows[-1].append(entry)
        room -= need
    return rows


def draw_legend(parent: ElementTree.Element, rows: Sequence[Sequence[tuple[int, str]]], start: float, top: float) -> None:
    """Draw rows of entries from (left, top) on."""
    for row_number, row in enumerate(rows):
        x, y = start, top + ROW * row_number + ROW / 2
        for index, name in row:
            color, kind, shape = svg.style_of(index)
            svg.line(parent, x, y, x + 18, y, f"line {kind}", stroke=color)
            svg.path(parent, [svg.mark(shape, x + 9, y)], f"point {kind}", stroke=color, fill="none")
            label = svg.text(parent, x + 24, y + 4, svg.short(name), "label legend")
            if svg.short(name) != name:
                svg.hover(label, name)
            x += _entry_width(name)


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
    start, right, bottom, top = x.start, x.end, y.start, y.end
    before = -1e9
    for value in x.ticks():
        at, words = x.at(value), label_of(value)
        svg.line(parent, at, bottom, at, top, "grid", stroke="#d4d9de", stroke_width="1")
        if at - svg.width_of(words) / 2 >= before + _GAP:
            svg.text(parent, at, bottom + 16, words, "label tick", text_anchor="middle")
            before = at + svg.width_of(words) / 2
    for value in y.ticks():
        at = y.at(value)
        svg.line(parent, start, at, right, at, "grid", stroke="#d4d9de", stroke_width="1")
        svg.text(parent, start - 6, at + 4, label_y(value), "label tick", text_anchor="end")
    svg.line(parent, start, bottom, right, bottom, "axis", stroke="currentColor", stroke_width="1")
    svg.line(parent, start, bottom, start, top, "axis", stroke="currentColor", stroke_width="1")
    svg.text(parent, (start + right) / 2, bottom + 36, x_label + (", log scale" if x.log else ""), "label", text_anchor="middle")
    middle = (bottom + top) / 2
    words = y_label + (", log scale" if y.log else "")
    turned = f"rotate(-90 14 {svg.number(middle)})"
    svg.text(parent, 14, middle, words, "label", text_anchor="middle", transform=turned)


def _entry_width(name: str) -> float:
    return 24 + svg.width_of(svg.short(name)) + 16
