"""Estimators against values by hand, and those that scipy 1.17.1 gives."""

import itertools
import math
import random

import pytest

from grader.verdict.scores import Estimate
from grader_extensions.statistics.estimators import EXACT_LIMIT, geometric_mean, pass_at_k, sign_test, wilcoxon


@pytest.mark.parametrize("passing", range(7))
@pytest.mark.parametrize("k", [1, 2, 4, 6])
def test_pass_at_k_is_the_share_of_draws_with_one_that_passes(passing, k):
    """Every draw of k of six, counted out."""
    draws = list(itertools.combinations([True] * passing + [False] * (6 - passing), k))
    assert pass_at_k(6, passing, k) == pytest.approx(sum(map(any, draws)) / len(draws))


@pytest.mark.parametrize(
    ("wins", "losses", "p"), [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (8, 2, 0.109375), (2, 8, 0.109375), (3, 3, 1.0)]
)
def test_the_sign_test_is_the_binomial_one(wins, losses, p):
    assert sign_test(wins, losses) == pytest.approx(p)


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([], 1.0),
        ([0.0, 0.0], 1.0),
        ([0.3], 1.0),
        ([1.5, -0.5, 2.5, 3.5, -1, 4, 0.25], 0.15625),  # scipy.stats.wilcoxon
        ([0.1] * 5, 0.0625),
        ([1, 1, -1, 2, 2, 3, -2, 0], 0.328125),  # scipy, by every permutation: its own exact method knows no equal sizes
        ([math.log(2) - math.log(1), math.log(2) - math.log(4), math.log(8) - math.log(4)], 1.0),  # equal but for rounding
    ],
)
def test_wilcoxon_is_exact_with_equal_sizes_too(differences, p):
    assert wilcoxon(differences) == pytest.approx(p)


def test_wilcoxon_of_many_is_near_to_the_exact_one():
    """Both sides of the limit; scipy's approximation of these 400 is 0.2258838690286."""
    rng = random.Random(5)
    values = [rng.gauss(0.2, 1) for _ in range(EXACT_LIMIT + 1)]
    assert wilcoxon(values) == pytest.approx(wilcoxon(values[:-1]), abs=0.03)
    assert wilcoxon([-value for value in values]) == pytest.approx(wilcoxon(values))


def test_an_interval_is_that_of_one_problem_and_of_the_scatter_of_several():
    """And the same for the same figures. Two that are exact can only be drawn as they are."""
    alone = geometric_mean([Estimate(math.log(2), 0.1)])
    assert alone.value == pytest.approx(2) and (alone.low, alone.high) == pytest.approx((2 * math.exp(-0.1), 2 * math.exp(0.1)), rel=0.02)
    exact = geometric_mean([Estimate(math.log(1), 0.0), Estimate(math.log(4), 0.0)])
    assert (exact.low, exact.value, exact.high) == pytest.approx((1, 2, 4))
    wide = geometric_mean([Estimate(math.log(1), 0.5), Estimate(math.log(4), 0.5)])
    assert wide.low < 1 and wide.high > 4 and wide == geometric_mean([Estimate(math.log(1), 0.5), Estimate(math.log(4), 0.5)])


def test_the_interval_holds_the_mean_in_nineteen_of_twenty():
    """Speedups of 30 problems, drawn around 1.5."""
    rng = random.Random(8)
    hits = 0
    for _ in range(40):
        mean = geometric_mean([Estimate(math.log(1.5) + rng.gauss(0, 0.4), 0.02) for _ in range(30)])
        hits += mean.low <= 1.5 <= mean.high
    assert 34 <= hits <= 40


def test_figures_beyond_a_float_stay_finite():
    mean = geometric_mean([Estimate(709.0, 0.5), Estimate(709.0, 0.5)])
    assert math.isfinite(mean.high) and math.isfinite(mean.value)
