"""Times less the protocol: what a subject is forgiven, and what speedup is left (docs/decisions/0014).  Pure.

The baselines' times next to a subject are held to what they took alone: slowing PyTorch must not make a kernel look fast (cheating F2).
Times alone that an earlier job took are held to the baselines' times next to the subject, too.
`python -m tests.gpu.clock_records` applies this to times that were recorded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sandbox.judge.timing.interleaved import NULL, OWN_NULL, QUIET_SHARE, SUBJECT, Times, TimingSetup
from sandbox.judge.timing.stopping import (
    NULL_SLACK_NS,
    OWN_SLACK_NS,
    Bias,
    HalfWidth,
    InterimEstimate,
    NoiseKind,
    classify_noise,
    interval_width,
    speedup,
    steady,
    undisturbed_count,
)
from sandbox.protocol import wire

# By how much two processes that do the same differ, however long they are timed: from gradings of a kernel against itself (record 0014).
# Both alike: by how much what the probe says of the protocol is off.
BIAS = {wire.Clock.DEVICE_EVENTS: Bias(apart_ns=400.0, apart_share=0.002, common_ns=700.0), wire.Clock.HOST: Bias()}
APART_NS = 1_500.0  # where null runs of the two are further apart than this, one is slower than its null runs say, by about as much
# How much slower than alone a baseline may run next to an idle subject before that is the subject's doing.
FACTOR = {wire.Clock.DEVICE_EVENTS: 1.05, wire.Clock.HOST: 2.0}
SLACK_NS = {wire.Clock.DEVICE_EVENTS: 3_000.0, wire.Clock.HOST: 5_000_000.0}  # for the shortest
SHARE = 0.25  # of the turns


@dataclass(frozen=True, slots=True, kw_only=True)
class NetTiming:
    """Times less protocol overhead. certified: the subject's. quiet: in three quarters of the turns its null runs took as long as is
    believed. widths: of the baselines' intervals."""

    unrest: NoiseKind
    certified: wire.Samples
    baselines: dict[str, BaselineTimes]
    speedups: tuple[wire.Speedup, ...]
    quiet: bool
    widths: tuple[HalfWidth | None, ...]

    @property
    def look(self) -> InterimEstimate:
        """The estimate that decides whether more turns are taken."""
        return InterimEstimate(quiet=self.quiet, widths=self.widths)


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
        speedups += speedup(name, values_ns, baseline.turns_ns, bias, times.allowance)
    return NetTiming(
        unrest=unrest,
        certified=wire.Samples(
            durations_ns=tuple(
                round(run_ns - less - scatter_ns(null_turns)) for turn, less in zip(subject_ns, own_ns, strict=True) for run_ns in turn
            )
        ),
        baselines=baselines,
        speedups=tuple(speedups),
        quiet=quiet,
        widths=tuple(widths),
    )


def scatter_ns(nulls: Sequence[Sequence[float]]) -> float:
    """Return by how much the median of a turn's runs is above their steady mean: what is subtracted is a mean of the lower half, and what
    is shown is a median. 0 without runs; no more than a subject that makes them scatter is believed anyway."""
    return min(statistics.median(statistics.median(turn) - steady(turn) for turn in nulls), OWN_SLACK_NS) if nulls else 0.0


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
        samples=wire.Samples(
            durations_ns=tuple(
                round(run_ns - less - scatter_ns(nulls)) for turn, less in zip(turns, protocol_ns, strict=True) for run_ns in turn
            )
        ),
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
        samples=wire.Samples(durations_ns=tuple(round(duration_ns - null_ns) for turn in turns for duration_ns in turn)),
        turns_ns=[steady(turn) - null_ns for turn in turns],
        slowed=slowed,
    )
