"""A score covers how far processes differ, and what they share; what the clock could not tell scores nothing."""

from __future__ import annotations

import math
import random
import statistics
from dataclasses import replace

import pytest

from grader.model import Ranking, ScoreKind
from grader.verdict.scores import Estimate, averaged, merged, pooled, score, speedups
from grader.verdict.timing_audit import overall
from sandbox.protocol import wire

RANKING = Ranking()
TIMES = Ranking(score_kind=ScoreKind.TIME)


def ratio(value: float, half: float = 0.01, baseline: str = "eager") -> wire.Speedup:
    return wire.Speedup(baseline=baseline, ratio=value, ratio_low=value * math.exp(-half), ratio_high=value * math.exp(half))


def measured(workload: str, *ratios: wire.Speedup, times: tuple[int, ...] = (1000, 1010, 990), **fields: object) -> wire.Measurement:
    measurement = wire.Measurement(
        workload_id=workload,
        clock=wire.Clock.DEVICE_EVENTS,
        certified=wire.Samples(durations_ns=times),
        bound_ns=2000,
        floor_ns=10,
        baselines={"eager": wire.Samples(durations_ns=(3000,))},
        speedups=ratios,
    )
    return replace(measurement, **fields)  # type: ignore[arg-type]


def covered(rng: random.Random, count: int, between: float, shared: float, *, honest: bool = True) -> float:
    """Return how often `count` processes cover the truth; they scatter by `between` beside a noise of 1, all off by `shared`."""
    trials, hits = 2000, 0
    for _ in range(trials):
        off = rng.uniform(-shared, shared)
        # What a process knows of itself: its own noise, from 16 turns, and the bound of what all share.
        deviations = [statistics.stdev(rng.gauss(0, 4) for _ in range(16)) / 4 for _ in range(count)]
        estimates = [Estimate(off + rng.gauss(0, between) + rng.gauss(0, 1), math.hypot(2.13 * sd, shared)) for sd in deviations]
        half = pooled(estimates).half if honest else statistics.fmean(estimate.half for estimate in estimates)
        hits += abs(statistics.fmean(estimate.log for estimate in estimates)) <= half
    return hits / trials


@pytest.mark.parametrize(
    ("count", "between", "shared"), [(1, 0, 0), (1, 0, 2), (2, 0, 0), (2, 5, 0), (3, 0, 0), (3, 1, 1), (3, 5, 0), (5, 5, 2)]
)
def test_the_interval_covers_the_truth_as_often_as_it_says(count: int, between: float, shared: float) -> None:
    """Processes scatter much or not at all, and share something or nothing: 95 % at least, but for the simulation's noise."""
    assert covered(random.Random(f"{count} {between} {shared}"), count, between, shared) >= 0.94


def test_an_interval_without_the_scatter_of_processes_would_be_a_lie() -> None:
    """The control: three processes that differ by five times their own noise."""
    assert covered(random.Random(1), 3, 5, 0, honest=False) < 0.7


def test_the_interval_is_never_narrower_than_within_a_process() -> None:
    """Three processes that agree by luck know no more than each of them. Different workloads are as unsure as if they erred together."""
    assert pooled([Estimate(0.7, 0.02)] * 3).half == pytest.approx(0.02)
    assert pooled([Estimate(0.7, 0.01), Estimate(0.7, 0.03)]).half == pytest.approx(0.02)
    assert pooled([Estimate(0.7, 0.02)]) == Estimate(0.7, 0.02)
    assert averaged([Estimate(0.0, 0.1), Estimate(1.0, 0.3)]) == Estimate(0.5, 0.2)


def test_a_score_is_the_geometric_mean_over_workloads_and_processes() -> None:
    """Twice and eight times as fast is four times; a process that saw twice as much leaves no score."""
    first = [measured("a", ratio(2.0)), measured("b", ratio(8.0))]
    second = [measured("a", ratio(2.1)), measured("b", ratio(8.4))]
    alone, both = score([first], RANKING), score([first, second], RANKING)
    assert alone is not None and alone.value == pytest.approx(4.0) and alone.low == pytest.approx(4.0 * math.exp(-0.01))
    assert both is not None and both.value == pytest.approx(4.0 * math.sqrt(1.05))
    assert both.high > both.low * 1.5, "two processes tell little"
    assert score([first, [measured("a", ratio(4.0)), measured("b", ratio(16.0))]], RANKING) is None


def test_the_speedup_of_the_report_is_the_score() -> None:
    """A reader finds one figure, not two; and of one process it is what it always was."""
    processes = [[measured("a", ratio(value), ratio(1.0, baseline="compile")), measured("b", ratio(3.0))] for value in (2.0, 2.1, 2.2)]
    by_baseline, scored = {speedup.baseline: speedup for speedup in speedups(processes)}, score(processes, RANKING)
    assert scored is not None
    eager = by_baseline["eager"]
    assert (eager.ratio, eager.ratio_low, eager.ratio_high) == pytest.approx((scored.value, scored.low, scored.high))
    assert speedups(processes[:1]) == overall(processes[0])


@pytest.mark.parametrize(
    "spoiled",
    [
        measured("b"),  # the clock could not tell
        measured("b", ratio(2.0, baseline="compile")),
        measured("b", wire.Speedup(baseline="eager", ratio=0.0, ratio_low=0.0, ratio_high=1.0)),
        measured("b", wire.Speedup(baseline="eager", ratio=math.inf, ratio_low=1.0, ratio_high=math.inf)),
        measured("b", wire.Speedup(baseline="eager", ratio=math.nan, ratio_low=1.0, ratio_high=2.0)),
        measured("b", wire.Speedup(baseline="eager", ratio=2.0, ratio_low=0.0, ratio_high=4.0)),  # as of a turn that lasted for hours
    ],
)
def test_a_workload_without_a_figure_leaves_no_score(spoiled: wire.Measurement) -> None:
    """In any process: else the workload that a kernel is worst at should not be shown. Nor is a process without any."""
    good = [measured("a", ratio(2.0)), measured("b", ratio(2.0))]
    assert score([good, good, [good[0], spoiled]], RANKING) is None
    assert score([good, good, good], RANKING) is not None
    assert score([], RANKING) is None and score([()], RANKING) is None and score([good, ()], RANKING) is None


def test_a_time_is_scored_by_its_certified_median() -> None:
    """In nanoseconds, as a geometric mean; its interval is at least that of the best known speedup, and that of its own ranks."""
    calm = [measured("a", ratio(2.0, 0.05), ratio(1.5, 0.01, "compile"), times=(1000,) * 25), measured("b", ratio(2.0), times=(4000,) * 25)]
    result = score([calm], TIMES)
    assert result is not None and result.value == pytest.approx(2000.0) and result.high == pytest.approx(2000.0 * math.exp(0.01))
    wild = score([[measured("a", ratio(2.0), times=(700, 1000, 1500))]], TIMES)
    assert wild is not None and (wild.low, wild.high) == pytest.approx((1000.0 / 1.5, 1500.0))


@pytest.mark.parametrize("row", [measured("a", ratio(2.0), times=(-5, 0, 5)), measured("a", times=(1000, 1000))])
def test_a_time_that_is_not_resolved_scores_nothing(row: wire.Measurement) -> None:
    """At or below the protocol's own time, or so short that no speedup could be measured."""
    assert score([[row]], TIMES) is None


def test_rows_hold_the_samples_of_all_processes() -> None:
    """In their order; what any of them has against the row, the row has; the rest is of the middle one."""
    rows = [
        measured("a", ratio(2.0), times=(900,), bound_ns=1, reported=wire.Samples(durations_ns=(1,)), reported_confirmed=True),
        measured("a", ratio(2.0), times=(1100,), bound_ns=3, disturbed=True),
        measured("a", ratio(2.0), times=(1000,), bound_ns=2, reported=wire.Samples(durations_ns=(3,)), reported_confirmed=True),
    ]
    (row,) = merged([[measurement] for measurement in rows])
    assert row.certified.durations_ns == (900, 1100, 1000) and row.baselines["eager"].durations_ns == (3000,) * 3
    assert row.reported is not None and row.reported.durations_ns == (1, 3) and not row.reported_confirmed
    assert row.disturbed and not row.baseline_slowed and row.bound_ns == 2
    assert merged([rows[:1]]) == tuple(rows[:1])
