"""Intervals of medians, and of ratios of medians, from samples that are not normally distributed.  Pure.

The standard error of a log median is had from two order statistics, as in Price and Bonett, "Estimating the variance of the sample median"
(Journal of Statistical Computation and Simulation 68, 2001); the ratio of two medians as in Bonett and Price, "Confidence intervals for
ratios of means and medians" (Journal of Educational and Behavioral Statistics 45, 2020). Samples are taken as independent: what all
samples of one process share, such as its clocks, shows in no interval of this module.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Z = statistics.NormalDist().inv_cdf(0.975)
FEWEST = 5  # below that, no pair of order statistics has a useful probability


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianInterval:
    """A median, or a ratio of two, with its 95 % interval."""

    value: float
    low: float
    high: float


def median_interval(samples: Sequence[float]) -> MedianInterval | None:
    """The median of positive samples, in their unit. None where there are fewer than FEWEST, or one is not positive and finite."""
    error = _log_error(samples)
    if error is None:
        return None
    return _interval(statistics.median(samples), error)


def ratio_of_medians(over: Sequence[float], under: Sequence[float]) -> MedianInterval | None:
    """The median of `over` divided by that of `under`, for independent samples. None as above."""
    errors = _log_error(over), _log_error(under)
    if errors[0] is None or errors[1] is None:
        return None
    return _interval(statistics.median(over) / statistics.median(under), math.hypot(errors[0], errors[1]))


def _interval(value: float, log_error: float) -> MedianInterval:
    factor = math.exp(Z * log_error)
    return MedianInterval(value=value, low=value / factor, high=value * factor)


def _log_error(samples: Sequence[float]) -> float | None:
    count = len(samples)
    if count < FEWEST or not all(0 < sample < math.inf for sample in samples):
        return None
    ordered = sorted(samples)
    rank = max(1, round((count + 1) / 2 - math.sqrt(count)))
    # The probability of less than `rank` heads in `count` tosses; by logarithms, for counts of many thousands.
    half = count * math.log(2)
    logs = (math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1) - half for heads in range(rank))
    below = math.fsum(map(math.exp, logs))
    return (math.log(ordered[count - rank]) - math.log(ordered[rank - 1])) / (2 * statistics.NormalDist().inv_cdf(1 - below))
