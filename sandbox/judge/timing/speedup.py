"""The speedup and its interval, from the values of turns.  Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sandbox.protocol import wire

# Student's t, 97.5 %, by degrees of freedom; beyond the table the normal's 1.96 is close enough for at most 16 turns.
_T = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


def steady(values: Sequence[float]) -> float:
    """The mean of the lower half but its lowest tenth: what a host puts on top of a time it only ever adds, and now and then takes away
    from the protocol."""
    ordered = sorted(values)
    return statistics.fmean(ordered[len(ordered) // 10 : (len(ordered) + 1) // 2])


def half_width(deviation: float, count: int) -> float:
    """Half of the 95 % interval of the mean of count values with this standard deviation (Student's t)."""
    return _T[min(count - 1, len(_T) - 1)] * deviation / math.sqrt(count)


def speedup(
    baseline: str,
    subject_ns: Sequence[float],
    baseline_ns: Sequence[float],
    *,
    bias_ns: float = 0.0,
    bias_share: float = 0.0,
    selection: float = 0.0,
) -> tuple[wire.Speedup, ...]:
    """The geometric mean of the turns' ratios with a 95 % interval of their logarithms (Student's t).

    bias_ns, bias_share: how far two processes that do the same differ however long one measures; it widens the interval. selection:
    what the choice of the turns may have added to the mean of the logarithms; it lowers the lower bound only, as leaving turns out helps
    the subject only. None where a turn of either is at or below the protocol's floor: a time that small is no time, and fails closed.
    None, too, where the interval spans more than RESOLVED_FACTOR.
    """
    pairs = list(zip(baseline_ns, subject_ns, strict=True))
    if len(pairs) < 2 or min(min(pair) for pair in pairs) <= 0:
        return ()
    logs = [math.log(theirs / ours) for theirs, ours in pairs]
    mean = statistics.fmean(logs)
    sampled = half_width(statistics.stdev(logs), len(logs))
    half = math.hypot(sampled, bias_ns / min(statistics.fmean(side) for side in zip(*pairs, strict=True)), bias_share)
    if 2 * half + selection > math.log(wire.RESOLVED_FACTOR):
        return ()
    low, high = math.exp(mean - half - selection), math.exp(mean + half)
    return (wire.Speedup(baseline=baseline, ratio=math.exp(mean), ratio_low=low, ratio_high=high),)
