"""What several processes' measurements say together: one figure with an interval that covers how far they differ.  Pure.

Everything is averaged as logarithms: a ratio and its inverse weigh the same, and the interval is one of factors.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
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
EXPONENT_LIMIT = 700.0  # a float goes to 709

Process = Sequence[wire.Measurement]  # what one process measured: one of each workload


@dataclass(frozen=True, slots=True)
class Estimate:
    """The logarithm of a figure, and half its 95 % interval."""

    log: float
    half: float

    @classmethod
    def of(cls, value: float, low: float, high: float) -> Estimate | None:
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
    logs = [one.log for one in processes]
    within = statistics.fmean(one.half for one in processes)
    count = len(logs)
    between = T[min(count - 1, len(T)) - 1] * statistics.stdev(logs) / math.sqrt(count) if count > 1 else 0.0
    return Estimate(statistics.fmean(logs), math.hypot(between, within))


def averaged(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of different things, such as workloads; its interval is as wide as if all erred the same way: never too narrow."""
    return Estimate(statistics.fmean(one.log for one in estimates), statistics.fmean(one.half for one in estimates))


def score(processes: Sequence[Process], ranking: Ranking) -> Score | None:
    """The figure that boards compare; None where any workload of any process has none, or where the whole is not
    resolved: what the clock could not tell is worth nothing."""
    means: list[Estimate] = []
    for measurements in processes:
        found = [_time(one) if ranking.score_kind is ScoreKind.TIME else _ratio(one, ranking.baseline) for one in measurements]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        means.append(averaged(known))
    made = pooled(means).score if means else None
    return made if made is not None and resolved(made.low, made.high) else None


def practice_score(processes: Sequence[Process], ranking: Ranking) -> Score | None:
    """What a board for practice shows where the host's clock resolved too little: the medians as they are. None of any other clock, and
    where a time is missing. The interval is from the least process to the greatest."""
    logs = []
    for measurements in processes:
        found = [_median_figure(one, ranking) if one.clock is wire.Clock.HOST else 0.0 for one in measurements]
        if not found or min(found) <= 0:
            return None
        logs.append(statistics.fmean(math.log(one) for one in found))
    if not logs:
        return None
    low, value, high = (math.exp(log) for log in (min(logs), statistics.fmean(logs), max(logs)))
    return Score(value=value, low=low, high=high)


def _median_figure(measurement: wire.Measurement, ranking: Ranking) -> float:
    """A ratio, or a time in nanoseconds; 0 where it is not known. What the clock did not resolve took as long as it can have taken, or as
    long as the clock itself. A baseline that it did not resolve, or not reach, took what the trusted runner's `do_bench` says."""
    times_ns = (median(measurement.certified), float(measurement.bound_ns), float(measurement.floor_ns))
    time_ns = next((one for one in times_ns if one > 0), 0.0)
    if ranking.score_kind is ScoreKind.TIME:
        return time_ns
    sampled = (one.get(ranking.baseline) for one in (measurement.baselines, measurement.reported_baselines))
    baselines_ns = [median(one) for one in sampled if one is not None]
    baseline_ns = next((one for one in baselines_ns if one > 0), float(measurement.floor_ns) if baselines_ns else 0.0)
    return baseline_ns / time_ns if time_ns > 0 else 0.0


def speedups(processes: Sequence[Process]) -> tuple[wire.Speedup, ...]:
    """Per baseline that every process has, the geometric mean over workloads and processes."""
    return overall(processes[0]) if len(processes) == 1 else _speedups([overall(one) for one in processes])


def merged(processes: Sequence[Process]) -> tuple[wire.Measurement, ...]:
    """One row for each workload: the samples of all processes in their order, pooled speedups, what any of them has against it; all else is
    of the process whose certified median is the middle one."""
    if len(processes) == 1:
        return tuple(processes[0])
    names = dict.fromkeys(one.workload_id for measurements in processes for one in measurements)
    return tuple(_merged([one for measurements in processes for one in measurements if one.workload_id == name]) for name in names)


def _merged(rows: Sequence[wire.Measurement]) -> wire.Measurement:
    middle = sorted(rows, key=lambda one: median(one.certified))[(len(rows) - 1) // 2]
    return replace(
        middle,
        certified=_joined([one.certified for one in rows]),
        reported=_joined([one.reported for one in rows if one.reported]) if any(one.reported for one in rows) else None,
        baselines={name: _joined([one.baselines[name] for one in rows if name in one.baselines]) for name in middle.baselines},
        reported_baselines={
            name: _joined([one.reported_baselines[name] for one in rows if name in one.reported_baselines])
            for name in middle.reported_baselines
        },
        reported_confirmed=all(one.reported_confirmed for one in rows),
        disturbed=any(one.disturbed for one in rows),
        baseline_slowed=any(one.baseline_slowed for one in rows),
        speedups=_speedups([one.speedups for one in rows]),
    )


def _joined(samples: Sequence[wire.Samples]) -> wire.Samples:
    return wire.Samples(durations_ns=tuple(time for one in samples for time in one.durations_ns))


def _speedups(found: Sequence[Sequence[wire.Speedup]]) -> tuple[wire.Speedup, ...]:
    """Of one thing in several processes, pooled; without the baselines that one of them does not have."""
    shared = [name for name in (one.baseline for one in found[0]) if all(any(one.baseline == name for one in row) for row in found)]
    made = []
    for name in shared:
        rows = [one for row in found for one in row if one.baseline == name]
        known = [estimate for one in rows if (estimate := Estimate.of(one.ratio, one.ratio_low, one.ratio_high)) is not None]
        if len(known) == len(rows):
            of = pooled(known).score
            if resolved(of.low, of.high):
                made.append(wire.Speedup(baseline=name, ratio=of.value, ratio_low=of.low, ratio_high=of.high))
    return tuple(made)


def _ratio(measurement: wire.Measurement, baseline: str) -> Estimate | None:
    return next((Estimate.of(one.ratio, one.ratio_low, one.ratio_high) for one in measurement.speedups if one.baseline == baseline), None)


def _time(measurement: wire.Measurement) -> Estimate | None:
    """The certified median. Its interval is by ranks, and no narrower than that of the best known speedup: what the clock does not know of
    the subject is in there too, and a time without any is not resolved."""
    ordered = sorted(measurement.certified.durations_ns)
    count = len(ordered)
    # Between which samples a median lies with 95 %: ranks of a binomial(n, 1/2), by its normal approximation.
    first = max(0, math.floor((count - Z * math.sqrt(count)) / 2))
    by_rank = Estimate.of(median(measurement.certified), ordered[first], ordered[count - 1 - first])
    ratios = [known for one in measurement.speedups if (known := Estimate.of(one.ratio, one.ratio_low, one.ratio_high)) is not None]
    if by_rank is None or not ratios:
        return None
    return Estimate(by_rank.log, max(by_rank.half, min(one.half for one in ratios)))
