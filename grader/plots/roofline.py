"""A roofline: how fast kernels compute against how much they compute for each byte, under the device's ceilings.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from grader.plots import svg
from grader.plots.frames import BOTTOM, HEIGHT, LEFT, RIGHT, ROW, TOP, WIDTH, LegendEntry, draw_axes, draw_legend, legend_rows
from grader.plots.scales import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """One kernel on one workload. intensity: FLOP per byte; the rate and its interval: FLOP/s. All are positive."""

    name: str
    intensity: float
    rate: float
    rate_low: float
    rate_high: float


@dataclass(frozen=True, slots=True)
class RooflineCeiling:
    """What one unit of the device can do at most, in FLOP/s, such as `TF32 tensor cores`."""

    name: str
    flops_per_s: float


def roofline(points: Sequence[RooflinePoint], ceilings: Sequence[RooflineCeiling], bytes_per_s: float, *, title: str) -> str:
    """An SVG, both axes logarithmic; "" where there is no point, no ceiling, or no bandwidth."""
    drawable = [one for one in points if one.intensity > 0 and one.rate > 0]
    if not drawable or not ceilings or bytes_per_s <= 0:
        return ""
    ridges = [one.flops_per_s / bytes_per_s for one in ceilings]
    across_values = [one.intensity for one in drawable] + ridges
    up_values = [end for one in drawable for end in (one.rate_low, one.rate, one.rate_high) if end > 0]
    up_values += [one.flops_per_s for one in ceilings]
    entries = [LegendEntry(one.name, index) for index, one in enumerate(drawable)]
    dashes = [svg.DASHES[index % len(svg.DASHES)] for index in range(len(ceilings))]
    entries += [LegendEntry(one.name, len(drawable) + index, dashes[index]) for index, one in enumerate(ceilings)]
    rows = legend_rows(entries, WIDTH - LEFT - RIGHT)
    height = HEIGHT + ROW * len(rows)
    made = svg.drawing(WIDTH, height, title=title, description=_description(drawable, ceilings, bytes_per_s), kind="roofline")
    across = Scale(low=min(across_values) / 4, high=max(across_values) * 4, start=LEFT, end=WIDTH - RIGHT, log=True)
    bottom, top = height - BOTTOM, TOP + ROW * len(rows) + 8
    up = Scale(low=min(up_values) / 4 / 1e12, high=max(up_values) * 2 / 1e12, start=bottom, end=top, log=True)
    draw_axes(made, across, up, "arithmetic intensity, FLOP/byte", "TFLOP/s")
    _draw_slope(made, across, up, bytes_per_s, max(one.flops_per_s for one in ceilings))
    for index, ceiling in enumerate(ceilings):
        number = len(drawable) + index
        begin, level = across.at(ceiling.flops_per_s / bytes_per_s), up.at(ceiling.flops_per_s / 1e12)
        color, kind = svg.color_of(number), svg.series_class(number)
        drawn = svg.line(made, begin, level, across.end, level, f"ceiling {kind}", stroke=color, stroke_dasharray=dashes[index])
        svg.hover(drawn, f"{ceiling.name}: {ceiling.flops_per_s / 1e12:.3g} TFLOP/s")
    for index, one in enumerate(drawable):
        _draw_point(made, one, index, across, up)
    draw_legend(made, rows, LEFT, TOP)
    return svg.text_of(made)


def _draw_slope(made: ElementTree.Element, across: Scale, up: Scale, bytes_per_s: float, highest: float) -> None:
    """The memory's slope, from where it enters the frame to the highest ceiling."""
    begin = max(across.low, up.low * 1e12 / bytes_per_s)
    end = highest / bytes_per_s
    x1, y1, x2, y2 = across.at(begin), up.at(begin * bytes_per_s / 1e12), across.at(end), up.at(highest / 1e12)
    drawn = svg.line(made, x1, y1, x2, y2, "ceiling slope", stroke="currentColor", stroke_width="1.5")
    svg.hover(drawn, f"memory: {bytes_per_s / 1e9:,.0f} GB/s")
    svg.text(made, (x1 + x2) / 2 - 6, (y1 + y2) / 2 - 6, f"{bytes_per_s / 1e9:,.0f} GB/s", "label", text_anchor="end")


def _draw_point(made: ElementTree.Element, one: RooflinePoint, index: int, across: Scale, up: Scale) -> None:
    color, kind = svg.color_of(index), svg.series_class(index)
    x, y = across.at(one.intensity), up.at(one.rate / 1e12)
    if 0 < one.rate_low < one.rate_high:
        low, high = up.at(one.rate_low / 1e12), up.at(one.rate_high / 1e12)
        ends = f"M{svg.number(x)} {svg.number(low)}V{svg.number(high)}"
        svg.path(made, [ends], f"whisker {kind}", stroke=color, stroke_width="1.5")
    drawn = svg.path(made, [svg.mark(svg.shape_of(index), x, y)], f"point {kind}", stroke=color, stroke_width="1.5", fill="none")
    svg.hover(drawn, _sentence(one))


def _sentence(one: RooflinePoint) -> str:
    return f"{one.name}: {one.rate / 1e12:.3g} TFLOP/s at {one.intensity:.3g} FLOP/byte"


def _description(points: Sequence[RooflinePoint], ceilings: Sequence[RooflineCeiling], bytes_per_s: float) -> str:
    levels = "; ".join(f"{one.name} {one.flops_per_s / 1e12:.3g} TFLOP/s" for one in ceilings)
    return f"Memory {bytes_per_s / 1e9:,.0f} GB/s; {levels}. " + "; ".join(map(_sentence, points)) + "."
