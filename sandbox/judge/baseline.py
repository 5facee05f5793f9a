"""The trusted baseline runner: PyTorch's own time by the same protocol and the same loop as the subject, and its times while it was alone.

A process of its own next to the judge, kept from job to job: the subject must not be timed against a cold start, and what
`torch.compile` makes of a problem is made once. For each job it receives the problem on its standard input, and link and memory as every
runner does. Its times alone are kept where nothing slowed them, for some minutes, and for the same problem, workload and conditions: a
wrong kernel does not wait for them. A measurement that they do not fit is done again by a fresh process, with new ones
(docs/decisions/0057).
"""

from __future__ import annotations

import math
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess
from typing import BinaryIO

from sandbox.devices import Device, open_device
from sandbox.judge import baseline_process
from sandbox.judge.references import ReferenceFailed, Task, redact_reference_errors
from sandbox.judge.runner_link import NoRunner, RunnerLink, Silence, connect, foreign_cpu_ns, is_ok
from sandbox.judge.timing import EAGER, LOOKS, NULL, PROBE, VARIANTS, WARMUP_COUNT, SoloTimings, steady
from sandbox.judge.trial import (
    TRAIN_BYTES,
    Run,
    RunOptions,
    WorkloadContext,
    arena_bytes,
    longest_train,
    rounded,
    run,
    run_train,
)
from sandbox.protocol import wire
from sandbox.protocol.devices import throttled
from sandbox.protocol.gate import SAMPLE_LIMIT, Answer, Call, Operation
from sandbox.protocol.languages import module_of

SIGN_S = 20.0
PROBES = {False: "probe", True: "probe with copy"}
NULL_COUNT = {wire.Clock.DEVICE_EVENTS: 12, wire.Clock.HOST: 8}
ALONE_COUNT = {wire.Clock.DEVICE_EVENTS: 24, wire.Clock.HOST: 6}
ALONE_ROUNDS = 5  # by device clock, at least, each a train there and one back
PROBE_BENCH_NS = 50_000_000
PROBE_FACTOR, SHORT_NS = 2, 5_000.0  # a probe that takes so many times as long as the shortest baseline says nothing of it
NULL_KERNEL_NS = 2_300.0  # of a null kernel by do_bench, on an H100 and an H200
# What touching memory costs is 2 to 6 us on an H100 and an H200, more for outputs that are copied. A null kernel takes 2 to 3 us, and
# copies of outputs that it leaves cold 9 us longer at 16 MB; L2 holds 50.
TOUCH_LIMIT_NS, NULL_LIMIT_NS = 10_000.0, 40_000.0
WARM_COUNT = 3  # launches before a single run by device clock; a train begins on the device
RUN_NOISE_NS, RUN_NOISE_SHARE = 1_500.0, 0.001
TARGET_NS, TARGET_SHARE = 500.0, 0.005
ONE_WARM_LAUNCH_NS, NO_WARM_LAUNCH_NS = 1_000_000, 20_000_000  # a kernel that takes longer gets one of these launches, or none
BENCH_NS = {wire.Clock.DEVICE_EVENTS: 100_000_000, wire.Clock.HOST: 400_000_000}  # do_bench's own default on a device
# By device clock, of short kernels: where tensors lie moves their time, and the first do_bench of a process can take half as long again.
PLACE_COUNT, PLACES_TO_NS = 5, 1_000_000
BENCH_S, BENCH_LAUNCHES = 10.0, 12
# A judge that waits for longer is taken for dead, and the submission could have it so (grader/dispatch/lanes.py).
BENCH_LIMIT_S, BENCH_LIMIT_TRIALS = 90.0, 3
BASELINE_S = 60.0  # trusted, so not held to the problem's trial_s; beyond this the judge itself is unwell
COMPILE_S = 380.0  # max-autotune tries many kernels; the judge has to say something before it is taken for dead
PASSED = wire.TrialOutcome.PASSED
Arm = Callable[[int], list[Run]]  # a train of so many runs
KEPT_S = 600.0
SOLO_SHARE = 0.5  # of a sweep's time, for the baselines while they are alone; the sizes behind that are left out
# How many cores others may use meanwhile: next to none, unless these are enough for all that judge and baseline do.
QUIET_CORES, OWN_CORES = 0.3, 4
# Of a device's conditions, those that are the same from job to job. Its clocks and its temperature are not.
SAME_CONDITIONS = ("sm_clock_max_mhz", "memory_clock_max_mhz", "power_limit_w", "persistence", "ecc", "mig")
Conditions = Mapping[str, str]
Key = tuple[str, ...]
LOAD_S = 60.0


class HostActivity:
    """Load that others put on this machine, from when this is made. cpu_ns: the CPU time that they have had; None where that is not
    known."""

    def __init__(self, cpu_ns: Callable[[], int | None] = foreign_cpu_ns, clock: Callable[[], float] = time.monotonic) -> None:
        self._cpu_ns, self._clock = cpu_ns, clock
        self._begun_ns, self._begun_s = cpu_ns(), clock()

    def quiet(self, core_count: int) -> bool:
        """Return whether others have done next to nothing until now; also where nothing is known, for then times are compared alone."""
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
        self._problems: OrderedDict[str, dict[Key, tuple[SoloTimings, float]]] = OrderedDict()
        self._unfit_since_s: dict[str, float] = {}  # problems, by digest

    def load(self, problem: wire.ProblemSpec) -> None:
        """The trusted runner loads this problem, if it has not, and forgets the one that it loaded first."""
        self._problems.setdefault(problem.digest, {})
        if len(self._problems) > self._problem_count:
            oldest, _ = self._problems.popitem(last=False)
            self._unfit_since_s.pop(oldest, None)

    def keep(self, problem: wire.ProblemSpec, timings: Mapping[str, SoloTimings], conditions: Conditions) -> None:
        """Keep the times of workloads, by name, unless the device was slowed meanwhile, or such times did not fit a while ago."""
        if problem.digest not in self._problems or not problem.digest or throttled(conditions) or self.unfit(problem):
            return
        for workload in problem.workloads:
            if workload.workload_id in timings:
                self._problems[problem.digest][_key(workload, conditions)] = timings[workload.workload_id], self._clock()

    def find(self, problem: wire.ProblemSpec, workloads: Sequence[wire.Workload], conditions: Conditions) -> dict[str, SoloTimings] | None:
        """The times of all these workloads, by name; None where those of one are missing or too old, or the device is slowed now."""
        entries = self._problems.get(problem.digest, {})
        timings, oldest_s = dict[str, SoloTimings](), self._clock() - KEPT_S
        for workload in workloads:
            entry = entries.get(_key(workload, conditions))
            if entry is not None and entry[1] > oldest_s:
                timings[workload.workload_id] = entry[0]
        return timings if len(timings) == len(workloads) and not throttled(conditions) else None

    def unfit(self, problem: wire.ProblemSpec) -> bool:
        """Return whether kept times of this problem did not fit a while ago, so that none are kept now."""
        return self._unfit_since_s.get(problem.digest, -math.inf) > self._clock() - KEPT_S

    def forget(self, problem: wire.ProblemSpec) -> None:
        """Times that did not fit a measurement are not used again, and no others of the problem are kept for a while: a matmul that runs
        into a GPU's limit of power is slower next to a kernel than alone, every time, and each such measurement is made twice."""
        self._problems.get(problem.digest, {}).clear()
        self._unfit_since_s[problem.digest] = self._clock()


def _key(workload: wire.Workload, conditions: Conditions) -> Key:
    return repr(workload), *(conditions.get(name, "") for name in SAME_CONDITIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRun:
    """The trusted runner, and its times while it was alone, by workload. reused: these times are of an earlier job."""

    trusted: RunnerLink
    alone: Mapping[str, SoloTimings]
    reused: bool = False


class Baseline:
    """The judge's handle on the process, which is forked before this process opens its device and runs anything: its imports are there.
    kept: what baselines took while they were alone. process: a class of multiprocessing's. files: open here, and not for the baseline."""

    def __init__(self, kind: str, process: type[BaseProcess] = ForkProcess, files: Sequence[BinaryIO] = ()) -> None:
        self.kept = KeptTimings(wire.KEPT_PROBLEM_COUNT)
        self._ready = False
        self._link, link = socket.socketpair(socket.AF_UNIX)
        requests, self._requests = multiprocessing.Pipe(duplex=False)
        ends = link, requests, (self._link, self._requests, *files)
        self._process = process(target=baseline_process.run, args=(kind, *ends), name="baseline", daemon=True)
        self._process.start()
        link.close()
        requests.close()
        self.device = open_device(kind)

    def place(
        self, task: Task, workloads: Sequence[wire.Workload], links: ExitStack, *, kept_times: bool = False, sweep_s: float | None = None
    ) -> Generator[wire.Fact, None, BaselineRun | None]:
        """Start the process on a problem, with its times alone: those that are kept, or new ones. kept_times: times of an earlier job will
        do; None where there are none: then the kernel is verified first. sweep_s: of the sweep that the workloads are of."""
        problem = task.spec
        solo = self.kept.find(problem, workloads, self.device.conditions()) if kept_times else None
        # Where kept times did not fit a while ago, new ones are taken at once: verifying first would cost a second process. By the host's
        # clock they are not, for the box imports meanwhile.
        at_once = not kept_times or (self.device.CLOCK is wire.Clock.DEVICE_EVENTS and self.kept.unfit(problem))
        if solo is None and not at_once:
            return None
        trusted = links.enter_context(self.serve(problem))
        if solo is None:
            alone = yield from self._time_alone(task, workloads, trusted, sweep_s)
            return BaselineRun(trusted=trusted, alone=alone)
        for workload in workloads:
            name = workload.workload_id
            solo[name] = with_new_nulls(solo[name], trusted, WorkloadContext(task, workload))
        return BaselineRun(trusted=trusted, alone=solo, reused=True)

    def _time_alone(
        self, task: Task, workloads: Sequence[wire.Workload], trusted: RunnerLink, sweep_s: float | None
    ) -> Generator[wire.Fact, None, dict[str, SoloTimings]]:
        """Time the baselines while there is no subject, and keep the times of a quiet machine; reports it, because what is compiled for the
        first time takes a while."""
        compiled = ("compile", *task.spec.baselines) if self.device.CLOCK is wire.Clock.DEVICE_EVENTS else ()
        variants = tuple(name for name in VARIANTS if name == EAGER or name in compiled)
        alone, begun_s, activity = dict[str, SoloTimings](), time.monotonic(), HostActivity()
        for workload in workloads:
            if sweep_s is not None and time.monotonic() - begun_s > SOLO_SHARE * sweep_s:
                return alone
            yield wire.Progress(stage=wire.Stage.BASELINE, workload_id=None if sweep_s is None else workload.workload_id)
            with redact_reference_errors(hidden=workload.hidden):
                alone[workload.workload_id] = yield from time_alone(trusted, WorkloadContext(task, workload), variants)
        if activity.quiet(os.cpu_count() or 1):
            self.kept.keep(task.spec, alone, self.device.conditions())
        return alone

    @contextmanager
    def serve(self, problem: wire.ProblemSpec) -> Iterator[RunnerLink]:
        """Let the process run this problem's reference until the context is left."""
        self.started()
        job = runner_job(problem, "", "", self.device, trusted=True)

        def tell() -> None:
            self.kept.load(problem)
            self._requests.send_bytes(wire.encode(wire.Prepare(job_id="baseline", problem=problem)))

        with ExitStack() as stack:
            try:
                runner = stack.enter_context(connect(self.device, self._link, job, b"", LOAD_S, before=tell))
            except NoRunner as absence:  # it may answer this job later, so it is ended with its judge
                raise RuntimeError(f"the baseline did not take its job within {LOAD_S:g} s: {absence}") from None
            if runner.load_fact.outcome is not wire.LoadOutcome.LOADED:
                raise RuntimeError(f"the baseline did not load: {runner.loaded}")
            yield runner

    def started(self) -> None:
        """Wait until the process has opened its device: from then on it is among those that belong there."""
        if not self._ready and not self._link.recv(1):
            raise RuntimeError("the baseline's process ended while it started")
        self._ready = True

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._link.close()


def runner_job(
    problem: wire.ProblemSpec, language: str, entry: str, device: Device, templates: tuple[str, ...] = (), *, trusted: bool = False
) -> wire.RunnerJob:
    """Return the job of a runner: the part of a problem that it gets to know. An arena's exact size is for a trusted one, and the templates
    of hidden workloads are left out: the values in them would tell."""
    needed = arena_bytes(problem, TRAIN_BYTES if device.CLOCK is wire.Clock.DEVICE_EVENTS else 0)
    return wire.RunnerJob(
        device_kind=device.KIND,
        language=language,
        language_module=module_of(language),
        entry=entry,
        inputs=problem.inputs,
        outputs=problem.separate_outputs,
        axes=problem.axes,
        convention=problem.convention,
        templates=tuple("" if size.hidden else template for size, template in zip(problem.workloads, templates, strict=False)),
        arena_bytes=needed if trusted else rounded(needed),
    )


class Heartbeat:
    """Says once more what is being done where nothing was said for SIGN_S; made when something was."""

    def __init__(self, stage: wire.Stage, workload_id: str | None = None) -> None:
        self._fact, self._said = wire.Progress(stage=stage, workload_id=workload_id), time.monotonic()

    def emit_if_due(self) -> Iterator[wire.Progress]:
        """Emit it, if it is time."""
        if time.monotonic() - self._said >= SIGN_S:
            self._said = time.monotonic()
            yield self._fact


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
    """Time null runs and baselines while nobody else is there. The first runs are a warm-up, and compile what is to be compiled.

    By device clock in ABBA order, as next to a subject: a baseline less null runs of another second says more of the host than of the
    baseline.
    """
    clock, names, signs = trusted.device.CLOCK, list[str](), Heartbeat(wire.Stage.BASELINE)
    for name in variants:
        how = RunOptions(variant=VARIANTS[name], limit_s=BASELINE_S + bench.problem.trial_s if name == EAGER else COMPILE_S)
        replies = []
        for _ in range(WARMUP_COUNT):
            replies.append(run(trusted, bench, how).reply)
            yield from signs.emit_if_due()
        failure = next((_failure(reply) for reply in replies if not is_ok(reply)), None)
        if failure is None:
            names.append(name)
        elif trusted.silence is not None:
            raise RuntimeError(f"the baseline's runner did not answer to {name!r}: {failure}")
        elif name == EAGER:
            raise ReferenceFailed(f"the reference does not run by itself: {failure}")
        else:
            why = "on a hidden workload" if bench.workload.hidden else failure  # an error may quote its size
            sys.stderr.write(f"baseline {name!r} of {bench.problem.problem_id!r} does not run: {why}\n")
    arms: dict[str, Arm] = {name: partial(timed, trusted, bench, name) for name in names}
    runs_ns: dict[str, list[int]] = {name: [] for name in names}
    if clock is wire.Clock.HOST:
        for name in names:
            for _ in range(ALONE_COUNT[clock]):
                runs_ns[name].append(arms[name](1)[0].duration_ns)
                yield from signs.emit_if_due()
        return SoloTimings(null_ns={copies: null_runs(trusted, bench, copies=copies) for copies in NULL}, floor_ns=[], run_ns=runs_ns)
    arms |= {PROBES[copies]: partial(timed, trusted, bench, PROBE, copies=copies) for copies in PROBES}
    arms |= {NULL[copies]: partial(null_train, trusted, bench, copies=copies) for copies in NULL}
    first_ns = {name: arm(1)[0].duration_ns for name, arm in arms.items()}
    shortest_ns = min((first_ns[name] for name in names), default=0) - first_ns[NULL[True]]
    length = train_length(shortest_ns, longest_train(trusted, bench))
    for _ in range(max(ALONE_ROUNDS, math.ceil(ALONE_COUNT[clock] / (2 * length)))):
        for name in (*arms, *reversed(arms)):
            runs_ns.setdefault(name, []).extend(result.duration_ns for result in arms[name](length))
            yield from signs.emit_if_due()
    nulls_ns = {copies: runs_ns[NULL[copies]] for copies in NULL}
    return SoloTimings(
        null_ns=nulls_ns,
        floor_ns=null_runs(trusted, bench, floor=True),
        run_ns={name: runs_ns[name] for name in names},
        null_work_ns=_null_work_ns(trusted, bench, runs_ns, nulls_ns),
        reported=(yield from bench_baselines(trusted, bench, {name: runs_ns[name] for name in names}, BENCH_NS[clock], signs)),
    )


def bench_baselines(
    trusted: RunnerLink, bench: WorkloadContext, alone: Mapping[str, Sequence[int]], budget_ns: int, signs: Heartbeat
) -> Generator[wire.Progress, None, dict[str, wire.Samples]]:
    """do_bench of each baseline that comes to one, on inputs like all others. alone: their runs, in nanoseconds."""
    reported = dict[str, wire.Samples]()
    for name, runs_ns in alone.items() if bench.problem.is_repeatable else ():
        launch, limit_s = partial(timed, trusted, bench, name), bench_limit_s(bench.problem.trial_s)
        if samples := bench_samples(trusted, launch, budget_ns, limit_s, place_count(trusted.device.CLOCK, min(runs_ns))):
            reported[name] = samples
        yield from signs.emit_if_due()
    return reported


def bench_samples(
    runner: RunnerLink, launch: Callable[[], object], budget_ns: int, limit_s: float, places: int = PLACE_COUNT
) -> wire.Samples | None:
    """do_bench of what a runner launches, by the runner itself, on so many places in turn; None where it comes to none."""
    samples_ns, end_s = list[int](), time.monotonic() + limit_s
    for _ in range(places):
        launch()
        reply = runner.call(Call(operation=Operation.BENCH, budget_ns=budget_ns // places), max(0.0, end_s - time.monotonic()))
        if not (is_ok(reply) and reply.samples_ns and all(reply.samples_ns)):
            return None
        samples_ns += reply.samples_ns[: SAMPLE_LIMIT // places]
    return wire.Samples(durations_ns=tuple(samples_ns))


def place_count(clock: wire.Clock, run_ns: float) -> int:
    """On how many places do_bench is taken of what takes run_ns in a run."""
    return PLACE_COUNT if clock is wire.Clock.DEVICE_EVENTS and run_ns < PLACES_TO_NS else 1


def bench_limit_s(trial_s: float, launch_ns: float | None = None) -> float:
    """How long a runner may be in its do_bench. That keeps its budget but for a handful of launches and cache writes; one that is slower is
    not coming back."""
    launch_s = trial_s if launch_ns is None else 2e-9 * launch_ns
    return min(BENCH_S + BENCH_LAUNCHES * launch_s, BENCH_LIMIT_S + BENCH_LIMIT_TRIALS * trial_s)


def _failure(reply: Answer | Silence) -> str:
    match reply:
        case Silence.GONE:
            return "its process ended"
        case Silence.TIMED_OUT:
            return "it did not come back in time"
    return reply.message or reply.status.name.lower().replace("_", " ")


def _null_work_ns(
    trusted: RunnerLink, bench: WorkloadContext, runs: dict[str, list[int]], nulls: dict[bool, list[int]]
) -> dict[bool, float]:
    """Return how much of a null run is not the protocol's: what a run of the probe takes beyond its do_bench is. The null kernel's own time
    where the probe says nothing: a workload has far more than its baselines touch."""
    net_ns = {name: steady(runs_ns) - steady(nulls[True]) + SHORT_NS for name, runs_ns in runs.items()}
    shortest_ns = min((net_ns[name] for name in VARIANTS if name != PROBE and name in net_ns), default=math.inf)
    if net_ns[PROBES[True]] > PROBE_FACTOR * shortest_ns:
        return dict.fromkeys(NULL, NULL_KERNEL_NS)
    costs_ns = dict[bool, float]()
    for copies in NULL:
        samples = bench_samples(trusted, partial(timed, trusted, bench, PROBE, copies=copies), PROBE_BENCH_NS, BASELINE_S)
        if samples is None:
            raise RuntimeError(f"the baseline's runner did not time the probe: {trusted.reply()}")
        costs_ns[copies] = steady(runs[PROBES[copies]]) - statistics.median(samples.durations_ns)
    # A null run leaves large outputs cold: copying them takes longer, never less long, and more of it than its kernel is not protocol.
    work_ns = {copies: min(NULL_LIMIT_NS, max(-TOUCH_LIMIT_NS, steady(nulls[copies]) - costs_ns[copies])) for copies in NULL}
    return {copies: max(work_ns[copies], work_ns[False]) for copies in NULL}


def train_length(subject_ns: float, longest: int) -> int:
    """Return the runs of a train, of a kernel that takes subject_ns by device clock: the shorter, the more.

    As many as make the half-width half a percent or half a microsecond after the turns of the first look: 2.2 (Student's t) times 1.5 (two
    arms, and the estimator's own) times what single runs scatter: 0.6 to 1 us on an H100 and an H200, and 0.1 %, and half as much again.
    """
    subject_ns = max(0.0, subject_ns)
    scatter_ns = RUN_NOISE_NS + RUN_NOISE_SHARE * subject_ns
    runs = (2.2 * 1.5 * scatter_ns / max(TARGET_SHARE * subject_ns, TARGET_NS)) ** 2
    return max(1, min(math.ceil(runs / (2 * LOOKS[0])), longest))


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
    return _trusted_train(trusted, bench, how, name)


def _trusted_train(trusted: RunnerLink, bench: WorkloadContext, how: RunOptions, name: str) -> list[Run]:
    """Runs of the trusted runner, which has to answer. RuntimeError where it did not."""
    results = run_train(trusted, bench, how)
    if not is_ok(results[0].reply):
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
        runs_ns += [result.duration_ns for result in null_train(trusted, bench, length, copies=copies, floor=floor)]
    return runs_ns[1:wanted]


def null_train(
    runner: RunnerLink, bench: WorkloadContext, count: int, *, copies: bool = False, floor: bool = False, trusted: bool = True
) -> list[Run]:
    """Time the protocol itself: a train of null runs. copies: with the copy that a kernel which returns its outputs makes."""
    how = RunOptions(
        operation=Operation.FLOOR if floor else Operation.NULL,
        limit_s=BASELINE_S if trusted else None,
        copy_out=copies,
        warm_count=WARM_COUNT if count == 1 else 0,
        count=count,
        inspect=False,
    )
    return _trusted_train(runner, bench, how, how.operation.name) if trusted else run_train(runner, bench, how)
