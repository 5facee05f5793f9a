"""Figures of the GPU tests: quantiles, limits of the clock, what gradings of a kernel against itself come to, what an attack gains."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from grader.model import Problem, Verdict
from sandbox.protocol import wire
from tests.harness.grading import Graded

# What has to be shown: do_bench in the box against do_bench in an ordinary process, and the judge's clock against do_bench in the box.
REPORTED_SHARE, REPORTED_FROM_US = 0.02, 50.0
SHORT_SHARE, SHORT_US = 0.05, 1.0
CERTIFIED_SHARE, CERTIFIED_US = 0.015, 2.0
WINNER, LOSER = 1.01, 0.99
HALF_WIDTH = 0.01
# What an accepted attack may win over the honest kernel that it is compared with.
GAIN_NS, GAIN_SHARE = 10_000, 0.01  # what an early `done` may win, and what the clock's median wanders by on long kernels
SPEEDUP_FACTOR = 1.15  # how much better than honest a speedup may look: two medians and the baseline's own drift
SAME_COLUMNS = (
    "size",
    "about, us",
    "gradings",
    "median ratio",
    "spread",
    "mean half-width",
    "largest",
    "winners",
    "losers",
    "contain 1",
    "no interval",
)


def reported_limit_us(plain_us: float) -> float:
    """How far the reported time may be from the plain one: 2 % from 50 us, max(1 us, 5 %) below."""
    return REPORTED_SHARE * plain_us if plain_us >= REPORTED_FROM_US else max(SHORT_US, SHORT_SHARE * plain_us)


def certified_limit_us(reported_us: float) -> float:
    """How far the certified time may be from the reported one: max(2 us, 1.5 %)."""
    return max(CERTIFIED_US, CERTIFIED_SHARE * reported_us)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies, between two where it falls between."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def shown_us(value: float | None) -> str:
    """Four digits or a tenth of a microsecond, whichever is less."""
    if value is None:
        return ""
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.1f}" if abs(value) < 10_000 else f"{value:.0f}"


def shown_samples(samples: wire.Samples | None) -> str:
    """Median (p20..p80) in microseconds."""
    if samples is None or not samples.durations_ns:
        return ""
    low, high = (quantile(samples.durations_ns, share) / 1000 for share in (0.2, 0.8))
    return f"{shown_us(statistics.median(samples.durations_ns) / 1000)} ({shown_us(low)}..{shown_us(high)})"


def shown_speedup(speedup: wire.Speedup) -> str:
    """Ratio (low..high)."""
    return f"{speedup.ratio:.3f} ({speedup.ratio_low:.3f}..{speedup.ratio_high:.3f})"


def half_width(speedup: wire.Speedup) -> float:
    """Half of the interval, as a share of the ratio."""
    return (speedup.ratio_high - speedup.ratio_low) / 2 / speedup.ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class SameAgainstSame:
    """The outcome of many gradings of a kernel against itself, at one size."""

    count: int
    unresolved: int
    ratio: float
    spread: float  # standard deviation of the ratios
    half_width_mean: float
    half_width_most: float
    winners: int  # intervals that lie beyond the dead band
    losers: int
    containing: int  # intervals that contain 1

    def row(self, name: str, about_us: float) -> tuple[str, ...]:
        """A row under SAME_COLUMNS."""
        resolved = self.count - self.unresolved
        return (
            name,
            f"{about_us:.0f}",
            str(self.count),
            f"{self.ratio:.4f}",
            f"{100 * self.spread:.2f} %",
            f"{100 * self.half_width_mean:.2f} %",
            f"{100 * self.half_width_most:.2f} %",
            str(self.winners),
            str(self.losers),
            f"{100 * self.containing / resolved:.0f} %" if resolved else "",
            str(self.unresolved),
        )


def same_against_same(speedups: Sequence[wire.Speedup | None]) -> SameAgainstSame:
    """Sum up; None is a grading that gave no interval."""
    resolved = [speedup for speedup in speedups if speedup is not None]
    ratios = [speedup.ratio for speedup in resolved]
    widths = [half_width(speedup) for speedup in resolved]
    return SameAgainstSame(
        count=len(speedups),
        unresolved=len(speedups) - len(resolved),
        ratio=statistics.median(ratios) if ratios else 0.0,
        spread=statistics.stdev(ratios) if len(ratios) > 1 else 0.0,
        half_width_mean=statistics.fmean(widths) if widths else 0.0,
        half_width_most=max(widths, default=0.0),
        winners=sum(speedup.ratio_low > WINNER for speedup in resolved),
        losers=sum(speedup.ratio_high < LOSER for speedup in resolved),
        containing=sum(speedup.ratio_low <= 1 <= speedup.ratio_high for speedup in resolved),
    )


def saturated_rate(ends: Sequence[float], lanes: int) -> float:
    """Jobs a minute while every lane has work: without the first end of each lane, and without the last. ends: when jobs ended, in seconds.

    In a run of few jobs the first boxes import while the lanes wait, and at its end lanes stand still.
    """
    ordered = sorted(ends)
    inner = ordered[lanes - 1 : len(ordered) - lanes + 1]
    return 60 * (len(inner) - 1) / (inner[-1] - inner[0])


def gain_of(graded: Graded, honest: Graded, problem: Problem) -> str | None:
    """The time, or the speedup, that an accepted attack has won; None is nothing."""
    if graded.report.verdict is not Verdict.ACCEPTED:
        return None
    for workload in problem.spec.workloads:
        attack_ns, right = graded.certified_ns(workload.workload_id), honest.certified_ns(workload.workload_id)
        if attack_ns is None or right is None:
            return f"not known: no time of {workload.workload_id}"
        if right - attack_ns > max(GAIN_NS, GAIN_SHARE * right):
            return f"{(right - attack_ns) / 1e3:.1f} us"
    longest_us = max(graded.certified_ns(workload.workload_id) or 0.0 for workload in problem.spec.workloads) / 1e3
    for baseline, ratio in speedups(graded).items():
        right_ratio = speedups(honest).get(baseline, ratio)
        # Beside a kernel of 20 ms the clock's own spread is a sixth of a baseline of 6 us.
        if ratio > SPEEDUP_FACTOR * right_ratio and (ratio - right_ratio) * longest_us > CERTIFIED_US:
            return f"{baseline}: {ratio:.2f} times, not {right_ratio:.2f}"
    return None


def speedups(graded: Graded) -> dict[str, float]:
    """By baseline."""
    return {speedup.baseline: speedup.ratio for speedup in graded.report.speedups}
