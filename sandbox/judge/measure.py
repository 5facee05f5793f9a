"""The judge's clock (DESIGN section 4): certified time, baselines in turns, speedup with an interval.

Null runs go through the trusted baseline runner, never through the subject: a subject that is slow at doing nothing would be forgiven
time it really took. Within a turn everyone runs in an order and then in its reverse (ABBA), so that a drift falls on all alike; a turn's
value is the median of its runs, and the interval is made of turns, since single runs are not independent (timing.md 2.2 and 3.5).
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from sandbox import wire
from sandbox.gate import Answer, Call, Operation, Status
from sandbox.judge.batch import Batch, time_batches
from sandbox.judge.references import ReferenceFailed
from sandbox.judge.runner_link import RunnerLink
from sandbox.judge.speedup import speedup
from sandbox.judge.trial import Bench, How, Run, judge_run, run

SUBJECT, EAGER = "subject", "eager"
NULL = {False: "null", True: "null with copy"}
NULL_SLACK_NS = 25_000
WARM = {wire.Clock.DEVICE_EVENTS: True, wire.Clock.HOST: False}
VARIANTS = {EAGER: 0, "compile": 1}  # what the trusted runner can run, by the gate's number
NULL_COUNT = {wire.Clock.DEVICE_EVENTS: 40, wire.Clock.HOST: 12}
ALONE_COUNT = {wire.Clock.DEVICE_EVENTS: 12, wire.Clock.HOST: 6}
WARMUP_COUNT = 3
TURN_COUNT, REPEAT_LIMIT = 12, 12  # by device clock: turns, and ABBAs within one
TURN_LIMIT, TURN_FLOOR = 8, 2  # by the host's clock: turns of one ABBA
BASELINE_S = 60.0  # trusted, so not held to the problem's trial_s; beyond this the judge itself is unwell
COMPILE_S = 300.0
BENCH_NS = {wire.Clock.DEVICE_EVENTS: 100_000_000, wire.Clock.HOST: 400_000_000}  # do_bench's own default on a device
BENCH_S = 10.0
# How much slower than alone the baseline may run beside an idle subject before that is the subject's doing (cheating F2).
SLOWED_FACTOR = {wire.Clock.DEVICE_EVENTS: 1.1, wire.Clock.HOST: 2.0}
PASSED = wire.TrialOutcome.PASSED


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What the trusted runner took by the protocol, in nanoseconds, before there was a subject that could slow it.

    null_ns: with the copy that a kernel which returns its outputs makes. run_ns: by variant; one that does not run is not there.
    """

    null_ns: list[int]
    floor_ns: list[int]
    run_ns: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parties:
    """Who is timed: the subject, and the trusted runner with what it is to run. copies: the subject returns its outputs."""

    subject: RunnerLink
    trusted: RunnerLink
    copies: bool
    alone: Alone
    budget_s: float

    @property
    def clock(self) -> wire.Clock:
        """What takes the times."""
        return self.subject.device.CLOCK


Turns = dict[str, list[list[int]]]  # per turn and arm, how long each run took


def time_alone(trusted: RunnerLink, bench: Bench, variants: tuple[str, ...]) -> Alone:
    """Time null runs and baselines while nobody else is there. The first runs are a warm-up, and compile what is to be compiled."""
    clock = trusted.device.CLOCK
    taken = {}
    for name in variants:
        how = How(variant=VARIANTS[name], limit_s=COMPILE_S)
        first = [run(trusted, bench, how) for _ in range(WARMUP_COUNT)]
        if all(isinstance(one.reply, Answer) and one.reply.status is Status.OK for one in first):
            taken[name] = [_timed(trusted, bench, name).duration_ns for _ in range(ALONE_COUNT[clock])]
        elif name == EAGER:
            raise ReferenceFailed(f"the reference does not run by itself: {first[-1].reply}")
        else:
            sys.stderr.write(f"baseline {name!r} of {bench.problem.problem_id!r} does not run: {first[-1].reply}\n")
    return Alone(null_ns=_nulls(trusted, bench, copies=True), floor_ns=_nulls(trusted, bench, floor=True), run_ns=taken)


def measure(parties: Parties, bench: Bench, own: Bench, physical_floor_ns: int | None) -> Iterator[wire.Fact]:
    """Emit trials for all certified runs, and the measurement at the end; end early after a trial that failed. own: the baselines'."""
    clock, trusted = parties.clock, parties.trusted
    nulls = _nulls(trusted, own, copies=parties.copies)
    floors = [*parties.alone.floor_ns, *_nulls(trusted, own, floor=True)]
    arms = _arms(parties, bench, own)
    begun = time.monotonic()
    for _ in range(WARMUP_COUNT):
        for name, arm in arms.items():
            trial = judge_run(arm(), bench if name == SUBJECT else own, wire.TrialPhase.CERTIFY, 0)
            if name == SUBJECT and trial.outcome is not PASSED:
                yield trial
                return
    turns, repeats = plan_turns(clock, (time.monotonic() - begun) / WARMUP_COUNT, parties.budget_s)
    yield wire.Plan(trials=((bench.workload.workload_id, wire.TrialPhase.CERTIFY, 2 * turns * repeats),))
    times: Turns = {name: [] for name in arms}
    throttled: set[str] = set()
    for _ in range(turns):
        trial = _turn(arms, bench, own, repeats, times)
        yield trial
        if trial.outcome is not PASSED:
            return
        throttled |= set(parties.subject.device.conditions().get("throttle_reasons", "").split(",")) - {""}
    batch = _batches(parties, bench, own, times, nulls)
    if isinstance(batch, wire.Trial):
        yield batch
        return
    reported = {name: _reported(trusted, own, VARIANTS[name]) for name in parties.alone.run_ns}
    claim = _reported(parties.subject, bench, 0)
    nulls += _nulls(trusted, own, copies=parties.copies)
    floors += _nulls(trusted, own, floor=True)
    measurement = _measurement(parties, bench, times, nulls, min(floors))
    yield replace(
        measurement,
        batch=None if batch is None else batch.times,
        batch_size=0 if batch is None else batch.size,
        reported=claim,
        reported_baselines={name: samples for name, samples in reported.items() if samples is not None},
        reported_confirmed=claim is not None and confirmed(claim, measurement.certified, clock),
        physical_floor_ns=physical_floor_ns,
        conditions=parties.subject.device.conditions() | ({"throttle_reasons": ",".join(sorted(throttled))} if throttled else {}),
    )


def _arms(parties: Parties, bench: Bench, own: Bench) -> dict[str, Callable[[], Run]]:
    """Who is run in turns. By device clock the null runs are among them: what goes before a run is in its time."""
    arms: dict[str, Callable[[], Run]] = {
        SUBJECT: lambda: run(parties.subject, bench, How(stir=parties.clock is wire.Clock.HOST, warm=WARM[parties.clock]))
    }
    for name in parties.alone.run_ns:
        arms[name] = partial(_timed, parties.trusted, own, name)
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        for copies in sorted({True, parties.copies}):
            arms[NULL[copies]] = partial(run, parties.trusted, own, _null(copies=copies))
    return arms


def _batches(parties: Parties, bench: Bench, own: Bench, times: Turns, nulls: list[int]) -> Batch | wire.Trial | None:
    if parties.clock is wire.Clock.HOST:
        return None
    estimate_ns = int(statistics.median(_flat(times[SUBJECT])) - statistics.median(nulls))
    return time_batches(parties.subject, parties.trusted, bench, own, estimate_ns, copies=parties.copies)


def plan_turns(clock: wire.Clock, cycle_s: float, budget_s: float) -> tuple[int, int]:
    """How many turns, and ABBAs within one: decided by the judge from verified runs, within the budget. cycle_s: everyone once."""
    if clock is wire.Clock.HOST:
        return max(TURN_FLOOR, min(TURN_LIMIT, int(budget_s / 2 / max(cycle_s, 1e-9)))), 1
    return TURN_COUNT, max(1, min(REPEAT_LIMIT, int(budget_s / (2 * TURN_COUNT * max(cycle_s, 1e-9)))))


def _turn(arms: dict[str, Callable[[], Run]], bench: Bench, own: Bench, repeats: int, times: Turns) -> wire.Trial:
    """One turn of so many ABBAs. Returns what stands for the subject's runs: the first that failed, or all."""
    taken: dict[str, list[int]] = {name: [] for name in arms}
    trials: list[wire.Trial] = []
    for _ in range(repeats):
        for name in (*arms, *reversed(arms)):
            done = arms[name]()
            # Compared whoever it is, so that what the judge has just done is the same before every run.
            trial = judge_run(
                done, bench if name == SUBJECT else own, wire.TrialPhase.CERTIFY, 2 * repeats * len(times[SUBJECT]) + len(trials)
            )
            taken[name].append(done.duration_ns)
            if name != SUBJECT:
                continue
            if trial.outcome is not PASSED:
                return trial
            trials.append(trial)
    for name, durations in taken.items():
        times[name].append(durations)
    gc.collect()
    return together(trials)


def together(trials: list[wire.Trial]) -> wire.Trial:
    """One fact for many runs that passed: the worst of each error."""
    ratios = [one.budget_ratio for one in trials if one.budget_ratio is not None]
    return replace(
        trials[0],
        run_count=len(trials),
        max_absolute_error=max((one.max_absolute_error or 0.0 for one in trials), default=None),
        max_relative_error=max((one.max_relative_error or 0.0 for one in trials), default=None),
        budget_ratio=max(ratios, default=None),
        duration_ns=int(statistics.median(one.duration_ns for one in trials)),
    )


def _measurement(parties: Parties, bench: Bench, times: Turns, nulls: list[int], floor_ns: int) -> wire.Measurement:
    alone, clock = parties.alone, parties.clock
    subject_ns = times[SUBJECT]
    null_ns = {copies: _forgiven(parties, times.get(NULL[copies]), nulls, len(subject_ns)) for copies in {True, parties.copies}}
    floor_ns = min(floor_ns, *nulls, *(one for copies in null_ns for one in _flat(times.get(NULL[copies], []))))
    alone_ns = {name: statistics.median(taken) for name, taken in alone.run_ns.items()}
    slowed = any(statistics.median(_flat(times[name])) > SLOWED_FACTOR[clock] * alone_ns[name] for name in alone_ns)
    baselines = {name: [[int(alone_ns[name])] * len(turn) for turn in times[name]] if slowed else times[name] for name in alone_ns}
    # By the host's clock the subject is held to the floor: what its noise gives to the quotient it takes from the subject.
    less_ns = [float(floor_ns)] * len(subject_ns) if clock is wire.Clock.HOST else null_ns[parties.copies]
    return wire.Measurement(
        workload_id=bench.workload.workload_id,
        hidden=bench.workload.hidden,
        clock=clock,
        certified=_samples(subject_ns, null_ns[parties.copies]),
        bound_ns=int(statistics.median(_flat(subject_ns))) - floor_ns,
        floor_ns=floor_ns,
        baseline_slowed=slowed,
        baselines={name: _samples(turns, null_ns[True]) for name, turns in baselines.items()},
        speedups=tuple(
            found
            for name, turns in baselines.items()
            for found in speedup(name, _medians(subject_ns, less_ns), _medians(turns, null_ns[True]))
        ),
        moved_bytes=bench.workload.moved_bytes,
        flops=bench.workload.flops,
    )


def confirmed(reported: wire.Samples, certified: wire.Samples, clock: wire.Clock) -> bool:
    """Whether the claim agrees with the judge's clock: within max(25 us, 5 %) by device clock; the host's clock of a shared machine,
    where kernel and judge compete for cores, is given max(5 ms, 60 %)."""
    claim, seen = statistics.median(reported.durations_ns), statistics.median(certified.durations_ns)
    slack = max(25_000, 0.05 * seen) if clock is wire.Clock.DEVICE_EVENTS else max(5_000_000, 0.6 * seen)
    return abs(seen - claim) <= slack


def _forgiven(parties: Parties, among: list[list[int]] | None, nulls: list[int], turn_count: int) -> list[float]:
    """What each turn is forgiven of the protocol's time: its own null runs', for what slows one run in a turn slows all of them. But a
    subject that keeps the machine busy must not be forgiven what it made longer."""
    alone_ns = float(statistics.median(parties.alone.null_ns))
    if among is None:
        return [min(float(statistics.median(nulls)), alone_ns)] * turn_count
    if statistics.median(_flat(among)) > alone_ns + NULL_SLACK_NS:
        return [alone_ns] * turn_count
    return [float(statistics.median(turn)) for turn in among]


def _samples(turns: list[list[int]], less_ns: list[float]) -> wire.Samples:
    return wire.Samples(durations_ns=tuple(round(one - less) for turn, less in zip(turns, less_ns, strict=True) for one in turn))


def _medians(turns: list[list[int]], less_ns: list[float]) -> list[float]:
    return [statistics.median(turn) - less for turn, less in zip(turns, less_ns, strict=True)]


def _flat(turns: list[list[int]]) -> list[int]:
    return [one for turn in turns for one in turn]


def _null(*, copies: bool = False, floor: bool = False) -> How:
    return How(operation=Operation.FLOOR if floor else Operation.NULL, limit_s=BASELINE_S, copy_out=copies, warm=True)


def _nulls(trusted: RunnerLink, bench: Bench, *, copies: bool = False, floor: bool = False) -> list[int]:
    taken = []
    for _ in range(NULL_COUNT[trusted.device.CLOCK] + 1):
        done = run(trusted, bench, _null(copies=copies, floor=floor))
        judge_run(done, bench, wire.TrialPhase.CERTIFY, 0)  # as after every other run
        taken.append(done.duration_ns)
    return taken[1:]


def _timed(trusted: RunnerLink, bench: Bench, name: str) -> Run:
    how = How(variant=VARIANTS[name], limit_s=BASELINE_S + bench.problem.trial_s, warm=WARM[trusted.device.CLOCK])
    done = run(trusted, bench, how)
    if not (isinstance(done.reply, Answer) and done.reply.status is Status.OK):
        raise RuntimeError(f"the baseline's runner did not run {name!r}: {done.reply}")
    return done


def _reported(runner: RunnerLink, bench: Bench, variant: int) -> wire.Samples | None:
    """do_bench on inputs like all others, by the runner itself; the subject's is a claim."""
    run(runner, bench, How(variant=variant, limit_s=BASELINE_S if variant else None))
    budget_ns = BENCH_NS[runner.device.CLOCK]
    # do_bench keeps its budget but for a handful of launches and cache writes; a runner that is slower than this is not coming back.
    reply = runner.call(Call(operation=Operation.BENCH, budget_ns=budget_ns), BENCH_S + 8 * bench.problem.trial_s)
    if isinstance(reply, Answer) and reply.samples_ns and all(reply.samples_ns):
        return wire.Samples(durations_ns=reply.samples_ns)
    return None
