"""Judging one kernel, from its first sign of life to its last measurement.

Theory of operation. Three processes share a device: this one, which is trusted and holds inputs, expected values, entropy and the
clock; a baseline runner, trusted too, which runs PyTorch; and the subject's runner, single-use, in a box, under another uid. Judge and
runner share an arena and a gate and nothing else. The runner has no result channel: what it says can only make it fail. What passes is
what the judge has copied out of the arena and compared with a reference that never left this process.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

from sandbox.devices import Device
from sandbox.judge.baseline import PASSED, Baseline, BaselineRun, runner_job
from sandbox.judge.explain import explain
from sandbox.judge.library_use import LibraryUse, own_share
from sandbox.judge.measure import measure
from sandbox.judge.references import ReferenceFailed, Task, load_task, redact_reference_errors
from sandbox.judge.runner_link import NoRunner, RunnerLink, Silence, accept, box_load, connect, is_ok
from sandbox.judge.timing import LookAllowance, TimingSetup, outdated, physical_floor_ns
from sandbox.judge.trial import RunOptions, WorkloadContext, byte_count, judge_run, run, working_bytes
from sandbox.protocol import wire
from sandbox.protocol.gate import Call, GateViolated, Operation, Status
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import rule_of

PROFILE_S, PROFILE_FACTOR = 60.0, 20  # for profilers themselves; a launch under one takes longer
ARRIVAL_S = 0.02  # of what a kernel printed, at the server
OBSERVED_S = 10.0  # for a profiler, next to what the launch under it may take


class RestartNeeded(Exception):
    """A fresh process has to be judged, after the baselines were timed: this one is right so far, and goes no further."""

    def __init__(self, cause: wire.RestartCause, own_share: float | None) -> None:
        self.cause, self.own_share = cause, own_share


def judge(job: wire.Job, device: Device, baseline: Baseline) -> Iterator[wire.Fact]:
    """Emit the facts of one job. Ends with Finished, with Restart, or with Broken where the kernel is not to blame."""
    sweep_end_s = time.monotonic() + job.sweep_s
    try:
        task = load_task(job.problem, device.TORCH)
        job = replace(job, problem=task.spec)
        artifact = Path(job.artifact_path).read_bytes()
        if hashlib.sha256(artifact).hexdigest() != job.artifact_digest:
            raise RuntimeError("the artifact is not the one that was built")
        yield plan_trials(job)
        device.reserve(working_bytes(job.problem))
        with ExitStack() as links:
            timed, sweep_s = measured_workloads(job.problem, job.mode), job.sweep_s if job.mode is wire.Mode.SWEEP else None
            clock = None
            if timed:
                clock = yield from baseline.place(task, timed, links, kept_times=job.kept_times, sweep_s=sweep_s)
            # Up to here it is our own code that takes its time, and the box sleeps; it is woken when this is heard.
            yield wire.Progress(stage=wire.Stage.LOADING)
            link = links.enter_context(accept(job.link_path, job.runner_uid, job.load_s * wire.WAIT_FACTOR))
            links.enter_context(device.round_free_memory())
            work = runner_job(task.spec, job.language, job.entry, device, task.templates)
            work = replace(work, argument_order=job.argument_order)
            subject = links.enter_context(connect(device, link, work, artifact, job.load_s, task.state))
            # From here on the runner has run untrusted code: believe nothing it says.
            yield subject.load_fact
            if subject.load_fact.outcome is wire.LoadOutcome.LOADED:
                libraries = None if job.problem.libraries is wire.Libraries.ALLOWED else LibraryUse(job.problem, artifact)
                if job.mode is wire.Mode.SWEEP and clock is not None:
                    yield from _sweep(job, subject, task, clock, libraries, sweep_end_s)
                else:
                    yield from _verify_and_measure(job, subject, task, clock, libraries)
        yield wire.Finished(job_id=job.job_id)
    except RestartNeeded as need:
        if need.cause is wire.RestartCause.OUTDATED:
            baseline.kept.forget(job.problem)
        yield wire.Restart(job_id=job.job_id, cause=need.cause, own_share=need.own_share)
    except GateViolated as violation:
        yield wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail=str(violation))
        yield wire.Finished(job_id=job.job_id)
    except NoRunner as absence:  # nothing of the submission has run in that box yet, so nothing of this is its fault
        yield wire.Broken(job_id=job.job_id, message=str(absence))
    except (torch.OutOfMemoryError, ReferenceFailed) as error:  # before there was a subject that could have taken the memory
        yield _problem_at_fault(job.job_id, job.problem, error)


def prepare(request: wire.Prepare, device: Device, baseline: Baseline) -> Iterator[wire.Fact]:
    """Compile and time the baselines of a problem before it has a submission. Ends as `judge` does; Broken means that a submission will
    find out by itself what is wrong with the problem."""
    try:
        task = load_task(request.problem, device.TORCH)
        workloads = measured_workloads(task.spec, wire.Mode.BENCHMARK)
        if baseline.kept.find(task.spec, workloads, device.conditions()) is None:
            device.reserve(working_bytes(task.spec))
            with ExitStack() as links:
                yield from baseline.place(task, workloads, links)
        yield wire.Finished(job_id=request.job_id)
    except (torch.OutOfMemoryError, ReferenceFailed) as error:
        yield _problem_at_fault(request.job_id, request.problem, error)


def _problem_at_fault(job_id: str, problem: wire.ProblemSpec, error: Exception) -> wire.Broken:
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError):
        text = text.splitlines()[0]
        text = f"problem {problem.problem_id!r} does not fit into the device's memory; make its workloads smaller ({text})"
    return wire.Broken(job_id=job_id, message=text, problem_at_fault=True)


def plan_trials(job: wire.Job) -> wire.Plan:
    """Return the trials that have to pass: every workload, public and hidden, in every mode. Of a sweep only what its sizes are."""
    names = tuple(workload.workload_id for workload in job.problem.workloads)
    if job.mode is wire.Mode.SWEEP:
        return wire.Plan(trials=(), rule=rule_of(job.problem), sweep=names)
    return wire.Plan(
        trials=tuple((name, wire.TrialPhase.VERIFY, job.problem.trial_count) for name in names),
        measured=tuple(workload.workload_id for workload in measured_workloads(job.problem, job.mode)),
        rule=rule_of(job.problem),
    )


def measured_workloads(problem: wire.ProblemSpec, mode: wire.Mode) -> tuple[wire.Workload, ...]:
    """The workloads that are timed. The hidden ones last, as where they are verified: between public ones, each would be seen to take its
    time."""
    if mode in (wire.Mode.TEST, wire.Mode.SANITIZE, wire.Mode.PROFILE):
        return ()
    measured = (workload for workload in problem.workloads if mode is wire.Mode.RANKED or not workload.hidden)
    return tuple(sorted(measured, key=lambda workload: workload.hidden))


def _verify_and_measure(
    job: wire.Job, subject: RunnerLink, task: Task, clock: BaselineRun | None, libraries: LibraryUse | None
) -> Generator[wire.Fact, None, wire.TrialOutcome]:
    """The public workloads to their last measurement, then the hidden ones: whatever a kernel that has met those says, in an error, a
    claimed time or a print, may tell of them, so nothing of it is shown. Of each kind all are verified before the first is timed. Ends with
    the first trial that failed, and returns its outcome. The device's memory was reserved: where it runs out, the subject has it."""
    workload = job.problem.workloads[0]
    try:
        for hidden in (False, True):
            part = tuple(workload for workload in job.problem.workloads if workload.hidden is hidden)
            if not part:
                continue
            with redact_reference_errors(hidden=hidden):
                if hidden:
                    time.sleep(ARRIVAL_S)  # what was printed before has time to arrive
                if hidden and any(task.templates):
                    subject.tell(task.templates, job.load_s)
                following: WorkloadContext | None = None
                for workload, after in zip(part, (*part[1:], None), strict=True):
                    bench = following or WorkloadContext(task, workload)
                    following = WorkloadContext(task, after) if after else None
                    outcome = yield from _verify(job, subject, bench, following, libraries)
                    if outcome is not PASSED:
                        return outcome
                if job.mode is wire.Mode.PROFILE:
                    yield from _profile(job, subject, part[0], task)
                    return PASSED
                if clock is None and measured_workloads(job.problem, job.mode):
                    raise RestartNeeded(wire.RestartCause.NOT_TIMED, _observe(job, subject, task)[0])
                if libraries is not None:
                    yield libraries.evidence()
                for workload in (measured for measured in measured_workloads(job.problem, job.mode) if measured in part):
                    assert clock is not None
                    yield wire.Progress(stage=wire.Stage.MEASURING, workload_id=workload.workload_id)
                    outcome = yield from _measure(job, subject, workload, task, clock)
                    if outcome is not PASSED:
                        return outcome
    except torch.OutOfMemoryError as error:
        yield wire.Trial(
            workload_id=workload.workload_id,
            hidden=workload.hidden,
            phase=wire.TrialPhase.VERIFY,
            index=job.problem.trial_count,
            outcome=wire.TrialOutcome.OUT_OF_MEMORY,
            message=str(error).splitlines()[0],
        )
        return wire.TrialOutcome.OUT_OF_MEMORY
    return PASSED


def _sweep(
    job: wire.Job, subject: RunnerLink, task: Task, clock: BaselineRun, libraries: LibraryUse | None, end_s: float
) -> Iterator[wire.Fact]:
    """The sizes one after the other, each verified and then timed: one that is wrong says nothing of the next. Ends early where the time
    of the sweep is over, and where the runner cannot go on; the server has a fresh one for the sizes that are left."""
    for workload in job.problem.workloads:
        if workload.workload_id not in clock.alone or time.monotonic() > end_s:
            return
        size = workload.workload_id
        yield wire.Plan(trials=((size, wire.TrialPhase.VERIFY, job.problem.trial_count),), measured=(size,), rule=rule_of(job.problem))
        job_of_size = replace(job, problem=replace(job.problem, workloads=(workload,)))
        outcome = yield from _verify_and_measure(job_of_size, subject, task, clock, libraries)
        if subject.silence is not None or outcome in wire.ENDS_PROCESS:
            return


def _profile(job: wire.Job, subject: RunnerLink, workload: wire.Workload, task: Task) -> Iterator[wire.Fact]:
    """Have the runner profile itself on fresh inputs of a public workload. What it finds it leaves in its box's {out}."""
    if workload.hidden:
        raise RuntimeError("a hidden workload is never profiled")
    yield wire.Progress(stage=wire.Stage.PROFILING, workload_id=workload.workload_id)
    bench = WorkloadContext(task, workload)
    result = run(subject, bench, RunOptions())
    if is_ok(result.reply):
        subject.call(Call(operation=Operation.PROFILE), PROFILE_S + PROFILE_FACTOR * job.problem.trial_s)


def _verify(
    job: wire.Job, subject: RunnerLink, bench: WorkloadContext, following: WorkloadContext | None, libraries: LibraryUse | None
) -> Generator[wire.Fact, None, wire.TrialOutcome]:
    """The trials of a workload, before those of the following one. Where its problem asks for libraries, one of them is observed, drawn at
    random. Not the first: in it kernels tune themselves, partly by functions of libraries."""
    workload, count = bench.workload, job.problem.trial_count
    observed_index = 0
    if libraries is not None:
        count = max(count, 2)
        observed_index = 1 + secrets.randbelow(count - 1)
    hidden_at_ns = time.monotonic_ns() if workload.hidden else None
    yield wire.Progress(stage=wire.Stage.VERIFYING, workload_id=workload.workload_id, hidden_at_ns=hidden_at_ns)
    earlier: list[torch.Tensor] | None = None
    ahead = subject.device.CLOCK is wire.Clock.HOST  # a core is free; on a GPU it would take the kernel's memory bandwidth
    with ThreadPoolExecutor(max_workers=1) as pool:
        for index in range(count):
            drawn = bench if index + 1 < count else following
            meanwhile = drawn.drawing_ahead(pool, subject.device) if ahead and drawn else nullcontext()
            how = RunOptions(poison_allocations=True, stir=True, meanwhile=meanwhile)
            if libraries is not None and index == observed_index:
                result = run(subject, bench, replace(how, operation=libraries.operation, limit_s=libraries.limit_s))
                libraries.add(result.reply, hidden=workload.hidden)
            else:
                result = run(subject, bench, how)
            trial = judge_run(result, bench, wire.TrialPhase.VERIFY, index)
            if not workload.hidden:
                trial = explain(trial, result, bench, earlier, takes_outputs=subject.takes_outputs)
            yield trial
            if trial.outcome is not PASSED:
                return trial.outcome
            earlier = result.outputs
    return PASSED


def _measure(
    job: wire.Job, subject: RunnerLink, workload: wire.Workload, task: Task, clock: BaselineRun
) -> Generator[wire.Fact, None, wire.TrialOutcome]:
    problem = job.problem
    parties = TimingSetup(
        subject=subject,
        trusted=clock.trusted,
        copies=languages()[job.language].returns_outputs
        and problem.convention is not wire.Convention.DESTINATION
        and bool(problem.separate_outputs)
        and not subject.takes_outputs,
        alone=clock.alone[workload.workload_id],
        budget_s=job.measure_s,
        load=box_load(subject.link) if subject.device.CLOCK is wire.Clock.HOST else None,
        precision=job.precision,
        allowance=LookAllowance.POCOCK if job.mode is wire.Mode.RANKED else LookAllowance.FACTOR,
    )
    floor_ns = physical_floor_ns(
        workload.moved_bytes,
        workload.flops,
        {tensor.dtype for tensor in (*problem.inputs, *problem.outputs) if tensor.shape},
        sum(byte_count(output, workload.axes) for output in problem.outputs),
        subject.device.ceilings(),
    )
    is_last = workload is measured_workloads(problem, job.mode)[-1]
    bench, baseline_bench = (WorkloadContext(task, workload) for _ in range(2))
    for fact in measure(parties, bench, baseline_bench, floor_ns):
        if clock.reused and isinstance(fact, wire.Measurement) and outdated(parties, fact):
            raise RestartNeeded(wire.RestartCause.OUTDATED, _observe(job, subject, task)[0])
        if is_last and isinstance(fact, wire.Measurement):
            share, reusable = _observe(job, subject, task) if job.kept_times else (job.own_share, True)
            if not reusable:
                raise RestartNeeded(wire.RestartCause.UNOBSERVED, share)
            fact = replace(fact, own_share=share)
        yield fact
        if isinstance(fact, wire.Trial) and fact.outcome is not PASSED:
            return fact.outcome
    return PASSED


def _observe(job: wire.Job, subject: RunnerLink, task: Task) -> tuple[float | None, bool]:
    """Launch the public workload that is timed last once more. Return the share of its own kernels as its process reports it (None where
    that has no profiler), and whether another can be judged in that process. That may break a kernel that is right, so nothing is timed
    later."""
    bench = WorkloadContext(task, measured_workloads(job.problem, wire.Mode.BENCHMARK)[-1])  # no hidden one
    reply = run(subject, bench, RunOptions(operation=Operation.OBSERVE_AMOUNTS, limit_s=OBSERVED_S + job.problem.trial_s)).reply
    share = own_share(reply.message, subject.artifact) if is_ok(reply) else None
    return share, not isinstance(reply, Silence) and reply.status in (Status.OK, Status.RAISED)
