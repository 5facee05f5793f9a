"""Bars: the stages of a timeline, and intervals that are compared on one scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from grader.plots import svg

BAR_WIDTH, BAR_HEIGHT = 160.0, 16.0
TIMELINE_WIDTH, TIMELINE_HEIGHT = 640.0, 26.0
_WIDEST = 4.0  # so many times past the outermost values an interval is drawn; some have hardly an end
_EDGE = 4.0


@dataclass(frozen=True, slots=True)
class IntervalPosition:
    """An interval with its value, in pixels of a bar."""

    low: float
    value: float
    high: float


def interval_positions(
    values: Sequence[tuple[float, float, float]], among: Sequence[tuple[float, float, float]] = ()
) -> list[IntervalPosition | None]:
    """Where (value, low, high) are on one logarithmic scale: that of `among`, or their own. None: not drawable."""
    drawable = [one for one in (among or values) if _positive(one[0])]
    if not drawable:
        return [None] * len(values)
    lowest, highest = min(one[0] for one in drawable), max(one[0] for one in drawable)
    ends = [end for one in drawable for end in one[1:] if _positive(end)] or [lowest]
    left = math.log(max(min(lowest, *ends), lowest / _WIDEST))
    right = math.log(min(max(highest, *ends), highest * _WIDEST))
    scale = (BAR_WIDTH - 2 * _EDGE) / (right - left) if right > left else 0.0

    def at(value: float) -> float:
        log = math.log(value) if _positive(value) else math.inf if value > 0 else left
        place = _EDGE + (min(max(log, left), right) - left) * scale if scale else BAR_WIDTH / 2
        return round(place, 1)

    return [IntervalPosition(at(low), at(value), at(high)) if _positive(value) else None for value, low, high in values]


def interval_bar(found: IntervalPosition | None, *, title: str, even: IntervalPosition | None = None) -> str:
    """An SVG for a table's cell; "" where the interval can't be drawn. even: the place of 1x, where that is on the scale."""
    if found is None:
        return ""
    made = svg.drawing(BAR_WIDTH, BAR_HEIGHT, title=title, description="The interval, with its value as a dot.", kind="bar", has_text=False)
    middle = BAR_HEIGHT / 2
    svg.line(made, 0, middle, BAR_WIDTH, middle, "grid", stroke="#d4d9de")
    if even is not None:
        svg.line(made, even.value, 1, even.value, BAR_HEIGHT - 1, "even", stroke="currentColor", stroke_dasharray="2 2")
    color = svg.color_of(0)
    ends = [f"M{svg.number(end)} {svg.number(middle - 5)}v10" for end in (found.low, found.high)]
    commands = [f"M{svg.number(found.low)} {svg.number(middle)}H{svg.number(found.high)}", *ends]
    svg.path(made, commands, "interval mark-0", stroke=color, stroke_width="2")
    svg.path(made, [svg.mark("circle", found.value, middle)], "value mark-0", stroke=color, fill=color)
    return svg.text_of(made)


@dataclass(frozen=True, slots=True)
class TimelineSegment:
    """A stage and how long it took."""

    name: str
    duration_s: float


def timeline(segments: Sequence[TimelineSegment], *, title: str) -> str:
    """An SVG of one bar, as long as all stages together; "" where none took any time."""
    shown = [one for one in segments if one.duration_s > 0 and math.isfinite(one.duration_s)]
    total = sum(one.duration_s for one in shown)
    if not shown:
        return ""
    words = "; ".join(f"{one.name} {one.duration_s:.3g} s" for one in shown)
    made = svg.drawing(TIMELINE_WIDTH, TIMELINE_HEIGHT, title=title, description=words, kind="timeline")
    x = 0.0
    for index, one in enumerate(shown):
        width = TIMELINE_WIDTH * one.duration_s / total
        color = svg.color_of(index)
        drawn = svg.rectangle(
            made, x, 2, width, TIMELINE_HEIGHT - 4, f"segment {svg.series_class(index)}",
            fill=color, fill_opacity="0.3", stroke=color, stroke_width="1",
        )  # fmt: skip
        label = f"{svg.short(one.name)} {one.duration_s:.2g} s"
        svg.hover(drawn, f"{one.name}: {one.duration_s:.3g} s, {100 * one.duration_s / total:.0f} %")
        if svg.width_of(label) + 8 < width:
            svg.text(made, x + 5, TIMELINE_HEIGHT / 2 + 4, label, "label")
        x += width
    return svg.text_of(made)


def _positive(value: float) -> bool:
    return 0 < value < math.inf
