"""A chart of samples in the order taken, with the median of each series and a histogram on the same axis."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from xml.etree import ElementTree

from grader_extensions.web.plots import svg
from grader_extensions.web.plots.frames import BOTTOM, LEFT, ROW, TOP, Scale, draw_axes, draw_legend, legend_rows, scale_of

WIDTH, HEIGHT = 520.0, 260.0
HISTOGRAM = 90.0  # how wide
SAMPLES_DRAWN = 400  # of one series: more are no clearer
LOG_RATIO = 20.0  # from where on times are drawn as logarithms
BINS = 30
_DOTS = frozenset(("circle", "square"))


def samples_chart(
    samples: Mapping[str, Sequence[float]],
    *,
    title: str,
    label: str,
    value_text: Callable[[float], str],
    most_samples: int = SAMPLES_DRAWN,
) -> str:
    """An SVG of samples by name, in the order taken; "" where there is nothing to draw.

    label: of the axis of values. value_text: a value with its unit. A sample that is not positive (the cost of an empty call is
    subtracted) is drawn at the bottom. most_samples: of a series; longer ones are thinned.
    """
    measured = {name: values for name, values in samples.items() if values}
    if not measured:
        return ""
    most_samples = max(min(most_samples, SAMPLES_DRAWN), 1)
    floor = min((value for values in measured.values() for value in values if value > 0), default=1.0)
    drawn = {name: [max(float(value), floor) for value in values] for name, values in measured.items()}
    everything = [value for values in drawn.values() for value in values]
    logarithmic = max(everything) / min(everything) > LOG_RATIO
    rows = legend_rows([f"{name}: {value_text(statistics.median(values))}" for name, values in drawn.items()], WIDTH - LEFT)
    height = HEIGHT + ROW * len(rows)
    drawing = svg.drawing(WIDTH, height, title=title, description=_description(measured, drawn, value_text, most_samples), kind="samples")
    right = WIDTH - HISTOGRAM - 24
    across = scale_of([0.0, max(map(len, drawn.values()))], LEFT, right, from_zero=True)
    up = scale_of(everything, height - BOTTOM, TOP + ROW * len(rows) + 8, log=logarithmic)
    draw_axes(drawing, across, up, "sample, in the order taken", label, label_y=value_text)
    for index, values in enumerate(drawn.values()):
        _draw_series(drawing, values, index, across, up, most_samples)
    _draw_histogram(drawing, list(drawn.values()), right + 16, up)
    draw_legend(drawing, rows, LEFT, TOP)
    return svg.text_of(drawing)


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


def _description(
    measured: Mapping[str, Sequence[float]], drawn: Mapping[str, Sequence[float]], value_text: Callable[[float], str], most_samples: int
) -> str:
    sentences = []
    for name, values in drawn.items():
        every = -(-len(values) // most_samples)
        quarters = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        thinned = f", one in {every} is drawn" if every > 1 else ""
        sentences.append(
            f"{name}: median {value_text(statistics.median(values))}, quartiles {value_text(quarters[0])} and "
            f"{value_text(quarters[2])}, of {len(values)} samples{thinned}."
        )
    sunk = sum(value <= 0 for values in measured.values() for value in values)
    if sunk:
        sentences.append(f"{sunk} took no longer than an empty call, and are drawn at the bottom.")
    return " ".join(sentences)
