"""The baselines' times while they were alone, kept from job to job: a wrong kernel does not wait for them (docs/decisions/0057).

They are kept where nothing slowed them, for some minutes, and for the same problem, workload and conditions. A measurement that they do
not fit is done again by a fresh process, with new ones.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.judge.timing.box_load import foreign_cpu_ns
from sandbox.judge.timing.interleaved import SoloTimings
from sandbox.protocol import wire
from sandbox.protocol.devices import throttled

KEPT_S = 600.0
# How many cores others may use meanwhile: next to none, unless these are enough for all that judge and baseline do.
QUIET_CORES, OWN_CORES = 0.3, 4
# Of a device's conditions, those that are the same from job to job. Its clocks and its temperature are not.
SAME_CONDITIONS = ("sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w", "persistence", "ecc", "mig")

Conditions = Mapping[str, str]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _DatedTimings:
    timings: SoloTimings
    since_s: float


class HostActivity:
    """What others make this machine do, from when this is made. cpu_ns: the CPU time that they have had; None where that is not known."""

    def __init__(self, cpu_ns: Callable[[], int | None] = foreign_cpu_ns, clock: Callable[[], float] = time.monotonic) -> None:
        self._cpu_ns, self._clock = cpu_ns, clock
        self._begun_ns, self._begun_s = cpu_ns(), clock()

    def quiet(self, core_count: int) -> bool:
        """Whether next to nothing was done until now; also where nothing is known, for then times are compared alone."""
        now_ns = self._cpu_ns()
        if now_ns is None or self._begun_ns is None:
            return True
        cores = (now_ns - self._begun_ns) / 1e9 / max(self._clock() - self._begun_s, 1e-9)
        return cores <= max(QUIET_CORES, core_count - OWN_CORES)


class KeptTimings:
    """Of the problems that the trusted runner has last loaded, problem_count at most. clock: seconds.

    A problem that is loaded anew begins without any: what was compiled for it is compiled again.
    """

    def __init__(self, problem_count: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._problem_count, self._clock = problem_count, clock
        self._problems: OrderedDict[str, dict[Key, _DatedTimings]] = OrderedDict()
        self._unfit_since_s: dict[str, float] = {}  # problems, by digest

    def load(self, problem: wire.ProblemSpec) -> None:
        """The trusted runner loads this problem, if it has not, and forgets the one that it loaded first."""
        self._problems.setdefault(problem.digest, {})
        if len(self._problems) > self._problem_count:
            oldest, _ = self._problems.popitem(last=False)
            self._unfit_since_s.pop(oldest, None)

    def keep(self, problem: wire.ProblemSpec, timings: Mapping[str, SoloTimings], conditions: Conditions) -> None:
        """Keep the times of workloads, by name, unless the device was slowed meanwhile, or such times did not fit a while ago."""
        if problem.digest not in self._problems or not problem.digest or throttled(conditions):
            return
        if self.unfit(problem):
            return
        for workload in problem.workloads:
            if workload.workload_id in timings:
                kept = _DatedTimings(timings[workload.workload_id], self._clock())
                self._problems[problem.digest][_key(workload, conditions)] = kept

    def find(self, problem: wire.ProblemSpec, workloads: Sequence[wire.Workload], conditions: Conditions) -> dict[str, SoloTimings] | None:
        """The times of all these workloads, by name; None where those of one are missing or too old, or the device is slowed now."""
        kept = self._problems.get(problem.digest, {})
        found = {one.workload_id: kept.get(_key(one, conditions)) for one in workloads}
        oldest_s = self._clock() - KEPT_S
        timings = {name: one.timings for name, one in found.items() if one is not None and one.since_s > oldest_s}
        return timings if len(timings) == len(workloads) and not throttled(conditions) else None

    def unfit(self, problem: wire.ProblemSpec) -> bool:
        """Whether kept times of this problem did not fit a while ago, so that none are kept now."""
        return self._unfit_since_s.get(problem.digest, -math.inf) > self._clock() - KEPT_S

    def forget(self, problem: wire.ProblemSpec) -> None:
        """Times that did not fit a measurement are not used again, and no others of the problem are kept for a while: a matmul that runs
        into a GPU's limit of power is slower next to a kernel than alone, every time, and each such measurement is made twice."""
        self._problems.get(problem.digest, {}).clear()
        self._unfit_since_s[problem.digest] = self._clock()


def _key(workload: wire.Workload, conditions: Conditions) -> Key:
    return repr(workload), *(conditions.get(name, "") for name in SAME_CONDITIONS)
