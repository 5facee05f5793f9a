"""Runs subject, baselines and null runs in the judge's clock, in turns, and records how long each run took.

By device clock everyone has a train in an order and then in its reverse (ABBA), with null runs between them, so that a drift falls on all
alike.
Turns, each of one ABBA, are what the interval is made of, since single runs are not independent (timing.md 2.2 and 3.5). What the protocol
costs is asked of the trusted runner: a subject that is slow at doing nothing would be forgiven time that it really took. A run of the probe
less its do_bench is the protocol's time for a workload's memory. The subject's own null runs say how its process differs from the trusted
one, and are believed where that takes time from it, or adds next to none.
"""

from __future__ import annotations

import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sandbox.judge.references import ReferenceFailed
from sandbox.judge.runner_link import RunnerLink, Silence
from sandbox.judge.timing.box_load import BoxLoad
from sandbox.judge.timing.stopping import LOOKS, InterimEstimate, LookAllowance, end_of, steady
from sandbox.judge.trial import Run, RunOptions, WorkloadContext, longest_train, run, run_train, scalars_are_late
from sandbox.judge.verify import judge_run
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Call, Operation, Status

SIGN_S = 20.0
SUBJECT, EAGER, PROBE = "subject", "eager", "probe"
VARIANTS = {EAGER: 0, "compile": 1, "max-autotune": 2, PROBE: 3}  # what the trusted runner can run, by the gate's number
NULL = {False: "null", True: "null with copy"}
PROBES = {False: "probe", True: "probe with copy"}
OWN_NULL = "the subject's null"
FLOOR = "floor"
NULL_COUNT = {wire.Clock.DEVICE_EVENTS: 12, wire.Clock.HOST: 8}
ALONE_COUNT = {wire.Clock.DEVICE_EVENTS: 24, wire.Clock.HOST: 6}
ALONE_ROUNDS = 5  # by device clock, at least, each a train there and one back
PROBE_BENCH_NS, PROBE_BENCH_COUNT = 10_000_000, 5  # on other places each; the first do_bench of a process can take half as long again
PROBE_FACTOR, SHORT_NS = 2, 5_000.0  # a probe that takes so many times as long as the shortest baseline says nothing of it
NULL_KERNEL_NS = 2_300.0  # of a null kernel by do_bench, on an H100 and an H200
# What touching memory costs is 2 to 6 us on an H100 and an H200, more for outputs that are copied. A null kernel takes 2 to 3 us, and
# copies of outputs that it leaves cold 9 us longer at 16 MB; L2 holds 50.
TOUCH_LIMIT_NS, NULL_LIMIT_NS = 10_000.0, 40_000.0
WARM_COUNT = 3  # launches before a single run by device clock; a train begins on the device
WARMUP_COUNT = 3
WARMUP_SHARE = 0.2  # of the budget: by the host's clock a kernel that takes longer is not warmed up again
PLANNED_SHARE = 0.8  # of the budget: runs may take longer than those before the first turn
RUN_NOISE_NS, RUN_NOISE_SHARE = 1_500.0, 0.001
TARGET_NS, TARGET_SHARE = 500.0, 0.005
QUIET_SHARE = 0.75  # of the turns taken
SLOW_TURN_COUNT = 3  # of kernels that take seconds
ONE_WARM_LAUNCH_NS, NO_WARM_LAUNCH_NS = 1_000_000, 20_000_000  # a kernel that takes longer gets one of these launches, or none
TURN_LIMIT, TURN_FLOOR = 8, 2  # by the host's clock: turns of one ABBA
BASELINE_S = 60.0  # trusted, so not held to the problem's trial_s; beyond this the judge itself is unwell
NOTHING_SEEN = InterimEstimate(quiet=False, widths=())
COMPILE_S = 380.0  # max-autotune tries many kernels; the judge has to say something before it is taken for dead
PASSED = wire.TrialOutcome.PASSED
Arm = Callable[[int], list[Run]]  # a train of so many runs


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
    there. null_work_ns: how much of a null run is not the protocol's, by the probe, without and with the copy; negative where a run pays
    more than a null run for touching the workload's memory. By device clock.
    """

    null_ns: dict[bool, list[int]]
    floor_ns: list[int]
    run_ns: dict[str, list[int]]
    null_work_ns: dict[bool, float] = field(default_factory=dict)


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
        null_work_ns={} if clock is wire.Clock.HOST else _null_work_ns(trusted, bench, runs, nulls),
    )


def _null_work_ns(
    trusted: RunnerLink, bench: WorkloadContext, runs: dict[str, list[int]], nulls: dict[bool, list[int]]
) -> dict[bool, float]:
    """Return how much of a null run is not the protocol's: what a run of the probe takes beyond its do_bench is. The null kernel's own time
    where the probe says nothing: its launch would be inside the clock, or a workload has far more than its baselines touch."""
    net_ns = {name: steady(runs_ns) - steady(nulls[True]) + SHORT_NS for name, runs_ns in runs.items()}
    shortest_ns = min((net_ns[name] for name in VARIANTS if name != PROBE and name in net_ns), default=math.inf)
    if scalars_are_late(bench) or net_ns[PROBES[True]] > PROBE_FACTOR * shortest_ns:
        return dict.fromkeys(NULL, NULL_KERNEL_NS)
    benches_ns = []
    for _ in range(PROBE_BENCH_COUNT):
        timed(trusted, bench, PROBE)
        reply = trusted.call(Call(operation=Operation.BENCH, budget_ns=PROBE_BENCH_NS), BASELINE_S)
        if not (isinstance(reply, Answer) and reply.status is Status.OK and reply.samples_ns):
            raise RuntimeError(f"the baseline's runner did not time the probe: {reply}")
        benches_ns.append(statistics.median(reply.samples_ns))
    probe_ns = statistics.median(benches_ns)
    costs_ns = {copies: steady(runs[PROBES[copies]]) - probe_ns for copies in NULL}
    # A null run leaves large outputs cold, and copying them takes longer: then more of it than its kernel is not the protocol's.
    return {copies: min(NULL_LIMIT_NS, max(-TOUCH_LIMIT_NS, steady(nulls[copies]) - costs_ns[copies])) for copies in NULL}


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
            runs[name].append(timed(trusted, bench, name)[0].duration_ns)
            yield from signs.emit_if_due()
    return runs, {copies: null_runs(trusted, bench, copies=copies) for copies in NULL}


def _alone_by_device_clock(
    trusted: RunnerLink, bench: WorkloadContext, names: list[str], signs: Heartbeat
) -> Generator[wire.Progress, None, SoloRuns]:
    """In ABBA order, as next to a subject: a baseline less null runs of another second says more of the host than of the baseline."""
    among: dict[str, Arm] = {name: partial(timed, trusted, bench, name) for name in names}
    among |= {PROBES[copies]: partial(timed, trusted, bench, PROBE, copies=copies) for copies in PROBES}
    among |= {NULL[copies]: partial(_null_train, trusted, bench, copies=copies) for copies in NULL}
    first_ns = {name: arm(1)[0].duration_ns for name, arm in among.items()}
    shortest_ns = min((first_ns[name] for name in names), default=0) - first_ns[NULL[True]]
    count, length = ALONE_COUNT[wire.Clock.DEVICE_EVENTS], train_length(shortest_ns, longest_train(trusted, bench))
    runs: dict[str, list[int]] = {name: [] for name in among}
    for _ in range(max(ALONE_ROUNDS, math.ceil(count / (2 * length)))):
        for name in (*among, *reversed(among)):
            runs[name] += _durations_ns(among[name](length))
            yield from signs.emit_if_due()
    return runs, {copies: runs[NULL[copies]] for copies in NULL}


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
            arms[name] = _watched(parties.load, name, arms[name])
    if parties.clock is wire.Clock.DEVICE_EVENTS:
        arms[NULL[True]] = partial(_null_train, parties.trusted, baseline_bench, copies=True)
        arms[OWN_NULL] = partial(_null_train, parties.subject, bench, copies=parties.copies, trusted=False)
    return arms


def _watched(load: BoxLoad, name: str, arm: Arm) -> Arm:
    return lambda count: load.watch(name, lambda: arm(count))


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
    cycles_s, subject_ns, warming_s, length = [], 0, time.monotonic(), 1
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
            subject_ns = results[0].duration_ns
            for result in results:
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
    # The first of the cycles may have had something to load; trains have only the last.
    cycle_s = cycles_s[-1] if length > 1 else statistics.median(cycles_s)
    budget_s = parties.budget_s
    if parties.clock is wire.Clock.HOST:
        budget_s -= time.monotonic() - warming_s
    limit = plan_turns(parties.clock, cycle_s, max(budget_s, 0.0), between_s)
    least, turn_limit = (TURN_FLOOR, TURN_LIMIT) if parties.clock is wire.Clock.HOST else (SLOW_TURN_COUNT, LOOKS[-1])
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
    times.throttle_reasons |= set(parties.subject.device.conditions().get("throttle_reasons", "").split(",")) - {""}


def plan_turns(clock: wire.Clock, cycle_s: float, budget_s: float, between_s: float = 0.0) -> int:
    """How many turns there is time for: decided by the judge from verified runs, within the budget. cycle_s: everyone's train once.
    between_s: from turn to turn."""
    turns = int(PLANNED_SHARE * budget_s / max(2 * cycle_s + between_s, 1e-9))
    least, limit = (TURN_FLOOR, TURN_LIMIT) if clock is wire.Clock.HOST else (SLOW_TURN_COUNT, LOOKS[-1])
    return max(least, min(limit, turns))


def train_length(subject_ns: float, longest: int) -> int:
    """Return the runs of a train, of a kernel that takes subject_ns by device clock: the shorter, the more.

    As many as make the half-width half a percent or half a microsecond after the turns of the first look: 2.2 (Student's t) times 1.5 (two
    arms, and the estimator's own) times what single runs scatter: 0.6 to 1 us on an H100 and an H200, and 0.1 %, and half as much again.
    """
    subject_ns = max(0.0, subject_ns)
    scatter_ns = RUN_NOISE_NS + RUN_NOISE_SHARE * subject_ns
    runs = (2.2 * 1.5 * scatter_ns / max(TARGET_SHARE * subject_ns, TARGET_NS)) ** 2
    count = math.ceil(runs / (2 * LOOKS[0]))
    return max(1, min(count, longest))


def _durations_ns(results: Sequence[Run]) -> list[int]:
    return [result.duration_ns for result in results]


def _turn(
    among: dict[str, Arm], bench: WorkloadContext, length: int, times: Times, index: int, signs: Heartbeat
) -> Generator[wire.Progress, None, wire.Trial]:
    """Take a turn of trains of this length. Return the trial that stands for the subject's runs: the first that failed, or all."""
    durations_ns: dict[str, list[int]] = {name: [] for name in among}
    trials: list[wire.Trial] = []
    for name in (*among, *reversed(among)):
        results = among[name](length)
        yield from signs.emit_if_due()
        durations_ns[name] += _durations_ns(results)
        for result in results if name == SUBJECT else ():
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


def timed(trusted: RunnerLink, bench: WorkloadContext, name: str, count: int = 1, about_ns: int = 0, *, copies: bool = False) -> list[Run]:
    """Run a baseline, which takes about about_ns; or the probe, which copies its outputs if it is to."""
    how = RunOptions(
        variant=VARIANTS[name],
        limit_s=BASELINE_S + bench.problem.trial_s,
        warm_count=warm_count(trusted.device.CLOCK, about_ns) if count == 1 else 0,
        copy_out=copies or name != PROBE,  # of a baseline it says how null runs on the same places are
        count=count,
        inspect=False,
    )
    return _answered(run_train(trusted, bench, how), name)


def _answered(results: list[Run], name: str) -> list[Run]:
    """Runs of the trusted runner, which has to answer. RuntimeError where it did not."""
    if not (isinstance(results[0].reply, Answer) and results[0].reply.status is Status.OK):
        raise RuntimeError(f"the baseline's runner did not run {name!r}: {results[0].reply}")
    return results


def null_runs(
    trusted: RunnerLink, bench: WorkloadContext, *, copies: bool = False, floor: bool = False, count: int | None = None
) -> list[int]:
    """Time the protocol itself; the first after another kind of work is not like the rest. By the host's clock there is no other
    floor than the quickest of these: nothing runs on after `done`."""
    if floor and trusted.device.CLOCK is wire.Clock.HOST:
        return []
    wanted = 1 + (count or NULL_COUNT[trusted.device.CLOCK])
    length = 1 if floor else min(wanted, longest_train(trusted, bench))
    runs_ns: list[int] = []
    while len(runs_ns) < wanted:
        runs_ns += _durations_ns(_null_train(trusted, bench, length, copies=copies, floor=floor))
    return runs_ns[1:wanted]


def _null_train(
    runner: RunnerLink, bench: WorkloadContext, count: int, *, copies: bool = False, floor: bool = False, trusted: bool = True
) -> list[Run]:
    how = RunOptions(
        operation=Operation.FLOOR if floor else Operation.NULL,
        limit_s=BASELINE_S if trusted else None,
        copy_out=copies,
        warm_count=WARM_COUNT if count == 1 else 0,
        count=count,
        inspect=False,
    )
    results = run_train(runner, bench, how)
    return _answered(results, how.operation.name) if trusted else results
