"""Finds GPUs of one type that are not equally fast, from the times of PyTorch on each.  Pure: no clock, no files, no torch.

Reports are compared, not samples: what all samples of one report share, such as a process and its clocks, shows only between reports
(`verdict/median_interval.py`). Medians and median deviations are used, so that a single odd report changes little.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Shorter baselines are left out: most of the time is the launch, which differs by host. Two H100s of one host differed by 12 % at 11 us.
# From 20 us on, others see 0.3 to 1 % between runs; from 100 us on, 0.05 to 0.3 %.
SHORTEST_NS = 20_000
# Less does not matter to a board: others see the same code differ by up to 2.7 % from run to run (facebookexperimental/triton #2258) and by
# some 4 % from day to day (meta-pytorch/tritonbench #143).
LEAST_DIFFERENCE = 0.02
# With 5 reports and 4 standard errors, at most 1 % of boards of equal GPUs name a pair, for 2 to 16 GPUs, with and without outliers;
# with 3 reports it is up to 3 % (simulated).
FEWEST_REPORTS = 5
STANDARD_ERRORS = 4.0
LARGEST_COUNT = 100  # of pairs: all there are of 14 GPUs

_MAD_TO_SIGMA = 1.4826
# Of few samples, the median deviation is too small by these factors: Croux and Rousseeuw, "Time-efficient algorithms for two highly
# robust estimators of scale" (Computational Statistics, 1992).
_FEW = {5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineMedians:
    """What one report says of its GPU: the median time of the baseline on each workload."""

    device_uuid: str  # "": a device that is no GPU
    problem_digest: str  # only times of one problem are compared
    medians_ns: Mapping[str, float]  # by workload


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDifference:
    """Two GPUs that differ. It holds nothing of single workloads, which may be secret."""

    slower_uuid: str
    faster_uuid: str
    ratio: float  # the slower one's time over the faster one's; above 1
    noise: float  # how far the ratio of two equal GPUs may be from 1


@dataclass(frozen=True, slots=True)
class _Level:
    """How long one GPU takes for one problem: the logarithm of ns, and its standard error."""

    log: float
    error: float


def device_differences(reports: Iterable[BaselineMedians]) -> tuple[DeviceDifference, ...]:
    """The pairs of GPUs that differ by more than the clock's noise and LEAST_DIFFERENCE, the largest difference first.

    reports: of GPUs of one type. A report's figure is the geometric mean over workloads of its median times, in ns. A GPU's is the median
    of its reports' figures of one problem, where there are FEWEST_REPORTS of them. Where two GPUs share several problems, the ratio is the
    geometric mean over these. The noise is STANDARD_ERRORS standard errors of the ratio, from the spread between reports of one GPU;
    no GPU is taken to spread less than the root mean square over all.
    """
    of_problem: dict[str, list[BaselineMedians]] = defaultdict(list)
    for one in reports:
        if one.device_uuid:
            of_problem[one.problem_digest].append(one)
    levels = [_levels(_figures(rows)) for rows in of_problem.values()]
    devices = sorted({device for level in levels for device in level})
    pairs = (_difference(*pair, levels) for pair in itertools.combinations(devices, 2))
    found = [one for one in pairs if one is not None and one.ratio - 1 > max(one.noise, LEAST_DIFFERENCE)]
    return tuple(sorted(found, key=lambda one: (-one.ratio, one.slower_uuid, one.faster_uuid))[:LARGEST_COUNT])


def _figures(reports: Sequence[BaselineMedians]) -> dict[str, list[float]]:
    """By GPU, the mean logarithm of each report of one problem, over the workloads that most reports have; others are left out."""
    times: dict[str, list[float]] = defaultdict(list)
    for one in reports:
        for workload_id, median_ns in one.medians_ns.items():
            if 0 < median_ns < math.inf:
                times[workload_id].append(median_ns)
    shared = [name for name, known in times.items() if 2 * len(known) > len(reports) and statistics.median(known) >= SHORTEST_NS]
    figures: dict[str, list[float]] = defaultdict(list)
    for one in reports:
        known = [one.medians_ns.get(name, 0.0) for name in shared]
        if known and all(0 < time_ns < math.inf for time_ns in known):
            figures[one.device_uuid].append(statistics.fmean(map(math.log, known)))
    return figures


def _levels(figures: Mapping[str, Sequence[float]]) -> dict[str, _Level]:
    """Of the GPUs with enough reports. The error is that of a median of normally distributed figures."""
    enough = {device: logs for device, logs in figures.items() if len(logs) >= FEWEST_REPORTS}
    spreads = {device: _spread(logs) for device, logs in enough.items()}
    typical = math.sqrt(statistics.fmean(one**2 for one in spreads.values())) if spreads else 0.0
    return {
        device: _Level(statistics.median(logs), max(spreads[device], typical) * math.sqrt(math.pi / 2 / len(logs)))
        for device, logs in enough.items()
    }


def _spread(logs: Sequence[float]) -> float:
    """The standard deviation, from the median deviation."""
    middle, count = statistics.median(logs), len(logs)
    return _FEW.get(count, count / (count - 0.8)) * _MAD_TO_SIGMA * statistics.median(abs(one - middle) for one in logs)


def _difference(one: str, other: str, levels: Iterable[Mapping[str, _Level]]) -> DeviceDifference | None:
    """Of two GPUs over all problems that both have enough reports of; None where there is no such problem."""
    shared = [(level[one], level[other]) for level in levels if one in level and other in level]
    if not shared:
        return None
    log = statistics.fmean(first.log - second.log for first, second in shared)
    error = math.hypot(*(side.error for pair in shared for side in pair)) / len(shared)
    slower, faster = (one, other) if log > 0 else (other, one)
    return DeviceDifference(
        slower_uuid=slower, faster_uuid=faster, ratio=math.exp(abs(log)), noise=math.expm1(min(STANDARD_ERRORS * error, 700.0))
    )
