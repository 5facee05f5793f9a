"""Geometry of what pages draw: the intervals of a board, and the samples of a measurement in the order taken.  Pure; templates draw it.

Every text stays out of here, so that templates escape all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

BAR_WIDTH, BAR_HEIGHT = 160, 16
PLOT_WIDTH, PLOT_HEIGHT, PLOT_LEFT, PLOT_BOTTOM, PLOT_MARGIN = 400, 200, 56, 14, 8
SAMPLES_DRAWN = 400  # of one series: more are no clearer
LOG_RATIO = 20.0  # from where on times are drawn as logarithms
_WIDEST = 4.0  # so many times past the outermost scores an interval is drawn; some have hardly an end
_EDGE = 4.0


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval with its score, all in the bar's own units."""

    low: float
    value: float
    high: float


def bars(scores: Sequence[tuple[float, float, float]], among: Sequence[tuple[float, float, float]] = ()) -> list[Bar | None]:
    """Scores (value, low, high), to one scale: that of `among`, or their own. As logarithms, for scores are ratios. None: not drawable."""
    drawable = [one for one in (among or scores) if _positive(one[0])]
    if not drawable:
        return [None] * len(scores)
    lowest, highest = min(one[0] for one in drawable), max(one[0] for one in drawable)
    ends = [end for one in drawable for end in one[1:] if _positive(end)] or [lowest]
    left = math.log(max(min(lowest, *ends), lowest / _WIDEST))
    right = math.log(min(max(highest, *ends), highest * _WIDEST))
    scale = (BAR_WIDTH - 2 * _EDGE) / (right - left) if right > left else 0.0

    def at(value: float) -> float:
        log = math.log(value) if _positive(value) else math.inf if value > 0 else left
        place = _EDGE + (min(max(log, left), right) - left) * scale if scale else BAR_WIDTH / 2
        return round(place, 1)

    return [Bar(at(low), at(value), at(high)) if _positive(value) else None for value, low, high in scores]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One thing's samples. mark: which of the three marks it is drawn with; path: an SVG path of numbers and commands only."""

    name: str
    mark: int
    path: str
    median_y: float
    median_ns: float
    count: int
    shown_every: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Samples of one workload. ticks: the height of each, and the time that it stands for. sunk: how many took no longer than an empty
    call, whose cost is taken off; they are drawn at the bottom."""

    series: tuple[Series, ...]
    ticks: tuple[tuple[float, float], ...]
    logarithmic: bool
    sunk: int


def plot(samples: Mapping[str, Sequence[int]]) -> Plot | None:
    """Samples by name, in nanoseconds, in the order taken; None where there is nothing to draw."""
    given = {name: times for name, times in samples.items() if times}
    if not given:
        return None
    floor = float(min((one for times in given.values() for one in times if one > 0), default=1))
    known = {name: [max(float(one), floor) for one in times] for name, times in given.items()}
    low, high = min(min(times) for times in known.values()), max(max(times) for times in known.values())
    logarithmic = high / low > LOG_RATIO
    if not logarithmic:
        low, high = max(low - 0.1 * (high - low), 0.0), high + 0.1 * (high - low)
    if high <= low:
        low, high = low * 0.9, high * 1.1
    bottom, top = PLOT_HEIGHT - PLOT_BOTTOM, PLOT_MARGIN

    def height(time: float) -> float:
        part = math.log(time / low) / math.log(high / low) if logarithmic else (time - low) / (high - low)
        return round(bottom - part * (bottom - top), 1)

    series = tuple(_series(name, index, times, height) for index, (name, times) in enumerate(known.items()))
    ticks = tuple((height(one), one) for one in (_decades(low, high) if logarithmic else _steps(low, high)))
    sunk = sum(one <= 0 for times in given.values() for one in times)
    return Plot(series=series, ticks=ticks, logarithmic=logarithmic, sunk=sunk)


def _series(name: str, index: int, times: Sequence[float], height: Callable[[float], float]) -> Series:
    every = -(-len(times) // SAMPLES_DRAWN)
    width = PLOT_WIDTH - PLOT_LEFT - PLOT_MARGIN
    last = max(len(times) - 1, 1)
    points = [(round(PLOT_LEFT + width * place / last, 1), height(times[place])) for place in range(0, len(times), every)]
    mark = min(index, 2)
    ordered = sorted(times)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return Series(
        name=name,
        mark=mark,
        path="".join(f"M{x - 2} {y - 2}l4 4m0 -4l-4 4" if mark == 2 else f"M{x} {y}h0" for x, y in points),
        median_y=height(middle),
        median_ns=middle,
        count=len(times),
        shown_every=every,
    )


def _steps(low: float, high: float) -> list[float]:
    """Round numbers, four or so."""
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def _positive(value: float) -> bool:
    return 0 < value < math.inf
