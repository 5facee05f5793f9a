"""Figures of the tables: middle values, limits, what a run of A/A gradings comes to.  Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

# What has to be shown: do_bench in the box against do_bench in an ordinary process, and the judge's clock against do_bench in the box.
REPORTED_SHARE, REPORTED_FROM_US = 0.02, 50.0
SHORT_SHARE, SHORT_US = 0.05, 1.0
CERTIFIED_SHARE, CERTIFIED_US = 0.03, 10.0
WINNER, LOSER = 1.01, 0.99
HALF_WIDTH = 0.01


def reported_limit_us(plain_us: float) -> float:
    """How far the reported time may be from the plain one: 2 % from 50 us, max(1 us, 5 %) below."""
    return REPORTED_SHARE * plain_us if plain_us >= REPORTED_FROM_US else max(SHORT_US, SHORT_SHARE * plain_us)


def certified_limit_us(reported_us: float) -> float:
    """How far the certified time may be from the reported one: max(10 us, 3 %)."""
    return max(CERTIFIED_US, CERTIFIED_SHARE * reported_us)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, between two where it falls between."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def microseconds(nanoseconds: Sequence[int]) -> list[float]:
    """The wire's times, for people."""
    return [one / 1000 for one in nanoseconds]


def shown_us(value: float | None) -> str:
    """Four digits or a tenth of a microsecond, whichever is less."""
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}" if abs(value) < 10_000 else f"{value:.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A speedup with its 95 % interval."""

    ratio: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval, as a share of the ratio."""
        return (self.high - self.low) / 2 / self.ratio

    @property
    def wins(self) -> bool:
        """Whether it says that the subject is faster, beyond the dead band."""
        return self.low > WINNER

    @property
    def loses(self) -> bool:
        """Whether it says that the subject is slower, beyond the dead band."""
        return self.high < LOSER

    @property
    def shown(self) -> str:
        """For a cell."""
        return f"{self.ratio:.3f} ({self.low:.3f}..{self.high:.3f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAgainstSame:
    """What many gradings of a kernel against itself came to, at one size."""

    count: int
    unresolved: int
    ratio: float
    spread: float  # standard deviation of the ratios
    half_width_mean: float
    half_width_most: float
    winners: int
    losers: int
    containing: int  # intervals that contain 1


def same_against_same(intervals: Sequence[Interval | None]) -> SameAgainstSame:
    """Sum up; None is a grading that gave no interval."""
    found = [one for one in intervals if one is not None]
    ratios = [one.ratio for one in found]
    widths = [one.half_width for one in found]
    return SameAgainstSame(
        count=len(intervals),
        unresolved=len(intervals) - len(found),
        ratio=statistics.median(ratios) if ratios else 0.0,
        spread=statistics.stdev(ratios) if len(ratios) > 1 else 0.0,
        half_width_mean=statistics.fmean(widths) if widths else 0.0,
        half_width_most=max(widths, default=0.0),
        winners=sum(one.wins for one in found),
        losers=sum(one.loses for one in found),
        containing=sum(one.low <= 1 <= one.high for one in found),
    )
