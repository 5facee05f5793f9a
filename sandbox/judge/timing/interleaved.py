"""Runs subject, baselines and null runs in the judge's clock, in turns, and records how long each run took.

By device clock everyone runs in an order and then in its reverse (ABBA), null runs among them, so that a drift falls on all alike; turns of
several ABBAs are what the interval is made of, since single runs are not independent (timing.md 2.2 and 3.5). What the protocol costs is
asked of the trusted runner: a subject that is slow at doing nothing would be forgiven time that it really took. The subject's own null
runs say how its process differs from the trusted one, and are believed where that takes time from it, or adds next to none.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from sandbox.judge.references import ReferenceFailed
from sandbox.judge.runner_link import RunnerLink, Silence
from sandbox.judge.timing.box_load import BoxLoad
from sandbox.judge.timing.stopping import LOOKS, InterimEstimate, LookAllowance, end_of, steady
from sandbox.judge.trial import Run, RunOptions, WorkloadContext, run
from sandbox.judge.verify import judge_run
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Operation, Status

SIGN_S = 20.0
SUBJECT, EAGER = "subject", "eager"
VARIANTS = {EAGER: 0, "compile": 1, "max-autotune": 2}  # what the trusted runner can run, by the gate's number
NULL = {False: "null", True: "null with copy"}
OWN_NULL = "the subject's null"
FLOOR = "floor"
NULL_COUNT = {wire.Clock.DEVICE_EVENTS: 12, wire.Clock.HOST: 8}
ALONE_COUNT = {wire.Clock.DEVICE_EVENTS: 24, wire.Clock.HOST: 6}
WARM_COUNT = 3  # launches before a run by device clock
WARMUP_COUNT = 3
WARMUP_SHARE = 0.2  # of the budget: by the host's clock a kernel that takes longer is not warmed up again
REPEAT_LIMIT = 10  # by device clock: ABBAs within a turn
SPREAD_TURN_COUNT = LOOKS[2]  # where time is short, turns have fewer ABBAs until it is enough for so many turns
PLANNED_SHARE = 0.8  # of the budget: runs may take longer than those before the first turn
RUN_NOISE_NS, RUN_NOISE_SHARE = 2_300.0, 0.001
TARGET_NS, TARGET_SHARE = 500.0, 0.005
QUIET_SHARE = 0.75  # of the turns taken; with fewer, all count
SLOW_TURN_COUNT = 3  # of kernels that take seconds
ONE_WARM_LAUNCH_NS, NO_WARM_LAUNCH_NS = 1_000_000, 20_000_000  # a kernel that takes longer gets one of these launches, or none
TURN_LIMIT, TURN_FLOOR = 8, 2  # by the host's clock: turns of one ABBA
BASELINE_S = 60.0  # trusted, so not held to the problem's trial_s; beyond this the judge itself is unwell
NOTHING_SEEN = InterimEstimate(quiet_count=0, widths=())
COMPILE_S = 380.0  # max-autotune tries many kernels; the judge has to say something before it is taken for dead
PASSED = wire.TrialOutcome.PASSED
Arm = Callable[[], Run]


class Heartbeat:
    """Says once more what is being done where nothing was said for SIGN_S; made when something was."""

    def __init__(self, stage: wire.Stage, workload_id: str | None = None) -> None:
        self._fact, self._said = wire.Progress(stage=stage, workload_id=workload_id), time.monotonic()

    def emit_if_due(self) -> Iterator[wire.Progress]:
        """Emit it, if it is time."""
        if time.monotonic() - self._said >= SIGN_S:
            self._said = time.monotonic()
            yield self._fact


@dataclass(frozen=True, slots=True, kw_only=True)
class SoloTimings:
    """Times that the trusted runner took by the protocol, in nanoseconds, before there was a subject that could slow it.

    null_ns: without and with the copy that a kernel which returns its outputs makes. run_ns: by variant; one that does not run is not
    there.
    """

    null_ns: dict[bool, list[int]]
    floor_ns: list[int]
    run_ns: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingSetup:
    """Runners that are timed: the subject, and the trusted runner with what it is to run. copies: the subject returns its outputs.
    launch_ns: how much of a null run is its kernel, which is not the protocol's. load: of the subject's box, by the host's clock."""

    subject: RunnerLink
    trusted: RunnerLink
    copies: bool
    alone: SoloTimings
    budget_s: float
    launch_ns: float = 0.0
    load: BoxLoad | None = None
    precision: float = 0.01  # the half-width at which turns may end
    allowance: LookAllowance = LookAllowance.FACTOR  # of an interval that was looked at

    @property
    def clock(self) -> wire.Clock:
        """The clock that takes the times."""
        return self.subject.device.CLOCK


SoloRuns = tuple[dict[str, list[int]], dict[bool, list[int]]]  # baselines' times, and those of null runs without and with a copy


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


def with_new_nulls(timings: SoloTimings, trusted: RunnerLink, bench: WorkloadContext) -> SoloTimings:
    """Times of an earlier job with null runs of now, while there is no subject: what the protocol costs changes with the host, by
    microseconds, and what a baseline takes beyond it does not. By the host's clock the times are as they were."""
    if trusted.device.CLOCK is wire.Clock.HOST:
        return timings
    nulls = {copies: null_runs(trusted, bench, copies=copies) for copies in timings.null_ns}
    more_ns = round(steady(nulls[True]) - steady(timings.null_ns[True]))
    runs = {name: [run_ns + more_ns for run_ns in runs_ns] for name, runs_ns in timings.run_ns.items()}
    return replace(timings, null_ns=nulls, floor_ns=null_runs(trusted, bench, floor=True), run_ns=runs)


def time_alone(trusted: RunnerLink, bench: WorkloadContext, variants: tuple[str, ...]) -> Generator[wire.Progress, None, SoloTimings]:
    """Time null runs and baselines while nobody else is there. The first runs are a warm-up, and compile what is to be compiled."""
    clock, running, signs = trusted.device.CLOCK, [], Heartbeat(wire.Stage.BASELINE)
    for name in variants:
        how = RunOptions(variant=VARIANTS[name], limit_s=BASELINE_S + bench.problem.trial_s if name == EAGER else COMPILE_S)
        first = []
        for _ in range(WARMUP_COUNT):
            first.append(run(trusted, bench, how))
            yield from signs.emit_if_due()
        if all(isinstance(result.reply, Answer) and result.reply.status is Status.OK for result in first):
            running.append(name)
        elif trusted.silence is not None:
            raise RuntimeError(f"the baseline's runner did not answer to {name!r}: {_failure(first)}")
        elif name == EAGER:
            raise ReferenceFailed(f"the reference does not run by itself: {_failure(first)}")
        else:
            why = "on a hidden workload" if bench.workload.hidden else _failure(first)  # an error may quote its size
            sys.stderr.write(f"baseline {name!r} of {bench.problem.problem_id!r} does not run: {why}\n")
    by_clock = _alone_by_host_clock if clock is wire.Clock.HOST else _alone_by_device_clock
    runs, nulls = yield from by_clock(trusted, bench, running, signs)
    return SoloTimings(
        null_ns=nulls,
        floor_ns=null_runs(trusted, bench, floor=True),
        run_ns={name: runs[name] for name in running},
    )


def _failure(runs: list[Run]) -> str:
    """Describe the first run that failed."""
    for result in runs:
        match result.reply:
            case Silence.GONE:
                return "its process ended"
            case Silence.TIMED_OUT:
                return "it did not come back in time"
            case Answer(status=status, message=message) if status is not Status.OK:
                return message or status.name.lower().replace("_", " ")
    raise ValueError("all of these runs were answered")


def _alone_by_host_clock(
    trusted: RunnerLink, bench: WorkloadContext, names: list[str], signs: Heartbeat
) -> Generator[wire.Progress, None, SoloRuns]:
    runs: dict[str, list[int]] = {name: [] for name in names}
    for name in names:
        for _ in range(ALONE_COUNT[wire.Clock.HOST]):
            runs[name].append(timed(trusted, bench, name).duration_ns)
            yield from signs.emit_if_due()
    return runs, {copies: null_runs(trusted, bench, copies=copies) for copies in NULL}


def _alone_by_device_clock(
    trusted: RunnerLink, bench: WorkloadContext, names: list[str], signs: Heartbeat
) -> Generator[wire.Progress, None, SoloRuns]:
    """In ABBA order, as next to a subject: a baseline less null runs of another second says more of the host than of the baseline."""
    among: dict[str, Arm] = {name: partial(timed, trusted, bench, name) for name in names}
    among |= {NULL[copies]: partial(run, trusted, bench, _null(copies=copies)) for copies in NULL}
    runs: dict[str, list[int]] = {name: [] for name in among}
    for _ in range(ALONE_COUNT[wire.Clock.DEVICE_EVENTS] // 2):
        for name in (*among, *reversed(among)):
            runs[name].append(among[name]().duration_ns)
            yield from signs.emit_if_due()
    return runs, {copies: runs[NULL[copies]] for copies in NULL}


def contestants(parties: TimingSetup, bench: WorkloadContext, baseline_bench: WorkloadContext) -> dict[str, Arm]:
    """Return the arms that are run in turns, the subject first."""
    last_ns = [0]

    def subject() -> Run:
        how = RunOptions(stir=parties.clock is wire.Clock.HOST, warm_count=warm_count(parties.clock, last_ns[0]))
        result = run(parties.subject, bench, how)
        last_ns[0] = result.duration_ns
        return result

    arms: dict[str, Arm] = {SUBJECT: subject}
    for name, alone_ns in parties.alone.run_ns.items():
        arms[name] = partial(timed, parties.trusted, baseline_bench, name, min(alone_ns))
        if parties.load is not None:
            arms[name] = partial(parties.load.watch, name, arms[name])
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        for copies in sorted({True, parties.copies}):
            arms[NULL[copies]] = partial(run, parties.trusted, baseline_bench, _null(copies=copies))
        arms[OWN_NULL] = partial(run, parties.subject, bench, replace(_null(copies=parties.copies), limit_s=None))
    return arms


def take_turns(
    parties: TimingSetup,
    bench: WorkloadContext,
    baseline_bench: WorkloadContext,
    times: Times,
    signs: Heartbeat,
    look: Callable[[], InterimEstimate],
) -> Iterator[wire.Plan | wire.Trial | wire.Progress]:
    """Warm up, decide how many turns there is time for, and take them until one is the last (`stopping.py`).

    Emits a trial per turn, and ends early after one that failed. look: what the turns so far come to.
    """
    among = contestants(parties, bench, baseline_bench)
    cycles_s, subject_ns, warming_s = [], 0, time.monotonic()
    for _ in range(WARMUP_COUNT):
        begun_s = time.monotonic()
        for name, arm in among.items():
            result = arm()
            yield from signs.emit_if_due()
            if name != SUBJECT:
                continue
            subject_ns = result.duration_ns
            trial = judge_run(result, bench, wire.TrialPhase.CERTIFY, 0)
            if trial.outcome is not PASSED:
                yield trial
                return
        cycles_s.append(time.monotonic() - begun_s)
        if parties.clock is wire.Clock.HOST and time.monotonic() - warming_s > WARMUP_SHARE * parties.budget_s:
            break
    begun_s = time.monotonic()
    _rest(parties, times)
    between_s = time.monotonic() - begun_s
    null_ns = statistics.median(parties.alone.null_ns[parties.copies])
    # The first of the cycles may have had something to load.
    cycle_s, net_ns = statistics.median(cycles_s), max(0.0, subject_ns - null_ns)
    budget_s = parties.budget_s
    if parties.clock is wire.Clock.HOST:
        budget_s -= time.monotonic() - warming_s
    limit, repeats = plan_turns(parties.clock, cycle_s, max(budget_s, 0.0), net_ns, between_s)
    least, turn_limit = (TURN_FLOOR, TURN_LIMIT) if parties.clock is wire.Clock.HOST else (SLOW_TURN_COUNT, LOOKS[-1])
    yield _planned(bench, least * repeats)
    times.planned, turn, begun_s = limit, 0, time.monotonic()
    looked_at = parties.clock is not wire.Clock.HOST and limit >= LOOKS[0]
    times.allowance = parties.allowance if looked_at else LookAllowance.NONE
    while times.end is None:
        trial = yield from _turn(among, bench, repeats, times, 2 * repeats * turn, signs)
        yield trial
        if trial.outcome is not PASSED:
            return
        turn += 1
        _rest(parties, times)
        times.end = end_of(turn, limit, look() if looked_at and turn in LOOKS else NOTHING_SEEN, parties.precision, turn_limit)
        if times.end is None and turn >= least and time.monotonic() - begun_s > budget_s:
            times.end, times.allowance = wire.MeasurementEnd.BUDGET, LookAllowance.CUT_SHORT
    yield _planned(bench, turn * repeats)


def _planned(bench: WorkloadContext, cycles: int) -> wire.Plan:
    """So many ABBAs have to be seen."""
    return wire.Plan(trials=((bench.workload.workload_id, wire.TrialPhase.CERTIFY, 2 * cycles),))


def _rest(parties: TimingSetup, times: Times) -> None:
    """Collect garbage and note throttling between turns, in nobody's time."""
    gc.collect()
    times.throttle_reasons |= set(parties.subject.device.conditions().get("throttle_reasons", "").split(",")) - {""}


def plan_turns(clock: wire.Clock, cycle_s: float, budget_s: float, subject_ns: float, between_s: float = 0.0) -> tuple[int, int]:
    """How many turns there is time for, and ABBAs within one: decided by the judge from verified runs, within the budget. cycle_s: everyone
    once. between_s: from turn to turn.

    By device clock a turn of a long kernel has no more runs than its interval needs, and turns are rather many than long: they are what
    the interval is made of.
    """
    left_s = PLANNED_SHARE * budget_s
    if clock is wire.Clock.HOST:
        return max(TURN_FLOOR, min(TURN_LIMIT, int(left_s / max(2 * cycle_s + between_s, 1e-9)))), 1
    cycles = left_s / max(2 * cycle_s, 1e-9)
    # ABBAs within a turn, for a half-width of half a percent or of half a microsecond: 2.2 (Student's t) times 1.5 (two arms, and the
    # estimator's own) times what single runs scatter: 1.2 to 1.7 us on an H100 and 0.1 % (docs/decisions/0074), and half as much again.
    scatter_ns = RUN_NOISE_NS + RUN_NOISE_SHARE * subject_ns
    runs = (2.2 * 1.5 * scatter_ns / max(TARGET_SHARE * subject_ns, TARGET_NS)) ** 2
    repeats = max(1, min(max(1, math.ceil(runs / (2 * LOOKS[0]))), REPEAT_LIMIT, int(cycles / SPREAD_TURN_COUNT)))
    turns = int(left_s / max(2 * cycle_s * repeats + between_s, 1e-9))
    return max(SLOW_TURN_COUNT, min(LOOKS[-1], turns)), repeats


def _turn(
    among: dict[str, Arm], bench: WorkloadContext, repeats: int, times: Times, index: int, signs: Heartbeat
) -> Generator[wire.Progress, None, wire.Trial]:
    """Take a turn of so many ABBAs. Return the trial that stands for the subject's runs: the first that failed, or all."""
    durations_ns: dict[str, list[int]] = {name: [] for name in among}
    trials: list[wire.Trial] = []
    for _ in range(repeats):
        for name in (*among, *reversed(among)):
            result = among[name]()
            yield from signs.emit_if_due()
            durations_ns[name].append(result.duration_ns)
            if name != SUBJECT:
                continue
            trials.append(judge_run(result, bench, wire.TrialPhase.CERTIFY, index + len(trials)))
            if trials[-1].outcome is not PASSED:
                return trials[-1]
    for name, durations in durations_ns.items():
        times.taken_ns.setdefault(name, []).append(durations)
    return merge_trials(trials)


def merge_trials(trials: list[wire.Trial]) -> wire.Trial:
    """Merge the facts of runs that passed: the worst of each error."""
    ratios = [trial.budget_ratio for trial in trials if trial.budget_ratio is not None]
    return replace(
        trials[0],
        run_count=len(trials),
        max_absolute_error=max((trial.max_absolute_error or 0.0 for trial in trials), default=None),
        max_relative_error=max((trial.max_relative_error or 0.0 for trial in trials), default=None),
        budget_ratio=max(ratios, default=None),
        duration_ns=int(statistics.median(trial.duration_ns for trial in trials)),
    )


def warm_count(clock: wire.Clock, launch_ns: int) -> int:
    """Launches before a run, of a kernel that takes launch_ns: the shorter, the more of its time is code of the host that may be cold."""
    if clock is wire.Clock.HOST or launch_ns > NO_WARM_LAUNCH_NS:
        return 0
    return 1 if launch_ns > ONE_WARM_LAUNCH_NS else WARM_COUNT


def timed(trusted: RunnerLink, bench: WorkloadContext, name: str, about_ns: int = 0) -> Run:
    """Run a baseline, which takes about about_ns."""
    how = RunOptions(
        variant=VARIANTS[name],
        limit_s=BASELINE_S + bench.problem.trial_s,
        warm_count=warm_count(trusted.device.CLOCK, about_ns),
        inspect=False,
    )
    result = run(trusted, bench, how)
    if not (isinstance(result.reply, Answer) and result.reply.status is Status.OK):
        raise RuntimeError(f"the baseline's runner did not run {name!r}: {result.reply}")
    return result


def null_runs(
    trusted: RunnerLink, bench: WorkloadContext, *, copies: bool = False, floor: bool = False, count: int | None = None
) -> list[int]:
    """Time the protocol itself; the first after another kind of work is not like the rest. By the host's clock there is no other
    floor than the quickest of these: nothing runs on after `done`."""
    if floor and trusted.device.CLOCK is wire.Clock.HOST:
        return []
    how = _null(copies=copies, floor=floor)
    return [run(trusted, bench, how).duration_ns for _ in range((count or NULL_COUNT[trusted.device.CLOCK]) + 1)][1:]


def _null(*, copies: bool = False, floor: bool = False) -> RunOptions:
    operation = Operation.FLOOR if floor else Operation.NULL
    return RunOptions(operation=operation, limit_s=BASELINE_S, copy_out=copies, warm_count=WARM_COUNT, inspect=False)
