"""Times, and what they come to: the protocol's part, the speedup and its interval, and the turn after which a measurement ends.  Pure.

The rule for the end reads widths only, never who wins, at a few numbers of turns that are fixed before the first one; looking early costs
the interval (docs/decisions/0057). What a subject is forgiven of the protocol is in docs/decisions/0014. The baselines' times next to a
subject are held to what they took alone: slowing PyTorch must not make a kernel look fast (cheating F2). Times alone that an earlier job
took are held to the baselines' times next to the subject, too. `python -m tests.gpu.clock_records` applies this to times that were
recorded.
"""

from __future__ import annotations

import itertools
import math
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

from sandbox.devices import BYTES, CACHE, FLOAT8, FLOPS
from sandbox.protocol import wire
from sandbox.protocol.wire import MeasurementEnd

if TYPE_CHECKING:
    from sandbox.judge.runner_link import BoxLoad, RunnerLink

SUBJECT, EAGER, PROBE = "subject", "eager", "probe"
VARIANTS = {EAGER: 0, "compile": 1, "max-autotune": 2, PROBE: 3}  # what the trusted runner can run, by the gate's number
WARMUP_COUNT = 3
NULL = {False: "null", True: "null with copy"}
OWN_NULL = "the subject's null"
QUIET_SHARE = 0.75  # of the turns taken
LOOKS = (12, 18, 28, 40, 60)  # turns taken
DEPENDENCE_LIMIT, INFLATION_LIMIT = 0.6, 3.0
ROUNDING = 1 + 1e-9
NULL_SLACK_NS = 5_000
OWN_SLACK_NS = 2_000  # what the subject's process may cost more than the trusted one by its own word: less than a lie is worth
QUIET_SLACK_NS = 3_000  # of a turn, which has few null runs
SCATTER_NS = 15_000  # on a quiet device the middle half of the null runs lies within 3 to 6 us
APART_NS = 1_500.0  # where null runs of the two are further apart than this, one is slower than its null runs say, by about as much
# How much slower than alone a baseline may run next to an idle subject before that is the subject's doing.
FACTOR = {wire.Clock.DEVICE_EVENTS: 1.05, wire.Clock.HOST: 2.0}
SLACK_NS = {wire.Clock.DEVICE_EVENTS: 3_000.0, wire.Clock.HOST: 5_000_000.0}  # for the shortest
SHARE = 0.25  # of the turns
REACH_NS, REACH_SHARE = 3_000.0, 0.005  # of a run that counts in full: one scatters by 1 us and 0.1 %, by its place in a train by 1 us more
FLOOR_SHARE = 0.9
# Where a problem's tolerance allows it, these do the work of float32; a floor that is too low hits nobody.
NARROWER = {"float32": ("float16", "bfloat16")}


class LookAllowance(Enum):
    """Widening that an interval pays for how its measurement could end."""

    NONE = "none"  # a number of turns that was fixed before the first
    FACTOR = "factor"  # looks at the width
    POCOCK = "pocock"  # looks, whatever they look at: for results that are ranked
    CUT_SHORT = "cut short"  # by the clock on the wall: after any turn, and the subject could have chosen which


# By how much the interval is widened, and how often it may miss, on each side.
MISSES = {
    LookAllowance.NONE: (1.0, 0.025),
    LookAllowance.FACTOR: (1.1, 0.025),
    LookAllowance.POCOCK: (1.0, statistics.NormalDist().cdf(-2.413)),  # five looks at 5 % in all (Pocock 1977)
    LookAllowance.CUT_SHORT: (1.0, 0.025 / LOOKS[-1]),  # Bonferroni: so many ends
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoloTimings:
    """Times that the trusted runner took by the protocol, in nanoseconds, before there was a subject that could slow it.

    null_ns: without and with the copy that a kernel which returns its outputs makes. run_ns: by variant; one that does not run is not
    there. null_work_ns: how much of a null run is not the protocol's, by the probe, without and with the copy; negative where a run pays
    more than a null run for touching the workload's memory. reported: what do_bench says of each. Both by device clock only.
    """

    null_ns: dict[bool, list[int]]
    floor_ns: list[int]
    run_ns: dict[str, list[int]]
    null_work_ns: dict[bool, float] = field(default_factory=dict)
    reported: dict[str, wire.Samples] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSetup:
    """Runners that are timed: the subject, and the trusted runner with what it is to run. copies: the subject returns its outputs.
    load: of the subject's box, by the host's clock."""

    subject: RunnerLink
    trusted: RunnerLink
    copies: bool
    alone: SoloTimings
    budget_s: float
    load: BoxLoad | None = None
    precision: float = 0.01  # the half-width at which turns may end
    allowance: LookAllowance = LookAllowance.FACTOR  # of an interval that was looked at

    @property
    def clock(self) -> wire.Clock:
        """The clock that takes the times."""
        return self.subject.device.CLOCK

    @property
    def copy_ns(self) -> float:
        """How much longer the trusted runner's null runs are than those like the subject's: they copy as a baseline does."""
        return steady(self.alone.null_ns[True]) - steady(self.alone.null_ns[self.copies])

    @property
    def null_work_ns(self) -> float:
        """How much of a null run like the subject's is not the protocol's."""
        return self.alone.null_work_ns.get(self.copies, 0.0)


@dataclass(slots=True)
class Times:
    """How long the runs took, by arm and turn. planned: how many turns the budget had time for. allowance: what the interval pays for how
    the turns ended."""

    taken_ns: dict[str, list[list[int]]] = field(default_factory=dict)
    throttle_reasons: set[str] = field(default_factory=set)
    planned: int = LOOKS[0]
    allowance: LookAllowance = LookAllowance.NONE
    end: wire.MeasurementEnd | None = None

    def flat(self, arm: str) -> list[int]:
        """All runs of an arm that is there."""
        return [duration_ns for turn in self.taken_ns.get(arm, []) for duration_ns in turn]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """Errors of times that no measuring averages out. apart_ns, apart_share: by how much two processes that do the same differ. common_ns:
    by how much both times may be wrong alike."""

    apart_ns: float = 0.0
    apart_share: float = 0.0
    common_ns: float = 0.0


# By how much two processes that do the same differ, however long they are timed: from gradings of a kernel against itself (record 0014).
# Both alike: by how much what the probe says of the protocol is off.
BIAS = {wire.Clock.DEVICE_EVENTS: Bias(apart_ns=400.0, apart_share=0.002, common_ns=700.0), wire.Clock.HOST: Bias()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfWidth:
    """Half of an interval of logarithms: what the turns' scatter leaves open, and what more turns would not average out."""

    sampled: float
    bias: float

    @property
    def total(self) -> float:
        """Both."""
        return math.hypot(self.sampled, self.bias)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterimEstimate:
    """Estimate in the course of a measurement. quiet: nothing slowed the subject's process. widths: one for each baseline; None where turns
    have no time."""

    quiet: bool
    widths: Sequence[HalfWidth | None]


def end_of(taken_count: int, limit: int, look: InterimEstimate, precision: float, turn_limit: int = LOOKS[-1]) -> MeasurementEnd | None:
    """Why a measurement ends after this turn, or None where it goes on. limit: how many turns the budget has time for. turn_limit: how many
    are ever taken."""
    widths = [width for width in look.widths if width is not None]
    is_look = taken_count in LOOKS and look.quiet and 0 < len(widths) == len(look.widths)
    if is_look and all(width.sampled <= target(precision, width.bias) for width in widths):
        return MeasurementEnd.FLOOR if any(width.total > precision * ROUNDING for width in widths) else MeasurementEnd.WIDTH
    if taken_count < limit:
        return None
    return MeasurementEnd.TURNS if limit >= turn_limit else MeasurementEnd.BUDGET


def target(precision: float, bias: float) -> float:
    """How narrow turns have to make the interval. Once their part is half of the bias, more turns narrow the whole by less than 11 %."""
    return math.sqrt(max(precision**2 - bias**2, (bias / 2) ** 2))


def sampled_half_width(logs: Sequence[float], allowance: LookAllowance) -> float:
    """Half of the interval of the mean of turns that were taken one after the other."""
    plain = statistics.stdev(logs) * quantile(len(logs), allowance) / math.sqrt(len(logs))
    return plain if allowance is LookAllowance.NONE else plain * math.sqrt(inflation(logs))


def quantile(count: int, allowance: LookAllowance) -> float:
    """By how many standard errors the mean of count turns may miss."""
    factor, miss_share = MISSES[allowance]
    return factor * t_quantile(count - 1, miss_share)


def inflation(logs: Sequence[float]) -> float:
    """How much larger the variance of the mean is than that of independent turns, from the correlation of one turn with the next.

    1/n undoes that estimate's bias in a small sample. A negative correlation is not believed.
    """
    mean = statistics.fmean(logs)
    apart = [log - mean for log in logs]
    scatter = sum(distance * distance for distance in apart)
    if scatter == 0:
        return 1.0
    lagged = sum(distance * following for distance, following in itertools.pairwise(apart)) / scatter + 1 / len(logs)
    share = min(max(lagged, 0.0), DEPENDENCE_LIMIT)
    return min((1 + share) / (1 - share), INFLATION_LIMIT)


@lru_cache(maxsize=256)
def t_quantile(freedom: int, miss_share: float) -> float:
    """Return the value that Student's t exceeds with this probability; infinite without a degree of freedom."""
    if freedom < 1:
        return math.inf
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < 1 - 2 * miss_share else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that |t| < sqrt(freedom) tan(angle) (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    cosine = math.cos(angle)
    term = total = cosine if freedom % 2 else 1.0
    for order in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cosine * cosine * (order - 1) / order
        total += term
    if freedom % 2 == 0:
        return math.sin(angle) * total
    return 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))


def steady(values: Sequence[float]) -> float:
    """The mean, to which no value is further than REACH from that of the lower half but its lowest tenth: a host only ever adds to a time,
    and now and then takes away from the protocol. All places in a train are in it alike. A value that rises never lowers it."""
    ordered = sorted(values)
    lower = statistics.fmean(ordered[len(ordered) // 10 : (len(ordered) + 1) // 2])
    reach_ns = max(REACH_NS, REACH_SHARE * lower)
    begin, end = bisect_left(ordered, lower - reach_ns), bisect_right(ordered, lower + reach_ns)
    return statistics.fmean([lower - reach_ns] * begin + ordered[begin:end] + [lower + reach_ns] * (len(ordered) - end))


def interval_width(
    subject_ns: Sequence[float], baseline_ns: Sequence[float], bias: Bias = Bias(), allowance: LookAllowance = LookAllowance.NONE
) -> HalfWidth | None:
    """Half of the 95 % interval of the logarithm of the turns' mean ratio. None where a turn of either is at or below the protocol's floor:
    a time that small is no time, and fails closed."""
    if len(subject_ns) < 2 or min(*subject_ns, *baseline_ns) <= 0:
        return None
    shorter_ns, longer_ns = sorted((statistics.fmean(subject_ns), statistics.fmean(baseline_ns)))
    return HalfWidth(
        sampled=sampled_half_width(log_ratios(subject_ns, baseline_ns), allowance),
        bias=math.hypot(bias.apart_ns / shorter_ns, bias.apart_share, bias.common_ns / shorter_ns - bias.common_ns / longer_ns),
    )


def log_ratios(subject_ns: Sequence[float], baseline_ns: Sequence[float]) -> list[float]:
    """By how much the baseline takes longer, turn by turn."""
    return [math.log(theirs / ours) for ours, theirs in zip(subject_ns, baseline_ns, strict=True)]


def speedup(baseline: str, subject_ns: Sequence[float], baseline_ns: Sequence[float], width: HalfWidth | None) -> tuple[wire.Speedup, ...]:
    """The geometric mean of the turns' ratios with a 95 % interval of their logarithms (Student's t), as wide as `interval_width` says.

    () where there is no width, or where the interval spans more than RESOLVED_FACTOR.
    """
    if width is None or 2 * width.total > math.log(wire.RESOLVED_FACTOR):
        return ()
    mean = statistics.fmean(log_ratios(subject_ns, baseline_ns))
    low, high = math.exp(mean - width.total), math.exp(mean + width.total)
    return (wire.Speedup(baseline=baseline, ratio=math.exp(mean), ratio_low=low, ratio_high=high),)


class NoiseKind(Enum):
    """How null runs show that somebody kept device or host busy: they scatter, or are slower in most turns than they were alone; or the
    subject's own are slower in most turns than is believed."""

    NONE = "none"
    SLOWER = "slower"
    SCATTER = "scatter"
    OWN = "own"


def undisturbed_count(own_nulls: Sequence[Sequence[float]], trusted_nulls: Sequence[Sequence[float]], alone_ns: float) -> int:
    """Count the turns in which the subject's null runs took no longer than the trusted runner's and a little: in the others something
    slowed its process, or it lies, and what is subtracted there is too little."""
    return sum(
        steady(ours) <= min(steady(trusted), alone_ns + NULL_SLACK_NS) + QUIET_SLACK_NS
        for ours, trusted in zip(own_nulls, trusted_nulls, strict=True)
    )


def classify_noise(turns: Sequence[Sequence[float]], alone_ns: float) -> NoiseKind:
    """Classify the trusted runner's null runs while there is a subject; one of them that took long says nothing."""
    ordered = sorted(duration_ns for turn in turns for duration_ns in turn)
    if ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4] > SCATTER_NS:
        return NoiseKind.SCATTER
    return NoiseKind.SLOWER if statistics.median(steady(turn) for turn in turns) > alone_ns + NULL_SLACK_NS else NoiseKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class NetTiming:
    """Times less protocol overhead. certified: the subject's. look: decides whether more turns are taken; quiet where in three quarters of
    the turns its null runs took as long as is believed."""

    unrest: NoiseKind
    certified: wire.Samples
    baselines: dict[str, BaselineTimes]
    speedups: tuple[wire.Speedup, ...]
    look: InterimEstimate


def subtract_overhead(parties: TimingSetup, times: Times, nulls: Mapping[bool, list[int]], floor_ns: int) -> NetTiming:
    """Subtract the protocol. nulls: null runs before and after the turns, without and with the copy that returned outputs cost."""
    clock, subject_ns = parties.clock, times.taken_ns[SUBJECT]
    alone_ns, null_turns = steady(parties.alone.null_ns[parties.copies]), trusted_nulls(parties, times)
    unrest = NoiseKind.NONE if clock is wire.Clock.HOST else classify_noise(null_turns, alone_ns)
    own_ns = overhead_allowance(parties, times, nulls[parties.copies], unrest)
    # By the host's clock the subject is held to the floor: what its noise gives to the quotient it takes from the subject.
    less_ns = [float(floor_ns)] * len(subject_ns) if clock is wire.Clock.HOST else own_ns
    own_nulls = times.taken_ns.get(OWN_NULL, [])
    quiet = undisturbed_count(own_nulls, nearby(null_turns), alone_ns) >= QUIET_SHARE * len(own_nulls)
    if not quiet and unrest is NoiseKind.NONE:
        unrest = NoiseKind.OWN
    values_ns = [steady(turn) - less for turn, less in zip(subject_ns, less_ns, strict=True)]
    baselines = baseline_times(parties, times, nulls[True])
    # By how much one process does nothing more quickly than the other.
    pairs = zip(own_nulls, null_turns, strict=True) if own_nulls else [((0,), (0,))]
    apart_ns = abs(statistics.fmean(steady(ours) - steady(theirs) for ours, theirs in pairs))
    bias = replace(BIAS[clock], apart_ns=math.hypot(BIAS[clock].apart_ns, max(0.0, apart_ns - APART_NS)))
    speedups, widths = list[wire.Speedup](), list[HalfWidth | None]()
    for name, baseline in baselines.items():
        widths.append(interval_width(values_ns, baseline.turns_ns, bias, times.allowance))
        speedups += speedup(name, values_ns, baseline.turns_ns, widths[-1])
    return NetTiming(
        unrest=unrest,
        certified=_samples(subject_ns, own_ns),
        baselines=baselines,
        speedups=tuple(speedups),
        look=InterimEstimate(quiet=quiet, widths=widths),
    )


def _samples(turns: Sequence[Sequence[int]], less_ns: Sequence[float]) -> wire.Samples:
    """All runs, less what the protocol took in their turn."""
    return wire.Samples(durations_ns=tuple(round(run_ns - less) for turn, less in zip(turns, less_ns, strict=True) for run_ns in turn))


def nearby(turns: Sequence[Sequence[float]]) -> list[list[float]]:
    """For each turn the runs of it and of the turns before and after it. A turn has few null runs, and what the protocol costs drifts
    slowly."""
    return [[run_ns for turn in turns[max(0, index - 1) : index + 2] for run_ns in turn] for index in range(len(turns))]


def least_by_own_nulls(parties: TimingSetup, times: Times) -> int:
    """The subject's shortest run less its own null runs, in nanoseconds and whatever they took.

    Where scalars are late the launch is inside the clock, and on a host whose cores are busy it takes a box 100 us longer than the trusted
    runner, in every run. No score forgives that, but a claim that it explains is no lie. A kernel that slows its null runs in order to lie
    has a claim that is not confirmed, and no better score.
    """
    slow_ns = statistics.median(max(turn) for turn in times.taken_ns[OWN_NULL])
    return round(min(times.flat(SUBJECT)) - slow_ns + parties.null_work_ns)


def trusted_nulls(parties: TimingSetup, times: Times) -> list[list[float]]:
    """The trusted runner's null runs next to the subject, less the copy that the subject's do not make."""
    return [[run_ns - parties.copy_ns for run_ns in turn] for turn in times.taken_ns.get(NULL[True], [])]


def overhead_allowance(parties: TimingSetup, times: Times, nulls: list[int], unrest: NoiseKind) -> list[float]:
    """Return the part of the protocol's time that the subject is forgiven in each turn: its own null runs' but for the null kernel's own
    time, and no more than the trusted runner's and a little. Not what it made longer by keeping the machine busy: neither in any turn by
    more than a little, nor at all where that was in most turns; and the least of all runs where they scatter."""
    alone, count = parties.alone.null_ns[parties.copies], len(times.taken_ns[SUBJECT])
    if parties.clock is wire.Clock.HOST:
        return [min(float(statistics.median(nulls)), float(statistics.median(alone)))] * count
    turns = trusted_nulls(parties, times)
    if unrest is NoiseKind.SCATTER:
        return [min(*alone, *(run_ns for turn in turns for run_ns in turn)) - parties.null_work_ns] * count
    slack_ns = NULL_SLACK_NS if unrest is NoiseKind.NONE else 0
    limits = [min(steady(runs_ns), steady(alone) + slack_ns) for runs_ns in nearby(turns)]
    subject_ns = [steady(runs_ns) for runs_ns in nearby(times.taken_ns.get(OWN_NULL, []))] or limits
    believed = [min(ours, theirs + OWN_SLACK_NS) for ours, theirs in zip(subject_ns, limits, strict=True)]
    return [allowance_ns - parties.null_work_ns for allowance_ns in believed]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTimes:
    """A baseline, less the protocol: all runs, a value per turn, and whether it had to be held back."""

    samples: wire.Samples
    turns_ns: list[float]
    slowed: bool


def baseline_times(parties: TimingSetup, times: Times, nulls: list[int]) -> dict[str, BaselineTimes]:
    """Every baseline that ran."""
    of = _by_host_clock if parties.clock is wire.Clock.HOST else _by_device_clock
    return {name: of(parties, times, nulls, name) for name in parties.alone.run_ns}


def _by_device_clock(parties: TimingSetup, times: Times, _: list[int], name: str) -> BaselineTimes:
    """Net of the null runs nearby, and turn by turn: a gross time is mostly the protocol, in which a slowed baseline would not show. A
    turn that was slowed counts as alone."""
    alone_ns = _alone_ns(parties, name)
    most_ns = FACTOR[parties.clock] * alone_ns + SLACK_NS[parties.clock]
    turns, nulls = times.taken_ns[name], times.taken_ns[NULL[True]]
    protocol_ns = [steady(runs_ns) - parties.alone.null_work_ns.get(True, 0.0) for runs_ns in nearby(nulls)]
    nets = [steady(turn) - less for turn, less in zip(turns, protocol_ns, strict=True)]
    slow_count = sum(net > most_ns for net in nets)
    return BaselineTimes(
        samples=_samples(turns, protocol_ns),
        turns_ns=[alone_ns if net > most_ns else net for net in nets],
        slowed=slow_count > SHARE * len(nets),
    )


def outdated(parties: TimingSetup, measurement: wire.Measurement) -> bool:
    """Return whether times alone that were kept from an earlier job do not fit this measurement: next to the subject a baseline was faster
    or slower than they are, or doing nothing took another time. Who made it so does not matter: new times are needed to tell. By the host's
    clock short runs are held back as slowed on any day, and say nothing."""
    slack_ns = SLACK_NS[parties.clock]
    faster = any(
        FACTOR[parties.clock] * (statistics.median(samples.durations_ns) + slack_ns) < _alone_ns(parties, name)
        for name, samples in measurement.baselines.items()
    )
    longest_ns = max((statistics.median(runs_ns) for runs_ns in parties.alone.run_ns.values()), default=0.0)
    telling = parties.clock is wire.Clock.DEVICE_EVENTS or longest_ns > slack_ns
    return faster or measurement.disturbed or (telling and measurement.baseline_slowed)


def _alone_ns(parties: TimingSetup, name: str) -> float:
    """A baseline's time alone, less the protocol's."""
    run_ns, null_ns = parties.alone.run_ns[name], parties.alone.null_ns[True]
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        return max(0.0, steady(run_ns) - steady(null_ns) + parties.alone.null_work_ns.get(True, 0.0))
    return statistics.median(run_ns) - statistics.median(null_ns)


def _by_host_clock(parties: TimingSetup, times: Times, nulls: list[int], name: str) -> BaselineTimes:
    """The time alone instead, where the median is far above it, or the subject's box was busy meanwhile."""
    alone_ns = statistics.median(parties.alone.run_ns[name])
    null_ns = min(statistics.median(nulls), statistics.median(parties.alone.null_ns[True]))
    busy = parties.load is not None and parties.load.busy(name)
    slowed = busy or statistics.median(times.flat(name)) > FACTOR[parties.clock] * alone_ns
    turns = [[int(alone_ns)] * len(turn) for turn in times.taken_ns[name]] if slowed else times.taken_ns[name]
    return BaselineTimes(
        samples=_samples(turns, [null_ns] * len(turns)), turns_ns=[steady(turn) - null_ns for turn in turns], slowed=slowed
    )


def physical_floor_ns(
    moved_bytes: int | None, flops: int | None, dtypes: Collection[str], written_bytes: int, ceilings: Mapping[str, float]
) -> int | None:
    """Nine tenths of the longer of both: moving the declared bytes, doing the declared arithmetic. None where nothing is known.

    An output may still lie in the cache when the kernel ends, so as much as fits there is not counted.
    """
    times_s = []
    if moved_bytes is not None and ceilings.get(BYTES):
        through_memory = moved_bytes - min(written_bytes, int(ceilings.get(CACHE, 0)))
        times_s.append(max(0, through_memory) / ceilings[BYTES])
    # Not by float8: next to float4, whose rate is not measured, it would make a floor that a good kernel falls under.
    named = [name for dtype in dtypes for name in (dtype, *NARROWER.get(dtype, ())) if name != FLOAT8]
    rate = max((ceilings.get(FLOPS + dtype, 0.0) for dtype in named), default=0.0)
    if flops is not None and rate:
        times_s.append(flops / rate)
    return round(FLOOR_SHARE * max(times_s) * 1e9) if times_s else None
