"""What the judge's clock says of a kernel (DESIGN section 4): certified time and bound, speedup with an interval, the claim beside them.

How it is taken is in `turns.py`; why it is taken so, in docs/decisions/0008 and 0014.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from sandbox import wire
from sandbox.gate import Answer, Call, Operation
from sandbox.judge.batch import Batch, time_batches
from sandbox.judge.record import record
from sandbox.judge.runner_link import RunnerLink
from sandbox.judge.slowed import baseline_times
from sandbox.judge.speedup import speedup, steady
from sandbox.judge.trial import Bench, How, run
from sandbox.judge.turns import BASELINE_S, NULL, OWN_NULL, PASSED, SUBJECT, VARIANTS, Parties, Times, null_runs, take_turns

NULL_SLACK_NS = 5_000
OWN_SLACK_NS = 2_000  # what the subject's process may cost more than the trusted one by its own word: less than a lie is worth
SCATTER_NS = 15_000  # on a quiet device the middle half of the null runs lies within 3 to 6 us
# A runner that says `done` when its work has ended leaves nothing to wait for when the outputs are read.
EARLY_NS, EARLY_SHARE = 10_000, 0.1
BENCH_NS = {wire.Clock.DEVICE_EVENTS: 100_000_000, wire.Clock.HOST: 400_000_000}  # do_bench's own default on a device
BENCH_S, BENCH_LAUNCHES = 10.0, 12
# By how much two processes that do the same differ, however long they are timed: from the A/A table of docs/measurements.
BIAS_NS = {wire.Clock.DEVICE_EVENTS: 400.0, wire.Clock.HOST: 0.0}
BIAS_SHARE = {wire.Clock.DEVICE_EVENTS: 0.002, wire.Clock.HOST: 0.0}


class Unrest(Enum):
    """How null runs show that somebody kept device or host busy: they scatter, or are slower in most turns than they were alone."""

    NONE = "none"
    SLOWER = "slower"
    SCATTER = "scatter"


def measure(parties: Parties, bench: Bench, own: Bench, physical_floor_ns: int | None) -> Iterator[wire.Fact]:
    """Emit trials for all certified runs, and the measurement at the end; end early after a trial that failed. own: the baselines'."""
    trusted, clock = parties.trusted, parties.clock
    nulls = {copies: null_runs(trusted, own, copies=copies) for copies in {True, parties.copies}}
    floors = [*parties.alone.floor_ns, *null_runs(trusted, own, floor=True)]
    times = Times()
    for fact in take_turns(parties, bench, own, times):
        yield fact
        if isinstance(fact, wire.Trial) and fact.outcome is not PASSED:
            return
    batch = _batches(parties, bench, own, times, nulls[parties.copies])
    if isinstance(batch, wire.Trial):
        yield batch
        return
    patient = How(limit_s=BASELINE_S + bench.problem.trial_s)
    reported = {name: _reported(trusted, own, replace(patient, variant=VARIANTS[name])) for name in parties.alone.run_ns}
    claim = _reported(parties.subject, bench, How(), statistics.median(times.flat(SUBJECT)))
    for copies, taken in nulls.items():
        taken += null_runs(trusted, own, copies=copies)
    floors += null_runs(trusted, own, floor=True)
    measurement = _measurement(parties, bench, times, nulls, floors)
    record(parties, bench, times)
    throttled = {"throttle_reasons": ",".join(sorted(times.throttle_reasons))} if times.throttle_reasons else {}
    yield replace(
        measurement,
        batch=None if batch is None else batch.times,
        batch_size=0 if batch is None else batch.size,
        reported=claim,
        reported_baselines={name: samples for name, samples in reported.items() if samples is not None},
        reported_confirmed=claim is not None and confirmed(claim, measurement.certified, clock),
        physical_floor_ns=physical_floor_ns,
        conditions=parties.subject.device.conditions() | throttled,
    )


def _batches(parties: Parties, bench: Bench, own: Bench, times: Times, nulls: list[int]) -> Batch | wire.Trial | None:
    if parties.clock is wire.Clock.HOST:
        return None
    estimate_ns = int(statistics.median(times.flat(SUBJECT)) - statistics.median(nulls))
    return time_batches(parties.subject, parties.trusted, bench, own, estimate_ns, copies=parties.copies)


def _measurement(parties: Parties, bench: Bench, times: Times, nulls: Mapping[bool, list[int]], floors: list[int]) -> wire.Measurement:
    clock, subject_ns = parties.clock, times.taken_ns[SUBJECT]
    null_ns = min(one for copies, taken in nulls.items() for one in (*taken, *times.flat(NULL[copies])))
    floor_ns = min([*floors, round(null_ns - parties.launch_ns)])
    alone_ns, null_turns = parties.alone.null_ns[parties.copies], times.taken_ns.get(NULL[parties.copies], [])
    unrest = Unrest.NONE if clock is wire.Clock.HOST else unrest_of(null_turns, steady(alone_ns))
    own_ns = _forgiven(parties, times, nulls[parties.copies], unrest)
    waited_ns = 0.0 if clock is wire.Clock.HOST else steady(times.read_ns[SUBJECT]) - parties.alone.read_ns
    early = is_early(waited_ns, parties.alone.read_ns)
    if early:
        own_ns = [float(floor_ns)] * len(subject_ns)  # the least that the protocol costs a runner that does not wait
    # By the host's clock the subject is held to the floor: what its noise gives to the quotient it takes from the subject.
    less_ns = [float(floor_ns)] * len(subject_ns) if clock is wire.Clock.HOST else own_ns
    baselines = baseline_times(parties, times, nulls[True])
    kept = quiet_turns(times.taken_ns[OWN_NULL], null_turns, steady(alone_ns)) if OWN_NULL in times.taken_ns else range(len(subject_ns))
    values_ns = _values(subject_ns, less_ns)
    return wire.Measurement(
        workload_id=bench.workload.workload_id,
        hidden=bench.workload.hidden,
        clock=clock,
        certified=_samples([subject_ns[turn] for turn in kept], [own_ns[turn] for turn in kept]),
        bound_ns=int(statistics.median(times.flat(SUBJECT))) - floor_ns,
        floor_ns=floor_ns,
        waited_ns=round(waited_ns),
        done_early=early,
        disturbed=unrest is not Unrest.NONE,
        baseline_slowed=any(one.slowed for one in baselines.values()),
        baselines={name: one.samples for name, one in baselines.items()},
        speedups=tuple(
            found
            for name, one in baselines.items()
            for found in speedup(
                name,
                [values_ns[turn] for turn in kept],
                [one.turns_ns[turn] for turn in kept],
                bias_ns=BIAS_NS[clock],
                bias_share=BIAS_SHARE[clock],
            )
        ),
        moved_bytes=bench.workload.moved_bytes,
        flops=bench.workload.flops,
    )


def confirmed(reported: wire.Samples, certified: wire.Samples, clock: wire.Clock) -> bool:
    """Whether the claim agrees with the judge's clock: within max(15 us, 5 %) by device clock; the host's clock of a shared machine,
    where kernel and judge compete for cores, is given max(5 ms, 60 %)."""
    claim, seen = statistics.median(reported.durations_ns), statistics.median(certified.durations_ns)
    slack = max(15_000, 0.05 * seen) if clock is wire.Clock.DEVICE_EVENTS else max(5_000_000, 0.6 * seen)
    return abs(seen - claim) <= slack


def is_early(waited_ns: float, alone_ns: float) -> bool:
    """Whether reading the outputs took so much longer than after an eager run while there was no subject that work was left."""
    return waited_ns > EARLY_NS + EARLY_SHARE * alone_ns


def _forgiven(parties: Parties, times: Times, nulls: list[int], unrest: Unrest) -> list[float]:
    """What the subject is forgiven of the protocol's time in each turn: its own null runs' but for the null kernel's own time, and no more
    than the trusted runner's and a little. Not what it made longer by keeping the machine busy: neither in any turn by more than a little,
    nor at all where that was in most turns; and the least of all runs where they scatter."""
    alone = parties.alone.null_ns[parties.copies]
    if parties.clock is wire.Clock.HOST:
        return [min(float(statistics.median(nulls)), float(statistics.median(alone)))] * len(times.taken_ns[SUBJECT])
    turns = times.taken_ns[NULL[parties.copies]]
    if unrest is Unrest.SCATTER:
        return [min(*alone, *(one for turn in turns for one in turn)) - parties.launch_ns] * len(turns)
    slack_ns = NULL_SLACK_NS if unrest is Unrest.NONE else 0
    most = [min(steady(turn), steady(alone) + slack_ns) for turn in turns]
    own = [steady(turn) for turn in times.taken_ns.get(OWN_NULL, [])] or most
    return [min(ours, theirs + OWN_SLACK_NS) - parties.launch_ns for ours, theirs in zip(own, most, strict=True)]


def quiet_turns(own: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]], alone_ns: float) -> list[int]:
    """The turns in which the subject's null runs took no longer than it is believed: in the others something slowed its process, or it
    lies, and what is subtracted there is too little. All of them where these are fewer than half: nobody chooses a few good ones."""
    found = [
        number
        for number, (ours, other) in enumerate(zip(own, theirs, strict=True))
        if steady(ours) <= min(steady(other), alone_ns + NULL_SLACK_NS) + OWN_SLACK_NS
    ]
    return found if 2 * len(found) >= len(own) else list(range(len(own)))


def unrest_of(turns: Sequence[Sequence[int]], alone_ns: float) -> Unrest:
    """What the trusted runner's null runs say of the device while there is a subject; one of them that took long says nothing."""
    ordered = sorted(one for turn in turns for one in turn)
    if ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4] > SCATTER_NS:
        return Unrest.SCATTER
    return Unrest.SLOWER if statistics.median(steady(turn) for turn in turns) > alone_ns + NULL_SLACK_NS else Unrest.NONE


def _samples(turns: list[list[int]], less_ns: list[float]) -> wire.Samples:
    return wire.Samples(durations_ns=tuple(round(one - less) for turn, less in zip(turns, less_ns, strict=True) for one in turn))


def _values(turns: list[list[int]], less_ns: list[float]) -> list[float]:
    return [steady(turn) - less for turn, less in zip(turns, less_ns, strict=True)]


def _reported(runner: RunnerLink, bench: Bench, how: How, launch_ns: float | None = None) -> wire.Samples | None:
    """do_bench on inputs like all others, by the runner itself; the subject's is a claim. launch_ns: how long a launch takes, where that
    is known."""
    run(runner, bench, how)
    budget_ns, launch_s = BENCH_NS[runner.device.CLOCK], bench.problem.trial_s if launch_ns is None else 2e-9 * launch_ns
    # do_bench keeps its budget but for a handful of launches and cache writes; a runner that is slower than this is not coming back.
    reply = runner.call(Call(operation=Operation.BENCH, budget_ns=budget_ns), BENCH_S + BENCH_LAUNCHES * launch_s)
    if isinstance(reply, Answer) and reply.samples_ns and all(reply.samples_ns):
        return wire.Samples(durations_ns=reply.samples_ns)
    return None
