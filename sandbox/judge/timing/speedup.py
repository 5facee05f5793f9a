"""The speedup and its interval, from the values of turns.  Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from sandbox.judge.timing.stopping import LookAllowance, Width, sampled_half_width
from sandbox.protocol import wire


def steady(values: Sequence[float]) -> float:
    """The mean of the lower half but its lowest tenth: what a host puts on top of a time it only ever adds, and now and then takes away
    from the protocol."""
    ordered = sorted(values)
    return statistics.fmean(ordered[len(ordered) // 10 : (len(ordered) + 1) // 2])


def interval_width(
    subject_ns: Sequence[float],
    baseline_ns: Sequence[float],
    *,
    bias_ns: float = 0.0,
    bias_share: float = 0.0,
    allowance: LookAllowance = LookAllowance.NONE,
) -> Width | None:
    """Half of the 95 % interval of the logarithm of the turns' mean ratio.

    bias_ns, bias_share: how far two processes that do the same differ however long one measures. None where a turn of either is at or below
    the protocol's floor: a time that small is no time, and fails closed.
    """
    if len(subject_ns) < 2 or min(*subject_ns, *baseline_ns) <= 0:
        return None
    shorter_ns = min(statistics.fmean(subject_ns), statistics.fmean(baseline_ns))
    return Width(
        sampled=sampled_half_width(log_ratios(subject_ns, baseline_ns), allowance), bias=math.hypot(bias_ns / shorter_ns, bias_share)
    )


def log_ratios(subject_ns: Sequence[float], baseline_ns: Sequence[float]) -> list[float]:
    """By how much the baseline takes longer, turn by turn."""
    return [math.log(theirs / ours) for ours, theirs in zip(subject_ns, baseline_ns, strict=True)]


def speedup(
    baseline: str,
    subject_ns: Sequence[float],
    baseline_ns: Sequence[float],
    *,
    bias_ns: float = 0.0,
    bias_share: float = 0.0,
    allowance: LookAllowance = LookAllowance.NONE,
    selection: float = 0.0,
) -> tuple[wire.Speedup, ...]:
    """The geometric mean of the turns' ratios with a 95 % interval of their logarithms (Student's t), as wide as `interval_width` says.

    selection: what the choice of the turns may have added to the mean of the logarithms; it lowers the lower bound only, as leaving turns
    out helps the subject only. None where there is no width, or where the interval spans more than RESOLVED_FACTOR.
    """
    width = interval_width(subject_ns, baseline_ns, bias_ns=bias_ns, bias_share=bias_share, allowance=allowance)
    if width is None or 2 * width.total + selection > math.log(wire.RESOLVED_FACTOR):
        return ()
    mean = statistics.fmean(log_ratios(subject_ns, baseline_ns))
    low, high = math.exp(mean - width.total - selection), math.exp(mean + width.total)
    return (wire.Speedup(baseline=baseline, ratio=math.exp(mean), ratio_low=low, ratio_high=high),)
