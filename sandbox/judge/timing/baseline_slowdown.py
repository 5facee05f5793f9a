"""The baselines' times next to a subject, held to what they took alone: slowing PyTorch must not make a kernel look fast (cheating F2).

Times alone that were kept from an earlier job are held to the baselines' times next to the subject, too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from sandbox.judge.timing.interleaved import NULL, Times, TimingSetup
from sandbox.judge.timing.speedup import steady
from sandbox.protocol import wire

# How much slower than alone a baseline may run next to an idle subject before that is the subject's doing.
FACTOR = {wire.Clock.DEVICE_EVENTS: 1.05, wire.Clock.HOST: 2.0}
SLACK_NS = {wire.Clock.DEVICE_EVENTS: 3_000.0, wire.Clock.HOST: 5_000_000.0}  # for the shortest
SHARE = 0.25  # of the turns


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineTimes:
    """One baseline, less the protocol: all runs, a value per turn, and whether it had to be held back."""

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
    alone_ns = _alone_by_device_clock(parties, name)
    most_ns = FACTOR[parties.clock] * alone_ns + SLACK_NS[parties.clock]
    turns = list(zip(times.taken_ns[name], times.taken_ns[NULL[True]], strict=True))
    protocol_ns = [steady(null) - parties.launch_ns for _, null in turns]
    nets = [steady(taken) - less for (taken, _), less in zip(turns, protocol_ns, strict=True)]
    held = sum(net > most_ns for net in nets)
    return BaselineTimes(
        samples=wire.Samples(
            durations_ns=tuple(round(one - less) for (taken, _), less in zip(turns, protocol_ns, strict=True) for one in taken)
        ),
        turns_ns=[alone_ns if net > most_ns else net for net in nets],
        slowed=held > SHARE * len(nets),
    )


def outdated(parties: TimingSetup, measurement: wire.Measurement) -> bool:
    """Whether times alone that were kept from an earlier job do not fit this measurement: next to the subject a baseline was faster or
    slower than they are, or doing nothing took another time. Who made it so does not matter: new times are needed to tell. By the host's
    clock short runs are held back as slowed on any day, and say nothing."""
    slack_ns = SLACK_NS[parties.clock]
    faster = any(
        FACTOR[parties.clock] * (statistics.median(seen.durations_ns) + slack_ns) < _alone_ns(parties, name)
        for name, seen in measurement.baselines.items()
    )
    longest_ns = max((statistics.median(taken) for taken in parties.alone.run_ns.values()), default=0.0)
    telling = parties.clock is wire.Clock.DEVICE_EVENTS or longest_ns > slack_ns
    return faster or measurement.disturbed or (telling and measurement.baseline_slowed)


def _alone_ns(parties: TimingSetup, name: str) -> float:
    """A baseline's time alone, less the protocol's."""
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        return _alone_by_device_clock(parties, name)
    return statistics.median(parties.alone.run_ns[name]) - statistics.median(parties.alone.null_ns[True])


def _alone_by_device_clock(parties: TimingSetup, name: str) -> float:
    return max(0.0, steady(parties.alone.run_ns[name]) - steady(parties.alone.null_ns[True]) + parties.launch_ns)


def _by_host_clock(parties: TimingSetup, times: Times, nulls: list[int], name: str) -> BaselineTimes:
    """The time alone instead, where the median is far above it, or the subject's box was busy meanwhile."""
    alone_ns = statistics.median(parties.alone.run_ns[name])
    null_ns = min(statistics.median(nulls), statistics.median(parties.alone.null_ns[True]))
    busy = parties.load is not None and parties.load.busy(name)
    slowed = busy or statistics.median(times.flat(name)) > FACTOR[parties.clock] * alone_ns
    turns = [[int(alone_ns)] * len(turn) for turn in times.taken_ns[name]] if slowed else times.taken_ns[name]
    return BaselineTimes(
        samples=wire.Samples(durations_ns=tuple(round(one - null_ns) for turn in turns for one in turn)),
        turns_ns=[steady(turn) - null_ns for turn in turns],
        slowed=slowed,
    )
