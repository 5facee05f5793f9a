"""The measurement of a workload: runs subject, baselines and null runs in the judge's clock, in turns, and records how long each took.

By device clock everyone has a train in an order and then in its reverse (ABBA), with null runs between them, so that a drift falls on all
alike. Turns, each of one ABBA, are what the interval is made of, since single runs are not independent (timing.md 2.2 and 3.5). What the
protocol costs is asked of the trusted runner: a subject that is slow at doing nothing would be forgiven time that it really took. The
subject's own null runs say how its process differs from the trusted one, and are believed where that takes time from it, or adds next to
none. Why times are taken so is in docs/decisions/0008 and 0014.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from sandbox.judge.baseline import (
    BENCH_NS,
    PASSED,
    Arm,
    Heartbeat,
    bench_baselines,
    bench_limit_s,
    bench_samples,
    null_runs,
    null_train,
    place_count,
    timed,
    train_length,
    warm_count,
)
from sandbox.judge.runner_link import RunnerLink
from sandbox.judge.timing import (
    LOOKS,
    NULL,
    OWN_NULL,
    SUBJECT,
    WARMUP_COUNT,
    InterimEstimate,
    LookAllowance,
    NetTiming,
    NoiseKind,
    Times,
    TimingSetup,
    end_of,
    least_by_own_nulls,
    subtract_overhead,
)
from sandbox.judge.trial import Run, RunOptions, WorkloadContext, judge_run, longest_train, run, run_train, scalars_are_late
from sandbox.protocol import wire

WARMUP_SHARE = 0.2  # of the budget: by the host's clock a kernel that takes longer is not warmed up again
PLANNED_SHARE = 0.8  # of the budget: runs may take longer than those before the first turn
# Turns, at least and at most; by the host's clock of one ABBA, and three where kernels take seconds.
TURN_LIMITS = {wire.Clock.HOST: (2, 8), wire.Clock.DEVICE_EVENTS: (3, LOOKS[-1])}
SLICE_NS = 500_000  # a quarter of a time slice of the device
NOTHING_SEEN = InterimEstimate(quiet=False, widths=())
CONFIRMED_SHARE = 0.5  # of the certified time: the least claim that it supports
BENCH_SHARE = 0.15  # of the budget, at most, for each do_bench by the host's clock
# By the host's clock, where the budget is shorter than this, there are fewer null runs next to the subject; those before it count then too.
SHORT_S, SHORT_NULL_COUNT = 2.0, 2
CLAIM_LAUNCHES = 4  # of the subject's do_bench, at least, unless that takes longer than usual
# By the host's clock, of a busy machine: runs that are added, at most, where each of the few before took longer than the claim by far.
ADDED_LIMIT, ADDED_S = 16, 3.0
HOST_SLACK_NS = 5_000_000
VARIABLE = "GRADER_CLOCK_RECORD"  # a directory; nothing is written where it is not set


def measure(
    parties: TimingSetup, bench: WorkloadContext, baseline_bench: WorkloadContext, physical_floor_ns: int | None
) -> Iterator[wire.Fact]:
    """Emit trials for all certified runs, and the measurement at the end; end early after a trial that failed. baseline_bench: the
    baselines'."""
    trusted, clock, begun_s = parties.trusted, parties.clock, time.monotonic()
    short = clock is wire.Clock.HOST and parties.budget_s < SHORT_S
    bench_budget_ns = BENCH_NS[clock]
    if clock is wire.Clock.HOST:
        bench_budget_ns = min(bench_budget_ns, round(BENCH_SHARE * parties.budget_s * 1e9))
    null_count = SHORT_NULL_COUNT if short else None

    def take_nulls(copies: bool) -> list[int]:
        """By device clock they are in the turns, and were taken before there was a subject."""
        return null_runs(trusted, baseline_bench, copies=copies, count=null_count) if clock is wire.Clock.HOST else []

    nulls = {copies: take_nulls(copies) for copies in {True, parties.copies}}
    floors = [*parties.alone.floor_ns, *(null_ns for runs_ns in parties.alone.null_ns.values() if short for null_ns in runs_ns)]
    times, signs = Times(), Heartbeat(wire.Stage.MEASURING, bench.workload.workload_id)

    def look() -> InterimEstimate:
        return _subtracted(parties, times, nulls, floors)[0].look

    if clock is wire.Clock.HOST:  # where the budget is short, the rest of the measurement is not much shorter than its turns
        bench_s = (1 + len(parties.alone.run_ns)) * bench_budget_ns / 1e9
        parties = replace(parties, budget_s=max(0.0, parties.budget_s - bench_s - (time.monotonic() - begun_s)))
    for fact in take_turns(parties, bench, baseline_bench, times, signs, look):
        yield fact
        if isinstance(fact, wire.Trial) and fact.outcome is not PASSED:
            return
    reported = parties.alone.reported
    if clock is wire.Clock.HOST:
        reported = yield from bench_baselines(trusted, baseline_bench, parties.alone.run_ns, bench_budget_ns, signs)
    claim = _claim(parties.subject, bench, bench_budget_ns, statistics.median(times.flat(SUBJECT)))
    added = yield from _added_runs(parties, bench, times, claim, signs)
    if isinstance(added, wire.Trial):
        yield added
        return
    for copies in nulls:
        nulls[copies] += take_nulls(copies)
    measurement = _measurement(parties, bench, times, nulls, floors)
    record(parties, bench, times, claim, reported)
    is_confirmed = claim is not None and confirmed(claim, measurement.certified, clock)
    if any(tensor.inout for tensor in bench.problem.inputs) and not is_confirmed:
        claim = None  # do_bench launches it on its own results, which may take less time: what is sorted is sorted at once
    throttled = {"throttle_reasons": ",".join(sorted(times.throttle_reasons))} if times.throttle_reasons else {}
    yield replace(
        measurement,
        reported=claim,
        shortest_ns=_shortest_ns(parties, bench, times, min(measurement.certified.durations_ns), added),
        reported_baselines=reported,
        reported_confirmed=is_confirmed,
        physical_floor_ns=physical_floor_ns,
        conditions=parties.subject.device.conditions() | throttled,
    )


def _added_runs(
    parties: TimingSetup, bench: WorkloadContext, times: Times, claim: wire.Samples | None, signs: Heartbeat
) -> Generator[wire.Progress, None, list[int] | wire.Trial]:
    """Runs of the subject, in nanoseconds, until one is near its claim; or the trial that failed. On a busy machine each of a few runs may
    have waited for a core, and a claim that none of them is near is taken for a lie (grader/verdict/timing_audit.py)."""
    added_ns: list[int] = []
    if parties.clock is not wire.Clock.HOST or claim is None:
        return added_ns
    most_ns = max(statistics.median(claim.durations_ns) + HOST_SLACK_NS, statistics.median(claim.durations_ns) / CONFIRMED_SHARE)
    most_ns += min(parties.alone.null_ns[parties.copies])
    end_s = time.monotonic() + ADDED_S
    while min(*times.flat(SUBJECT), *added_ns) > most_ns and len(added_ns) < ADDED_LIMIT and time.monotonic() < end_s:
        result = run(parties.subject, bench, RunOptions(stir=True))
        trial = judge_run(result, bench, wire.TrialPhase.CERTIFY, len(times.flat(SUBJECT)) + len(added_ns))
        if trial.outcome is not PASSED:
            return trial
        added_ns.append(result.duration_ns)
        yield from signs.emit_if_due()
    return added_ns


def _shortest_ns(parties: TimingSetup, bench: WorkloadContext, times: Times, certified_ns: int, added: list[int]) -> int | None:
    """Return the time that a claim is held to where that is less than the shortest certified time, certified_ns; None where that is it."""
    if added:  # what is subtracted is the same
        return max(0, certified_ns - max(0, min(times.flat(SUBJECT)) - min(added)))
    if parties.clock is wire.Clock.DEVICE_EVENTS and scalars_are_late(bench):
        return max(0, min(certified_ns, least_by_own_nulls(parties, times)))
    return None


def _subtracted(parties: TimingSetup, times: Times, nulls: Mapping[bool, list[int]], floors: list[int]) -> tuple[NetTiming, int]:
    """The turns less the protocol, and the floor of the protocol's time."""
    null_ns = min(run_ns for copies, runs_ns in nulls.items() for run_ns in (*runs_ns, *times.flat(NULL[copies])))
    floor_ns = min([*floors, null_ns])
    return subtract_overhead(parties, times, nulls, floor_ns), floor_ns


def _measurement(
    parties: TimingSetup, bench: WorkloadContext, times: Times, nulls: Mapping[bool, list[int]], floors: list[int]
) -> wire.Measurement:
    net, floor_ns = _subtracted(parties, times, nulls, floors)
    return wire.Measurement(
        workload_id=bench.workload.workload_id,
        hidden=bench.workload.hidden,
        clock=parties.clock,
        certified=net.certified,
        bound_ns=int(statistics.median(times.flat(SUBJECT))) - floor_ns,
        floor_ns=floor_ns,
        disturbed=net.unrest is not NoiseKind.NONE,
        baseline_slowed=any(baseline.slowed for baseline in net.baselines.values()),
        # On a busy machine the protocol can seem to take longer than protocol and baseline: then the clock has no time for the baseline.
        baselines={
            name: baseline.samples for name, baseline in net.baselines.items() if statistics.median(baseline.samples.durations_ns) > 0
        },
        speedups=net.speedups,
        moved_bytes=bench.workload.moved_bytes,
        flops=bench.workload.flops,
        turn_count=len(times.taken_ns[SUBJECT]),
        half_width=max((width.total for width in net.look.widths if width is not None), default=None),
        end=times.end,
    )


def confirmed(reported: wire.Samples, certified: wire.Samples, clock: wire.Clock) -> bool:
    """Return whether the claim agrees with the judge's clock: within max(15 us, 5 %) by device clock; the host's clock of a shared machine,
    where kernel and judge compete for cores, is given max(5 ms, 60 %). A claim below half of what the clock saw is never confirmed: for
    a short kernel the slack alone would confirm a nanosecond."""
    claim_ns, certified_ns = statistics.median(reported.durations_ns), statistics.median(certified.durations_ns)
    slack = max(15_000, 0.05 * certified_ns) if clock is wire.Clock.DEVICE_EVENTS else max(HOST_SLACK_NS, 0.6 * certified_ns)
    return abs(certified_ns - claim_ns) <= slack and claim_ns >= CONFIRMED_SHARE * certified_ns


def _claim(subject: RunnerLink, bench: WorkloadContext, budget_ns: int, launch_ns: float) -> wire.Samples | None:
    """do_bench on inputs like all others, by the subject's own process. launch_ns: how long a launch takes."""
    if not bench.problem.is_repeatable:
        return None
    # Of a slow kernel too: what is wrong with a claim does not show in one sample.
    budget_ns = max(budget_ns, min(BENCH_NS[subject.device.CLOCK], round(CLAIM_LAUNCHES * launch_ns)))
    launch, limit_s = partial(run, subject, bench, RunOptions()), bench_limit_s(bench.problem.trial_s, launch_ns)
    return bench_samples(subject, launch, budget_ns, limit_s, place_count(subject.device.CLOCK, launch_ns))


def record(
    parties: TimingSetup, bench: WorkloadContext, times: Times, claim: wire.Samples | None, reported: Mapping[str, wire.Samples]
) -> None:
    """Write what was taken, in nanoseconds and before anything is subtracted, and the medians of what everybody's do_bench said."""
    place = os.environ.get(VARIABLE)
    if not place:
        return
    data = {
        "problem": bench.problem.problem_id,
        "workload": bench.workload.workload_id,
        "copies": parties.copies,
        "alone": asdict(parties.alone)
        | {name: {str(copies): value for copies, value in getattr(parties.alone, name).items()} for name in ("null_ns", "null_work_ns")},
        "turns": times.taken_ns,
        "planned": times.planned,
        "end": times.end,
        "reported": {
            name: statistics.median(samples.durations_ns) for name, samples in {SUBJECT: claim, **reported}.items() if samples is not None
        },
    }
    path = Path(place) / f"{os.getpid()}-{time.time_ns()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), "utf-8")


def contestants(parties: TimingSetup, bench: WorkloadContext, baseline_bench: WorkloadContext) -> dict[str, Arm]:
    """Return the arms that are run in turns, the subject first, null runs last."""
    last_ns = [0]

    def subject(count: int) -> list[Run]:
        warm = warm_count(parties.clock, last_ns[0]) if count == 1 else 0
        how = RunOptions(stir=parties.clock is wire.Clock.HOST, warm_count=warm, copy_out=parties.copies, count=count)
        results = run_train(parties.subject, bench, how)
        last_ns[0] = results[-1].duration_ns
        return results

    arms: dict[str, Arm] = {SUBJECT: subject}
    for name, alone_ns in parties.alone.run_ns.items():
        arms[name] = partial(timed, parties.trusted, baseline_bench, name, about_ns=min(alone_ns))
        if parties.load is not None:
            arms[name] = partial(parties.load.watch, name, arms[name])
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        arms[NULL[True]] = partial(null_train, parties.trusted, baseline_bench, copies=True)
        arms[OWN_NULL] = partial(null_train, parties.subject, bench, copies=parties.copies, trusted=False)
    return arms


def take_turns(
    parties: TimingSetup,
    bench: WorkloadContext,
    baseline_bench: WorkloadContext,
    times: Times,
    signs: Heartbeat,
    look: Callable[[], InterimEstimate],
) -> Iterator[wire.Plan | wire.Trial | wire.Progress]:
    """Warm up, decide how many turns there is time for, and take them until one is the last (`timing.end_of`).

    Emits a trial per turn, and ends early after one that failed. look: what the turns so far come to.
    """
    among = contestants(parties, bench, baseline_bench)
    cycles_s, subject_ns, warming_s, length, slowed = [], 0, time.monotonic(), 1, False
    null_ns = statistics.median(parties.alone.null_ns[parties.copies])
    for count in range(1, WARMUP_COUNT + 1):
        begun_s = time.monotonic()
        if count == WARMUP_COUNT and parties.clock is wire.Clock.DEVICE_EVENTS:  # turns are planned by a cycle like theirs
            length = train_length(subject_ns - null_ns, min(longest_train(parties.subject, bench), longest_train(parties.trusted, bench)))
        for name, arm in among.items():
            results = arm(length)
            yield from signs.emit_if_due()
            if name != SUBJECT:
                continue
            # A kernel's streams that wait for one another, ahead of their inputs, keep the device until their time slice is over.
            slowed = statistics.median(result.duration_ns for result in results) > subject_ns + SLICE_NS
            subject_ns = results[0].duration_ns
            for result in results:
                trial = judge_run(result, bench, wire.TrialPhase.CERTIFY, 0)
                if trial.outcome is not PASSED:
                    yield trial
                    return
        cycles_s.append(time.monotonic() - begun_s)
        if parties.clock is wire.Clock.HOST and time.monotonic() - warming_s > WARMUP_SHARE * parties.budget_s:
            break
    length = 1 if slowed else length
    begun_s = time.monotonic()
    _rest(parties, times)
    between_s = time.monotonic() - begun_s
    # The first of the cycles may have had something to load; trains have only the last.
    cycle_s = cycles_s[-1] if length > 1 else statistics.median(cycles_s)
    budget_s = parties.budget_s
    if parties.clock is wire.Clock.HOST:
        budget_s -= time.monotonic() - warming_s
    limit = plan_turns(parties.clock, cycle_s, max(budget_s, 0.0), between_s)
    least, turn_limit = TURN_LIMITS[parties.clock]
    yield _planned(bench, least * length)
    times.planned, turn, begun_s = limit, 0, time.monotonic()
    looked_at = parties.clock is not wire.Clock.HOST and limit >= LOOKS[0]
    times.allowance = parties.allowance if looked_at else LookAllowance.NONE
    while times.end is None:
        trial = yield from _turn(among, bench, length, times, 2 * length * turn, signs)
        yield trial
        if trial.outcome is not PASSED:
            return
        turn += 1
        _rest(parties, times)
        times.end = end_of(turn, limit, look() if looked_at and turn in LOOKS else NOTHING_SEEN, parties.precision, turn_limit)
        if times.end is None and turn >= least and time.monotonic() - begun_s > budget_s:
            times.end, times.allowance = wire.MeasurementEnd.BUDGET, LookAllowance.CUT_SHORT
    yield _planned(bench, turn * length)


def _planned(bench: WorkloadContext, pairs: int) -> wire.Plan:
    """So many pairs of runs have to be seen."""
    return wire.Plan(trials=((bench.workload.workload_id, wire.TrialPhase.CERTIFY, 2 * pairs),))


def _rest(parties: TimingSetup, times: Times) -> None:
    """Collect garbage and note throttling between turns, in nobody's time."""
    gc.collect()
    times.throttle_reasons |= set(parties.subject.device.conditions("throttle_reasons").get("throttle_reasons", "").split(",")) - {""}


def plan_turns(clock: wire.Clock, cycle_s: float, budget_s: float, between_s: float = 0.0) -> int:
    """How many turns there is time for: decided by the judge from verified runs, within the budget. cycle_s: everyone's train once.
    between_s: from turn to turn."""
    least, limit = TURN_LIMITS[clock]
    return max(least, min(limit, int(PLANNED_SHARE * budget_s / max(2 * cycle_s + between_s, 1e-9))))


def _turn(
    among: dict[str, Arm], bench: WorkloadContext, length: int, times: Times, index: int, signs: Heartbeat
) -> Generator[wire.Progress, None, wire.Trial]:
    """Take a turn of trains of this length. Return the trial that stands for the subject's runs: the first that failed, or all."""
    durations_ns: dict[str, list[int]] = {name: [] for name in among}
    trials: list[wire.Trial] = []
    for name in (*among, *reversed(among)):
        results = among[name](length)
        yield from signs.emit_if_due()
        durations_ns[name] += [result.duration_ns for result in results]
        for result in results if name == SUBJECT else ():
            trials.append(judge_run(result, bench, wire.TrialPhase.CERTIFY, index + len(trials)))
            if trials[-1].outcome is not PASSED:
                return trials[-1]
    for name, durations in durations_ns.items():
        times.taken_ns.setdefault(name, []).append(durations)
    return merge_trials(trials)


def merge_trials(trials: list[wire.Trial]) -> wire.Trial:
    """Merge the facts of runs that passed: the worst of each error."""
    return replace(
        trials[0],
        run_count=len(trials),
        max_absolute_error=max(trial.max_absolute_error or 0.0 for trial in trials),
        max_relative_error=max(trial.max_relative_error or 0.0 for trial in trials),
        budget_ratio=max((trial.budget_ratio for trial in trials if trial.budget_ratio is not None), default=None),
        duration_ns=int(statistics.median(trial.duration_ns for trial in trials)),
    )
