"""Joins the measurements of several processes: one figure with an interval that covers how far they differ.  Pure.

Everything is averaged as logarithms: a ratio and its inverse weigh the same, and the interval is one of factors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from grader.model import Ranking, Score, ScoreKind
from grader.verdict.timing_audit import median, overall, resolved
from sandbox.protocol import wire

# Student's t at 97.5 %, by degrees of freedom from 1 (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2); beyond the table
# its last value stays on the safe side.
T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
Z = 1.96
FEWEST = 5  # samples; below that, no pair of order statistics has a useful probability
EXPONENT_LIMIT = 700.0  # a float goes to 709

Process = Sequence[wire.Measurement]  # what one process measured: one of each workload


@dataclass(frozen=True, slots=True)
class Estimate:
    """The logarithm of a figure, and half its 95 % interval."""

    log: float
    half: float

    @classmethod
    def from_interval(cls, value: float, low: float, high: float) -> Estimate | None:
        """Of a figure with its interval, taken as wide as its wider side; None where it is none that can be taken the logarithm of."""
        if not 0 < value < math.inf:
            return None
        log = math.log(value)
        return cls(log, max(log - math.log(low), math.log(high) - log, 0.0) if 0 < low <= high < math.inf else math.inf)

    @property
    def score(self) -> Score:
        """The figure itself."""
        low, value, high = (math.exp(min(end, EXPONENT_LIMIT)) for end in (self.log - self.half, self.log, self.log + self.half))
        return Score(value=value, low=low, high=high)


def pooled(processes: Sequence[Estimate]) -> Estimate:
    """The mean of processes that did the same.

    Their scatter, by Student's t, covers what differs from process to process, the noise within them included. What they all share, such
    as the baseline's own process, shows in no scatter: it is in each one's own interval, whose mean is added as independent errors are.
    So it is never narrower than either; of one process, it is that one's.
    """
    logs = [estimate.log for estimate in processes]
    within = statistics.fmean(estimate.half for estimate in processes)
    count = len(logs)
    between = T[min(count - 1, len(T)) - 1] * statistics.stdev(logs) / math.sqrt(count) if count > 1 else 0.0
    return Estimate(statistics.fmean(logs), math.hypot(between, within))


def averaged(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of different things, such as workloads; its interval is as wide as if all erred the same way: never too narrow."""
    return Estimate(statistics.fmean(estimate.log for estimate in estimates), statistics.fmean(estimate.half for estimate in estimates))


def score(processes: Sequence[Process], ranking: Ranking) -> Score | None:
    """The figure that boards compare; None where any workload of any process has none, or where the whole is not
    resolved: what the clock could not tell is worth nothing."""
    means: list[Estimate] = []
    for measurements in processes:
        if ranking.score_kind is ScoreKind.TIME:
            figures = [_time(row) for row in measurements]
        else:
            ratios = [[speedup for speedup in row.speedups if speedup.baseline == ranking.baseline] for row in measurements]
            figures = [_estimate(row[0]) if row else None for row in ratios]
        estimates = [figure for figure in figures if figure is not None]
        if not estimates or len(estimates) < len(figures):
            return None
        means.append(averaged(estimates))
    result = pooled(means).score if means else None
    return result if result is not None and resolved(result.low, result.high) else None


def practice_score(processes: Sequence[Process], ranking: Ranking) -> Score | None:
    """Score by the medians as they are, for a board for practice: the host's clock resolved too little. None of any other clock, and where
    a time is missing. The interval is from the least process to the greatest."""
    logs = []
    for measurements in processes:
        figures = [_median_figure(row, ranking) if row.clock is wire.Clock.HOST else 0.0 for row in measurements]
        if not figures or min(figures) <= 0:
            return None
        logs.append(statistics.fmean(map(math.log, figures)))
    if not logs:
        return None
    low, value, high = (math.exp(log) for log in (min(logs), statistics.fmean(logs), max(logs)))
    return Score(value=value, low=low, high=high)


def _median_figure(measurement: wire.Measurement, ranking: Ranking) -> float:
    """A ratio, or a time in nanoseconds; 0 where it is not known. What the clock did not resolve took as long as it can have taken, or as
    long as the clock itself. A baseline that it did not resolve, or not reach, took what the trusted runner's `do_bench` says."""
    times_ns = (median(measurement.certified), float(measurement.bound_ns), float(measurement.floor_ns))
    time_ns = next((time_ns for time_ns in times_ns if time_ns > 0), 0.0)
    if ranking.score_kind is ScoreKind.TIME:
        return time_ns
    sampled = (samples.get(ranking.baseline) for samples in (measurement.baselines, measurement.reported_baselines))
    baselines_ns = [median(samples) for samples in sampled if samples is not None]
    baseline_ns = next((time for time in baselines_ns if time > 0), float(measurement.floor_ns) if baselines_ns else 0.0)
    return baseline_ns / time_ns if time_ns > 0 else 0.0


def speedups(processes: Sequence[Process]) -> tuple[wire.Speedup, ...]:
    """Per baseline that every process has, the geometric mean over workloads and processes."""
    return overall(processes[0]) if len(processes) == 1 else _speedups([overall(measurements) for measurements in processes])


def merged(processes: Sequence[Process]) -> tuple[wire.Measurement, ...]:
    """Make one row for each workload. It has the samples of all processes in their order, pooled speedups, and what any of them has against
    it; all else is of the process whose certified median is the middle one."""
    if len(processes) == 1:
        return tuple(processes[0])
    by_id = dict[str, list[wire.Measurement]]()
    for row in (row for measurements in processes for row in measurements):
        by_id.setdefault(row.workload_id, []).append(row)
    return tuple(map(_merged, by_id.values()))


def _merged(rows: Sequence[wire.Measurement]) -> wire.Measurement:
    middle = sorted(rows, key=lambda row: median(row.certified))[(len(rows) - 1) // 2]
    return replace(
        middle,
        certified=_joined(row.certified for row in rows),
        reported=_joined(row.reported for row in rows) if any(row.reported for row in rows) else None,
        baselines={name: _joined(row.baselines.get(name) for row in rows) for name in middle.baselines},
        reported_baselines={name: _joined(row.reported_baselines.get(name) for row in rows) for name in middle.reported_baselines},
        reported_confirmed=all(row.reported_confirmed for row in rows),
        disturbed=any(row.disturbed for row in rows),
        baseline_slowed=any(row.baseline_slowed for row in rows),
        speedups=_speedups([row.speedups for row in rows]),
    )


def _joined(samples: Iterable[wire.Samples | None]) -> wire.Samples:
    return wire.Samples(durations_ns=tuple(time for part in samples if part is not None for time in part.durations_ns))


def _speedups(processes: Sequence[Sequence[wire.Speedup]]) -> tuple[wire.Speedup, ...]:
    """Pool the speedups of several processes; without the baselines that a process does not have."""
    result = []
    for name in [speedup.baseline for speedup in processes[0]]:
        rows = [[speedup for speedup in process if speedup.baseline == name] for process in processes]
        estimates = [estimate for row in rows for speedup in row if (estimate := _estimate(speedup)) is not None]
        if all(rows) and len(estimates) == sum(map(len, rows)):
            figure = pooled(estimates).score
            if resolved(figure.low, figure.high):
                result.append(wire.Speedup(baseline=name, ratio=figure.value, ratio_low=figure.low, ratio_high=figure.high))
    return tuple(result)


def _estimate(speedup: wire.Speedup) -> Estimate | None:
    return Estimate.from_interval(speedup.ratio, speedup.ratio_low, speedup.ratio_high)


def _time(measurement: wire.Measurement) -> Estimate | None:
    """The certified median. Its interval is by ranks, and no narrower than that of the best known speedup: what the clock does not know of
    the subject is in there too, and a time without any is not resolved."""
    ordered = sorted(measurement.certified.durations_ns)
    count = len(ordered)
    # Between which samples a median lies with 95 %: ranks of a binomial(n, 1/2), by its normal approximation.
    first = max(0, math.floor((count - Z * math.sqrt(count)) / 2))
    by_rank = Estimate.from_interval(median(measurement.certified), ordered[first], ordered[count - 1 - first])
    ratios = [ratio for ratio in map(_estimate, measurement.speedups) if ratio is not None]
    if by_rank is None or not ratios:
        return None
    return Estimate(by_rank.log, max(by_rank.half, min(ratio.half for ratio in ratios)))


# Intervals of medians, and of ratios of medians, from samples that are not normally distributed. The standard error of a log median is had
# from two order statistics, as in Price and Bonett, "Estimating the variance of the sample median" (Journal of Statistical Computation and
# Simulation 68, 2001); the ratio of two medians as in Bonett and Price, "Confidence intervals for ratios of means and medians" (Journal of
# Educational and Behavioral Statistics 45, 2020). Samples are taken as independent: what all samples of one process share shows in none.
def median_interval(samples: Sequence[float]) -> Score | None:
    """The median of positive samples, in their unit. None where there are fewer than FEWEST, or one is not positive and finite."""
    error = _log_error(samples)
    if error is None:
        return None
    return _interval(statistics.median(samples), error)


def ratio_of_medians(over: Sequence[float], under: Sequence[float]) -> Score | None:
    """The median of `over` divided by that of `under`, for independent samples. None as above."""
    errors = _log_error(over), _log_error(under)
    if errors[0] is None or errors[1] is None:
        return None
    return _interval(statistics.median(over) / statistics.median(under), math.hypot(errors[0], errors[1]))


def _interval(value: float, log_error: float) -> Score:
    factor = math.exp(statistics.NormalDist().inv_cdf(0.975) * log_error)
    return Score(value=value, low=value / factor, high=value * factor)


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
