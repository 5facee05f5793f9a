"""Charts: lines with bands over one axis, and samples in the order taken; with scales, axes, grid and legend."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from grader_extensions.web.plots import svg

WIDTH, HEIGHT = 400.0, 260.0  # as wide as a phone, so that its text is not drawn smaller there
LEFT, RIGHT, BOTTOM, TOP = 76.0, 16.0, 46.0, 12.0
ROW = 18.0  # of a legend, a title or a subtitle
HEADING_CHARS = 60  # of a title or a subtitle
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
    parent: ElementTree.Element, x: Scale, y: Scale, x_label: str, y_label: str, *, label_y: Callable[[float], str] = label_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSeries:
    """A line. xs and ys: equally many values; lows and highs: ends of the interval of each y, or nothing; joined: with a line between the
    values; marked: with a mark at each."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    joined: bool = True
    marked: bool = True


def line_chart(series: Sequence[ChartSeries], *, title: str, subtitle: str = "", description: str, x: ChartAxis, y: ChartAxis) -> str:
    """An SVG of lines with marks that differ by shape and colour. Values that are not finite leave a gap.

    A linear y axis begins at 0. On a logarithmic axis, values that are not positive leave a gap too.
    """
    rows = legend_rows([line.name for line in series], WIDTH - LEFT - RIGHT)
    headings = [words for words in (title, subtitle) if words]
    legend_top = TOP + ROW * len(headings)
    top = legend_top + ROW * len(rows)
    height = HEIGHT - TOP + top
    drawing = svg.drawing(WIDTH, height, title=title, description=description, kind="lines")
    for number, words in enumerate(headings):
        svg.text(
            drawing,
            RIGHT,
            TOP + ROW * number + ROW / 2,
            svg.short(words, HEADING_CHARS),
            "label" if number else "heading",
            font_weight="normal" if number else "bold",
        )
    heights = [value for line in series for values in (line.ys, line.lows, line.highs) for value in values]
    across = scale_of([value for line in series for value in line.xs], LEFT, WIDTH - RIGHT, log=x.log)
    up = scale_of(heights, height - BOTTOM, top + 8, log=y.log, from_zero=True)
    draw_axes(drawing, across, up, x.label, y.label)
    for index, line in enumerate(series):
        _draw_band(drawing, line, index, across, up)
    for index, line in enumerate(series):
        _draw_line(drawing, line, index, across, up, x.label, y.label)
    draw_legend(drawing, rows, LEFT, legend_top)
    return ElementTree.tostring(drawing, encoding="unicode")


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
    for run in _runs(list(zip(chart_series.xs, chart_series.ys, strict=True)), across, up) if chart_series.joined else ():
        points = [(across.at(x), up.at(y)) for x, y in run]
        svg.path(element, _polyline(points), f"line {kind}", stroke=color, stroke_width="1.5")
    for place, (x, y) in enumerate(zip(chart_series.xs, chart_series.ys, strict=True)):
        if chart_series.marked and across.drawable(x) and up.drawable(y):
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


HISTOGRAM = 70.0  # how wide
SAMPLES_DRAWN = 400  # of one series: more are no clearer
LOG_RATIO = 20.0  # from where on times are drawn as logarithms
BINS = 30
_DOTS = frozenset(("circle", "square"))


def samples_chart(
    samples: Mapping[str, Sequence[float]], *, title: str, label: str, value_text: Callable[[float], str], most_samples: int = SAMPLES_DRAWN
) -> str:
    """An SVG of samples by name, in the order taken; "" where there is nothing to draw.

    label: of the axis of values. value_text: a value with its unit. A sample that is not positive (the cost of an empty call is
    subtracted) is drawn at the bottom. most_samples: of a series; longer ones are thinned.
    """
    drawn = {name: values for name, values in samples.items() if values}
    if not drawn:
        return ""
    most_samples = max(min(most_samples, SAMPLES_DRAWN), 1)
    positive = [value for values in drawn.values() for value in (*values, statistics.median(values)) if value > 0] or [1.0]
    rows = legend_rows([f"{name}: {value_text(statistics.median(values))}" for name, values in drawn.items()], WIDTH - LEFT)
    height = HEIGHT + ROW * len(rows)
    drawing = svg.drawing(WIDTH, height, title=title, description=_description(drawn, value_text, most_samples), kind="samples")
    right = WIDTH - HISTOGRAM - 24
    across = scale_of([0.0, max(map(len, drawn.values()))], LEFT, right, from_zero=True)
    up = scale_of(positive, height - BOTTOM, TOP + ROW * len(rows) + 8, log=max(positive) / min(positive) > LOG_RATIO)
    draw_axes(drawing, across, up, "sample, in the order taken", label, label_y=value_text)
    for index, values in enumerate(drawn.values()):
        _draw_series(drawing, values, index, across, up, most_samples)
    _draw_histogram(drawing, list(drawn.values()), right + 16, up)
    draw_legend(drawing, rows, LEFT, TOP)
    return ElementTree.tostring(drawing, encoding="unicode")


def _draw_series(element: ElementTree.Element, values: Sequence[float], index: int, across: Scale, up: Scale, most_samples: int) -> None:
    color, kind, shape = svg.style_of(index)
    middle = up.at(statistics.median(values))
    svg.line(element, across.start, middle, across.end, middle, f"median {kind}", stroke=color, stroke_dasharray="5 3")
    every = -(-len(values) // most_samples)
    places = [(across.at(place + 1), up.at(values[place])) for place in range(0, len(values), every)]
    crosses = [(x - 2, y - 2) for x, y in places]
    dots = svg.repeated(places, "h0") if shape in _DOTS else svg.repeated(crosses, "l4 4m0-4l-4 4", sinks=4)
    cap = {"circle": ("round", "4"), "square": ("square", "3.5")}.get(shape, ("butt", "1.2"))
    svg.path(element, dots, f"dots {kind}", stroke=color, stroke_linecap=cap[0], stroke_width=cap[1])


def _draw_histogram(element: ElementTree.Element, series: Sequence[Sequence[float]], start: float, up: Scale) -> None:
    """How many samples are in each of BINS equal parts of the axis, as one outline for each series."""
    size = (up.start - up.end) / BINS
    counted = []
    for values in series:
        counts = [0] * BINS
        for value in values:
            counts[min(int((up.start - up.at(value)) / size), BINS - 1)] += 1
        counted.append([count / len(values) for count in counts])
    highest = max(max(parts) for parts in counted)
    for index, parts in enumerate(counted):
        commands, place = [f"M{svg.number(start)} {svg.number(up.start)}"], 0
        for part, alike in itertools.groupby(parts):
            place += len(list(alike))
            commands.append(f"H{svg.number(start + HISTOGRAM * part / highest)}V{svg.number(up.start - size * place)}")
        commands.append(f"H{svg.number(start)}z")
        color, kind, _ = svg.style_of(index)
        svg.path(element, commands, f"histogram {kind}", stroke=color, fill=color, fill_opacity="0.15")
    svg.text(element, start, up.start + 16, "share", "label")


def _description(drawn: Mapping[str, Sequence[float]], value_text: Callable[[float], str], most_samples: int) -> str:
    sentences = []
    for name, values in drawn.items():
        every = -(-len(values) // most_samples)
        quarters = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        thinned = f", one in {every} is drawn" if every > 1 else ""
        sentences.append(
            f"{name}: median {value_text(statistics.median(values))}, quartiles {value_text(quarters[0])} and "
            f"{value_text(quarters[2])}, of {len(values)} samples{thinned}."
        )
    return " ".join(filter(None, (*sentences, unresolved_samples(drawn))))


def unresolved_samples(samples: Mapping[str, Sequence[float]]) -> str:
    """A sentence on samples of 0 or less; "" where there is none."""
    counts = {name: sum(value <= 0 for value in values) for name, values in samples.items()}
    parts = " and ".join(f"{count} of {len(samples[name])} samples of {name}" for name, count in counts.items() if count)
    return f"{parts} took no longer than an empty call, whose cost is subtracted; drawn at the bottom." if parts else ""
