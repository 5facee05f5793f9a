"""Estimators over problems: pass@k, geometric means with intervals, and paired tests.  Pure, in plain Python."""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from grader.model import Score
from grader.verdict.scores import EXPONENT_LIMIT, Estimate, Z

SEED, RESAMPLES = 0, 2000  # of the bootstrap: the same submissions give the same interval
EXACT_LIMIT = 100  # differences of which Wilcoxon's distribution is counted out
_DIGITS = 12  # of a difference of logarithms: equal ratios are equal up to rounding


def pass_at_k(sample_count: int, pass_count: int, k: int) -> float:
    """The probability that one of k of these samples passes: the unbiased estimator 1 - C(n-c, k) / C(n, k) of Chen et al. 2021
    (arXiv:2107.03374), where k samples are drawn without replacement."""
    return 1 - math.comb(sample_count - pass_count, k) / math.comb(sample_count, k)


def geometric_mean(figures: Sequence[Estimate]) -> Score:
    """The geometric mean of a figure of each problem, with a 95 % interval by the bootstrap over problems.

    Each drawn figure also gets an error of its own, normal in its logarithm and as wide as its interval. Those errors are in the scatter
    between problems already, so the interval is a little wide; of one problem, it is that of its measurement.
    """
    rng, count = random.Random(SEED), len(figures)
    means = []
    for _ in range(RESAMPLES):
        drawn = rng.choices(figures, k=count)
        error = math.hypot(*(figure.half for figure in drawn)) / Z / count
        means.append(statistics.fmean(figure.log for figure in drawn) + rng.gauss(0.0, error))
    means.sort()
    tail = RESAMPLES // 40  # 2.5 %
    ends = (means[tail], statistics.fmean(figure.log for figure in figures), means[-tail - 1])
    low, value, high = (math.exp(min(end, EXPONENT_LIMIT)) for end in ends)
    return Score(value=value, low=min(low, value), high=max(high, value))


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p value of wins and losses being equally likely; ties are left out."""
    count = wins + losses
    return min(1.0, sum(math.comb(count, place) for place in range(min(wins, losses) + 1)) / (1 << count) * 2)


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p value of Wilcoxon's signed-rank test; zeros are left out, equal sizes share their mean rank.

    Exact, also with equal sizes; of more than EXACT_LIMIT differences by the normal approximation, without a correction for continuity.
    """
    values = [value for value in (round(difference, _DIGITS) for difference in differences) if value]
    sizes = sorted(map(abs, values))
    ranks = {size: bisect_left(sizes, size) + bisect_right(sizes, size) + 1 for size in sizes}  # doubled, so that halves are whole
    total, positive = sum(ranks[size] for size in sizes), sum(ranks[value] for value in values if value > 0)
    tail = min(positive, total - positive)
    if len(values) > EXACT_LIMIT:
        deviation = math.sqrt(sum(ranks[size] * ranks[size] for size in sizes)) / 2
        return 2 * statistics.NormalDist().cdf((tail - total / 2) / deviation)
    shares = [1.0] + [0.0] * tail  # by sum of the positive ranks: how likely it is when each sign is a fair coin
    for size in sizes:
        rank = ranks[size]
        shares = [(share + (shares[place - rank] if place >= rank else 0.0)) / 2 for place, share in enumerate(shares)]
    return min(1.0, 2 * math.fsum(shares))
