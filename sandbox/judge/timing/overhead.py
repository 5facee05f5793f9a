"""Times less the protocol: what a subject is forgiven, which turns count, and what speedup is left (docs/decisions/0014).  Pure.

The baselines' times next to a subject are held to what they took alone: slowing PyTorch must not make a kernel look fast (cheating F2).
Times alone that an earlier job took are held to the baselines' times next to the subject, too.
`python -m tests.gpu.clock_records` applies this to times that were recorded.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sandbox.judge.timing.interleaved import NULL, OWN_NULL, QUIET_SHARE, SUBJECT, Times, TimingSetup
from sandbox.judge.timing.stopping import (
    NULL_SLACK_NS,
    OWN_SLACK_NS,
    HalfWidth,
    InterimEstimate,
    LookAllowance,
    NoiseKind,
    classify_noise,
    interval_width,
    quantile,
    speedup,
    steady,
    undisturbed_rounds,
)
from sandbox.protocol import wire

# By how much two processes that do the same differ, however long they are timed: from gradings of a kernel against itself (record 0014).
BIAS_NS = {wire.Clock.DEVICE_EVENTS: 400.0, wire.Clock.HOST: 0.0}
BIAS_SHARE = {wire.Clock.DEVICE_EVENTS: 0.002, wire.Clock.HOST: 0.0}
APART_NS = 1_500.0  # where null runs of the two are further apart than this, one is slower than its null runs say, by about as much
# How much slower than alone a baseline may run next to an idle subject before that is the subject's doing.
FACTOR = {wire.Clock.DEVICE_EVENTS: 1.05, wire.Clock.HOST: 2.0}
SLACK_NS = {wire.Clock.DEVICE_EVENTS: 3_000.0, wire.Clock.HOST: 5_000_000.0}  # for the shortest
SHARE = 0.25  # of the turns


@dataclass(frozen=True, slots=True, kw_only=True)
class NetTiming:
    """Times less protocol overhead. certified: the subject's, of the turns that count. quiet_count: of these turns; 0 where so many were
    not quiet that all count. widths: of the baselines' intervals."""

    unrest: NoiseKind
    certified: wire.Samples
    baselines: dict[str, BaselineTimes]
    speedups: tuple[wire.Speedup, ...]
    quiet_count: int
    widths: tuple[HalfWidth | None, ...]

    @property
    def look(self) -> InterimEstimate:
        """The estimate that decides whether more turns are taken."""
        return InterimEstimate(quiet_count=self.quiet_count, widths=self.widths)


def subtract_overhead(parties: TimingSetup, times: Times, nulls: Mapping[bool, list[int]], floor_ns: int) -> NetTiming:
    """Subtract the protocol. nulls: null runs before and after the turns, without and with the copy that returned outputs cost."""
    clock, subject_ns = parties.clock, times.taken_ns[SUBJECT]
    alone_ns, null_turns = steady(parties.alone.null_ns[parties.copies]), times.taken_ns.get(NULL[parties.copies], [])
    unrest = NoiseKind.NONE if clock is wire.Clock.HOST else classify_noise(null_turns, alone_ns)
    own_ns = overhead_allowance(parties, times, nulls[parties.copies], unrest)
    # By the host's clock the subject is held to the floor: what its noise gives to the quotient it takes from the subject.
    less_ns = [float(floor_ns)] * len(subject_ns) if clock is wire.Clock.HOST else own_ns
    own_nulls = times.taken_ns.get(OWN_NULL, [])
    quiet = counting = _counting(own_nulls, null_turns, alone_ns)
    if not counting:
        counting = list(range(len(subject_ns)))
        unrest = NoiseKind.OWN if own_nulls and unrest is NoiseKind.NONE else unrest
    values_ns = [steady(turn) - less for turn, less in zip(subject_ns, less_ns, strict=True)]
    baselines = baseline_times(parties, times, nulls[True])
    # By how much one process does nothing more quickly than the other.
    apart_ns = abs(statistics.fmean(steady(own_nulls[turn]) - steady(null_turns[turn]) for turn in counting)) if own_nulls else 0.0
    bias_ns = math.hypot(BIAS_NS[clock], max(0.0, apart_ns - APART_NS))
    speedups, widths = list[wire.Speedup](), list[HalfWidth | None]()
    for name, baseline in baselines.items():
        pair = [values_ns[turn] for turn in counting], [baseline.turns_ns[turn] for turn in counting]
        widths.append(interval_width(*pair, bias_ns=bias_ns, bias_share=BIAS_SHARE[clock], allowance=times.allowance))
        chosen = selection_allowance(values_ns, baseline.turns_ns, counting, times.allowance)
        speedups += speedup(name, *pair, bias_ns=bias_ns, bias_share=BIAS_SHARE[clock], allowance=times.allowance, selection=chosen)
    return NetTiming(
        unrest=unrest,
        certified=wire.Samples(durations_ns=tuple(round(run_ns - own_ns[turn]) for turn in counting for run_ns in subject_ns[turn])),
        baselines=baselines,
        speedups=tuple(speedups),
        quiet_count=len(quiet),
        widths=tuple(widths),
    )


def _counting(own_nulls: Sequence[Sequence[int]], trusted_nulls: Sequence[Sequence[int]], alone_ns: float) -> list[int]:
    """The quiet turns; none where these are fewer than three quarters of the turns taken. A subject decides by its own null runs which
    turns are quiet: with 9 of 24 to choose, equal kernels win in 42 % of gradings that scatter by 4 %."""
    quiet = undisturbed_rounds(own_nulls, trusted_nulls, alone_ns)
    return quiet if len(quiet) >= QUIET_SHARE * len(own_nulls) else []


def selection_allowance(
    subject_ns: Sequence[float], baseline_ns: Sequence[float], counting: Sequence[int], looks: LookAllowance = LookAllowance.NONE
) -> float:
    """Return what the choice of the turns that count may have added to the lower bound, in units of the logarithm; 0 where all count.

    The best turns, a share p of all, have a mean that is higher by s * phi(z) / p, with z = Phi^-1(1 - p) and s the standard deviation of
    all turns: the mean of a truncated normal distribution (Johnson, Kotz and Balakrishnan, Continuous Univariate Distributions 1,
    13.10.1). They also scatter less than all do, so that their interval is too narrow; it is widened to that of all.
    """
    logs = {turn: math.log(baseline_ns[turn] / ours) for turn, ours in enumerate(subject_ns) if min(ours, baseline_ns[turn]) > 0}
    chosen = [logs[turn] for turn in counting if turn in logs]
    if len(counting) >= len(subject_ns) or len(chosen) < 2:
        return 0.0
    share, scatter, normal = len(counting) / len(subject_ns), statistics.stdev(logs.values()), statistics.NormalDist()
    narrower = max(0.0, scatter - statistics.stdev(chosen))
    widened = narrower * quantile(len(chosen), looks) / math.sqrt(len(chosen))
    return scatter * normal.pdf(normal.inv_cdf(1 - share)) / share + widened


def least_by_own_nulls(parties: TimingSetup, times: Times) -> int:
    """The subject's shortest run less its own null runs, in nanoseconds and whatever they took.

    Where scalars are late the launch is inside the clock, and on a host whose cores are busy it takes a box 100 us longer than the trusted
    runner, in every run. No score forgives that, but a claim that it explains is no lie. A kernel that slows its null runs in order to lie
    has a claim that is not confirmed, and no better score.
    """
    slow_ns = statistics.median(max(turn) for turn in times.taken_ns[OWN_NULL])
    return round(min(times.flat(SUBJECT)) - slow_ns + parties.launch_ns)


def overhead_allowance(parties: TimingSetup, times: Times, nulls: list[int], unrest: NoiseKind) -> list[float]:
    """Return the part of the protocol's time that the subject is forgiven in each turn: its own null runs' but for the null kernel's own
    time, and no more than the trusted runner's and a little. Not what it made longer by keeping the machine busy: neither in any turn by
    more than a little, nor at all where that was in most turns; and the least of all runs where they scatter."""
    alone = parties.alone.null_ns[parties.copies]
    if parties.clock is wire.Clock.HOST:
        return [min(float(statistics.median(nulls)), float(statistics.median(alone)))] * len(times.taken_ns[SUBJECT])
    turns = times.taken_ns[NULL[parties.copies]]
    if unrest is NoiseKind.SCATTER:
        return [min(*alone, *(duration_ns for turn in turns for duration_ns in turn)) - parties.launch_ns] * len(turns)
    slack_ns = NULL_SLACK_NS if unrest is NoiseKind.NONE else 0
    limits = [min(steady(turn), steady(alone) + slack_ns) for turn in turns]
    own_ns = [steady(turn) for turn in times.taken_ns.get(OWN_NULL, [])] or limits
    believed = [min(ours, theirs + OWN_SLACK_NS) for ours, theirs in zip(own_ns, limits, strict=True)]
    return [allowance_ns - parties.launch_ns for allowance_ns in believed]


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
    """Net of the turn's own null runs, and turn by turn: a gross time is mostly the protocol, in which a slowed baseline would not show.
    A turn that was slowed counts as alone."""
    alone_ns = _alone_ns(parties, name)
    most_ns = FACTOR[parties.clock] * alone_ns + SLACK_NS[parties.clock]
    turns = list(zip(times.taken_ns[name], times.taken_ns[NULL[True]], strict=True))
    protocol_ns = [steady(null) - parties.launch_ns for _, null in turns]
    nets = [steady(turn_ns) - less for (turn_ns, _), less in zip(turns, protocol_ns, strict=True)]
    slow_count = sum(net > most_ns for net in nets)
    return BaselineTimes(
        samples=wire.Samples(
            durations_ns=tuple(round(run_ns - less) for (turn_ns, _), less in zip(turns, protocol_ns, strict=True) for run_ns in turn_ns)
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
        return max(0.0, steady(run_ns) - steady(null_ns) + parties.launch_ns)
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
