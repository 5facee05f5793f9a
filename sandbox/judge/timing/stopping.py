"""The statistics of turns: the speedup and its interval, unrest that null runs show, and the turn after which a measurement ends.  Pure.

The rule for the end reads widths only, never who wins, at a few numbers of turns that are fixed before the first one; looking early costs
the interval (docs/decisions/0057).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from sandbox.protocol import wire
from sandbox.protocol.wire import MeasurementEnd

LOOKS = (12, 18, 28, 40, 60)  # turns taken
LOOK_FACTOR = 1.1
POCOCK_Z = 2.413  # five looks at 5 % in all (Pocock 1977)
MISS_SHARE = 0.025  # on each side
DEPENDENCE_LIMIT, INFLATION_LIMIT = 0.6, 3.0
ROUNDING = 1 + 1e-9
_NORMAL = statistics.NormalDist()
NULL_SLACK_NS = 5_000
OWN_SLACK_NS = 2_000  # what the subject's process may cost more than the trusted one by its own word: less than a lie is worth
QUIET_SLACK_NS = 3_000  # of a turn, which has few null runs
SCATTER_NS = 15_000  # on a quiet device the middle half of the null runs lies within 3 to 6 us


class LookAllowance(Enum):
    """Widening that an interval pays for how its measurement could end."""

    NONE = "none"  # a number of turns that was fixed before the first
    FACTOR = "factor"  # looks at the width
    POCOCK = "pocock"  # looks, whatever they look at: for results that are ranked
    CUT_SHORT = "cut short"  # by the clock on the wall: after any turn, and the subject could have chosen which


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """Errors of times that no measuring averages out. apart_ns, apart_share: by how much two processes that do the same differ. common_ns:
    by how much both times may be wrong alike."""

    apart_ns: float = 0.0
    apart_share: float = 0.0
    common_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfWidth:
    """Half of an interval of logarithms: what the turns' scatter leaves open, and what more turns would not average out."""

    sampled: float
    bias: float

    @property
    def total(self) -> float:
        """Both."""
        return math.hypot(self.sampled, self.bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimEstimate:
    """Estimate in the course of a measurement. quiet: nothing slowed the subject's process. widths: one for each baseline; None where turns
    have no time."""

    quiet: bool
    widths: Sequence[HalfWidth | None]


def end_of(taken_count: int, limit: int, look: InterimEstimate, precision: float, turn_limit: int = LOOKS[-1]) -> MeasurementEnd | None:
    """Why a measurement ends after this turn, or None where it goes on. limit: how many turns the budget has time for. turn_limit: how many
    are ever taken."""
    widths = [width for width in look.widths if width is not None]
    is_look = taken_count in LOOKS and look.quiet and 0 < len(widths) == len(look.widths)
    if is_look and all(width.sampled <= target(precision, width.bias) for width in widths):
        return MeasurementEnd.FLOOR if any(width.total > precision * ROUNDING for width in widths) else MeasurementEnd.WIDTH
    if taken_count < limit:
        return None
    return MeasurementEnd.TURNS if limit >= turn_limit else MeasurementEnd.BUDGET


def target(precision: float, bias: float) -> float:
    """How narrow turns have to make the interval. Once their part is half of the bias, more turns narrow the whole by less than 11 %."""
    return math.sqrt(max(precision**2 - bias**2, (bias / 2) ** 2))


def sampled_half_width(logs: Sequence[float], allowance: LookAllowance) -> float:
    """Half of the interval of the mean of turns that were taken one after the other."""
    plain = statistics.stdev(logs) * quantile(len(logs), allowance) / math.sqrt(len(logs))
    return plain if allowance is LookAllowance.NONE else plain * math.sqrt(inflation(logs))


def quantile(count: int, allowance: LookAllowance) -> float:
    """By how many standard errors the mean of count turns may miss."""
    match allowance:
        case LookAllowance.NONE:
            return t_quantile(count - 1, MISS_SHARE)
        case LookAllowance.FACTOR:
            return LOOK_FACTOR * t_quantile(count - 1, MISS_SHARE)
        case LookAllowance.POCOCK:
            return t_quantile(count - 1, _NORMAL.cdf(-POCOCK_Z))
        case LookAllowance.CUT_SHORT:  # Bonferroni: so many ends
            return t_quantile(count - 1, MISS_SHARE / LOOKS[-1])


def inflation(logs: Sequence[float]) -> float:
    """How much larger the variance of the mean is than that of independent turns, from the correlation of one turn with the next.

    1/n undoes that estimate's bias in a small sample. A negative correlation is not believed.
    """
    mean = statistics.fmean(logs)
    apart = [log - mean for log in logs]
    scatter = sum(distance * distance for distance in apart)
    if scatter == 0:
        return 1.0
    lagged = sum(distance * following for distance, following in itertools.pairwise(apart)) / scatter + 1 / len(logs)
    share = min(max(lagged, 0.0), DEPENDENCE_LIMIT)
    return min((1 + share) / (1 - share), INFLATION_LIMIT)


@lru_cache(maxsize=256)
def t_quantile(freedom: int, miss_share: float) -> float:
    """Return the value that Student's t exceeds with this probability; infinite without a degree of freedom."""
    if freedom < 1:
        return math.inf
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 1 - 2 * miss_share else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| < sqrt(freedom) tan(angle) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    cosine = math.cos(angle)
    term = total = cosine if freedom % 2 else 1.0
    for order in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (order - 1) / order
        total += term
    if freedom % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))


def steady(values: Sequence[float]) -> float:
    """The mean of the lower half but its lowest tenth: what a host puts on top of a time it only ever adds, and now and then takes away
    from the protocol."""
    ordered = sorted(values)
    return statistics.fmean(ordered[len(ordered) // 10 : (len(ordered) + 1) // 2])


def interval_width(
    subject_ns: Sequence[float],
    baseline_ns: Sequence[float],
    bias: Bias = Bias(),
    allowance: LookAllowance = LookAllowance.NONE,
) -> HalfWidth | None:
    """Half of the 95 % interval of the logarithm of the turns' mean ratio.

    None where a turn of either is at or below
    the protocol's floor: a time that small is no time, and fails closed.
    """
    if len(subject_ns) < 2 or min(*subject_ns, *baseline_ns) <= 0:
        return None
    shorter_ns, longer_ns = sorted((statistics.fmean(subject_ns), statistics.fmean(baseline_ns)))
    return HalfWidth(
        sampled=sampled_half_width(log_ratios(subject_ns, baseline_ns), allowance),
        bias=math.hypot(bias.apart_ns / shorter_ns, bias.apart_share, bias.common_ns / shorter_ns - bias.common_ns / longer_ns),
    )


def log_ratios(subject_ns: Sequence[float], baseline_ns: Sequence[float]) -> list[float]:
    """By how much the baseline takes longer, turn by turn."""
    return [math.log(theirs / ours) for ours, theirs in zip(subject_ns, baseline_ns, strict=True)]


def speedup(
    baseline: str,
    subject_ns: Sequence[float],
    baseline_ns: Sequence[float],
    bias: Bias = Bias(),
    allowance: LookAllowance = LookAllowance.NONE,
) -> tuple[wire.Speedup, ...]:
    """The geometric mean of the turns' ratios with a 95 % interval of their logarithms (Student's t), as wide as `interval_width` says.

    None where there is no width, or where the interval spans more than RESOLVED_FACTOR.
    """
    width = interval_width(subject_ns, baseline_ns, bias, allowance)
    if width is None or 2 * width.total > math.log(wire.RESOLVED_FACTOR):
        return ()
    mean = statistics.fmean(log_ratios(subject_ns, baseline_ns))
    low, high = math.exp(mean - width.total), math.exp(mean + width.total)
    return (wire.Speedup(baseline=baseline, ratio=math.exp(mean), ratio_low=low, ratio_high=high),)


class NoiseKind(Enum):
    """How null runs show that somebody kept device or host busy: they scatter, or are slower in most turns than they were alone; or the
    subject's own are slower in most turns than is believed."""

    NONE = "none"
    SLOWER = "slower"
    SCATTER = "scatter"
    OWN = "own"


def undisturbed_count(own_nulls: Sequence[Sequence[float]], trusted_nulls: Sequence[Sequence[float]], alone_ns: float) -> int:
    """Count the turns in which the subject's null runs took no longer than the trusted runner's and a little: in the others something
    slowed its process, or it lies, and what is subtracted there is too little."""
    return sum(
        steady(ours) <= min(steady(trusted), alone_ns + NULL_SLACK_NS) + QUIET_SLACK_NS
        for ours, trusted in zip(own_nulls, trusted_nulls, strict=True)
    )


def classify_noise(turns: Sequence[Sequence[float]], alone_ns: float) -> NoiseKind:
    """Classify the trusted runner's null runs while there is a subject; one of them that took long says nothing."""
    ordered = sorted(duration_ns for turn in turns for duration_ns in turn)
    if ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4] > SCATTER_NS:
        return NoiseKind.SCATTER
    return NoiseKind.SLOWER if statistics.median(steady(turn) for turn in turns) > alone_ns + NULL_SLACK_NS else NoiseKind.NONE
