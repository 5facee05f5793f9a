"""A chart of lines over one axis, each with the band of its interval: times or rates over sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from grader_extensions.web.plots import svg
from grader_extensions.web.plots.frames import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    ROW,
    TOP,
    WIDTH,
    ChartAxis,
    Scale,
    draw_axes,
    draw_legend,
    legend_rows,
    scale_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """A line. xs and ys: equally many values; lows and highs: ends of the interval of each y, or nothing. stepped: each y holds until the
    next x; the last one has no mark, for it only says how long the one before holds."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    stepped: bool = False


def line_chart(
    series: Sequence[ChartSeries],
    *,
    title: str,
    description: str,
    x: ChartAxis,
    y: ChartAxis,
) -> str:
    """An SVG of lines with marks that differ by shape and colour. Values that are not finite leave a gap.

    A linear y axis begins at 0. On a logarithmic axis, values that are not positive leave a gap too.
    """
    rows = legend_rows([line.name for line in series], WIDTH - LEFT - RIGHT)
    top = TOP + ROW * len(rows)
    height = HEIGHT + ROW * len(rows)
    drawing = svg.drawing(WIDTH, height, title=title, description=description, kind="lines")
    heights = [value for line in series for values in (line.ys, line.lows, line.highs) for value in values]
    across = scale_of([value for line in series for value in line.xs], LEFT, WIDTH - RIGHT, log=x.log)
    up = scale_of(heights, height - BOTTOM, top + 8, log=y.log, from_zero=True)
    draw_axes(drawing, across, up, x.label, y.label)
    for index, line in enumerate(series):
        _draw_band(drawing, line, index, across, up)
    for index, line in enumerate(series):
        _draw_line(drawing, line, index, across, up, x.label, y.label)
    draw_legend(drawing, rows, LEFT, TOP)
    return svg.text_of(drawing)


def _draw_band(element: ElementTree.Element, chart_series: ChartSeries, index: int, across: Scale, up: Scale) -> None:
    if not chart_series.lows:
        return
    values = zip(chart_series.xs, chart_series.lows, chart_series.highs, strict=True)
    color, kind, _ = svg.style_of(index)
    for run in _runs([(x, low, high) for x, low, high in values], across, up):
        if len(run) == 1:
            x, low, high = (across.at(run[0][0]), up.at(run[0][1]), up.at(run[0][2]))
            svg.path(element, [*_polyline([(x, low)]), f"V{svg.number(high)}"], f"whisker {kind}", stroke=color, stroke_width="1.5")
            continue
        lower = [(across.at(x), up.at(low)) for x, low, _ in run]
        upper = [(across.at(x), up.at(high)) for x, _, high in reversed(run)]
        svg.path(element, [*_polyline([*lower, *upper]), "z"], f"band {kind}", fill=color, fill_opacity="0.15")


def _draw_line(
    element: ElementTree.Element, chart_series: ChartSeries, index: int, across: Scale, up: Scale, x_label: str, y_label: str
) -> None:
    color, kind, shape = svg.style_of(index)
    for run in _runs(list(zip(chart_series.xs, chart_series.ys, strict=True)), across, up):
        points = [(across.at(x), up.at(y)) for x, y in run]
        svg.path(element, _stairs(points) if chart_series.stepped else _polyline(points), f"line {kind}", stroke=color, stroke_width="1.5")
    marked = len(chart_series.xs) - chart_series.stepped
    for place, (x, y) in enumerate(zip(chart_series.xs[:marked], chart_series.ys[:marked], strict=True)):
        if across.drawable(x) and up.drawable(y):
            at = svg.mark(shape, across.at(x), up.at(y))
            drawn = svg.path(element, [at], f"point {kind}", stroke=color, stroke_width="1.5", fill="none")
            interval = f" ({chart_series.lows[place]:.4g} to {chart_series.highs[place]:.4g})" if chart_series.lows else ""
            svg.hover(drawn, f"{chart_series.name}: {y:.4g}{interval} {y_label} at {x:.6g} {x_label}")


def _runs(values: Sequence[tuple[float, ...]], across: Scale, up: Scale) -> Iterator[list[tuple[float, ...]]]:
    """Neighbours that can be drawn, ascending by x; what can't be drawn separates them."""
    run: list[tuple[float, ...]] = []
    for value in sorted(values, key=lambda point: point[0]):
        if across.drawable(value[0]) and all(up.drawable(y) for y in value[1:]):
            run.append(value)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _polyline(points: Sequence[tuple[float, float]]) -> list[str]:
    return [f"{'L' if place else 'M'}{svg.number(x)} {svg.number(y)}" for place, (x, y) in enumerate(points)]


def _stairs(points: Sequence[tuple[float, float]]) -> list[str]:
    first, *later = points
    return [*_polyline([first]), *(f"H{svg.number(x)}V{svg.number(y)}" for x, y in later)]
