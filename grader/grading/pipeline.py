"""How one submission is graded: built in one box (or found built), run in another (ranked: in several, in turn), judged from outside.

Emits facts and draws no conclusion; `grader/verdict/fold.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from pathlib import Path

from grader.errors import JudgeBroken, ProblemBroken
from grader.formats import with_calling_convention
from grader.grading.build import build_artifact, module_argv, plain
from grader.grading.ports import Host, Lane, LaneReservation, MeasurementSettings, Workspace
from grader.grading.profile import (
    ProfileClaims,
    RunTool,
    no_workload,
    profiled,
    profiled_workload,
    run_profile,
    run_tools,
    static_profile,
    unavailable_tools,
)
from grader.grading.redaction import after_hidden, run_end
from grader.grading.run_box import HeldRunBox, RunBox, closed_link
from grader.grading.sanitize import RunResult, limit_s, not_built, sanitizer_follows, too_late, too_slow, tool_for, without_counts
from grader.grading.step_clock import StepClock
from grader.grading.sweep import SweepPart, swept
from grader.isolation import Box, BoxExit, BoxSpec, GpuAccess, Purpose
from grader.model import Lease
from sandbox.protocol import wire
from sandbox.protocol.job_pipes import WAIT
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import entry_in
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step

STALE_S = 120.0  # a box that has waited for so long is replaced; the next one may have waited less
LOOK_S = 0.01
PROFILE_BOX = 1  # the number of the run box for profilers: the one before verified
EARLY_END_S = 0.5  # how long a box may take to end whose runner has not come
CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission. Where it is graded to its end, the last fact is its AttemptTimeline."""
    steps = StepClock()
    async with aclosing(_grade(lease, host, steps)) as facts:
        try:
            async for fact in facts:
                steps.follow(fact)
                host.times(steps, busy=steps.times, by_host_clock=steps.by_host_clock)
                yield fact
        finally:
            host.times(steps, busy=False, by_host_clock=steps.by_host_clock)
    yield steps.timeline()


async def _grade(lease: Lease, host: Host, steps: StepClock) -> AsyncGenerator[wire.Fact, None]:
    steps.enter(Step.DEVICE)
    with host.seat(lease.submission.new.device_kind) as seat, host.workspace(lease) as work:
        environment = await seat.environment()
        problem = problem_for(environment.device_kind, lease.problem.spec, hidden=runs_hidden(lease))
        yield _report_on(environment, host)
        yield wire.Progress(stage=wire.Stage.BUILDING)
        boxes = itertools.count()
        async with started_early(seat, lambda: host.run_box(_run_spec(lease, problem, host, work, seat, next(boxes)))) as run_box:
            build = await build_artifact(lease, host, work, environment, steps)
            yield build
            if build.outcome is not BuildOutcome.BUILT:
                steps.enter(Step.CLOSE)
                return
            steps.enter(Step.DEVICE)
            yield wire.Progress(stage=wire.Stage.WAITING)
            async with seat.lane() as lane:  # held to the end: all processes are timed on one device
                if lane.environment != environment:  # another lane was free first
                    yield _report_on(lane.environment, host)
                steps.enter(Step.BOX)
                if lease.submission.new.mode is wire.Mode.SWEEP:
                    async with aclosing(_sweep(lease, host, work, lane, run_box, problem, build)) as facts:
                        async for fact in facts:
                            yield fact
                    return
                met = failed = False  # met: whether a process has met a hidden workload, whose size it could report later
                result = RunResult()
                # It could tell a size to any other box that is alive.
                secret = bool(lease.problem.competition_id) and any(workload.hidden for workload in problem.workloads)
                for begins in _rounds(lease):
                    if begins is not None:
                        yield begins
                    failed, restart, met_before = False, False, met
                    steps.enter(Step.BOX)
                    async with host.turn(secret=secret), run_box() as taken:
                        job = _job(lease, problem, host, work, build, taken.box, taken.link_dir, on_gpu=seat.gpu is not None)
                        job = dataclasses.replace(job, kept_times=begins is None)
                        if begins is not None:
                            await taken.imported()  # nothing of a box runs while a baseline is timed alone
                        steps.enter(Step.LOAD)
                        async with aclosing(_judged(lane, job, taken, met_before=met_before)) as facts:
                            async for fact in facts:
                                if isinstance(fact, wire.Restart):
                                    restart = True
                                    steps.enter(Step.CLOSE)
                                    continue
                                met = met or (isinstance(fact, wire.Progress) and fact.hidden_at_ns is not None)
                                failed = failed or load_failed(fact)
                                result = result.after(fact)
                                yield fact
                    # Right in every process, or not right.
                    if failed or (begins is None and not restart):
                        break
                if lease.submission.new.mode is wire.Mode.PROFILE and not failed:
                    async for fact in _profile(lease, host, work, lane, seat, problem, build):
                        yield fact
        if sanitizer_follows(lease.submission.new, result, on_gpu=seat.gpu is not None):
            yield wire.Progress(stage=wire.Stage.PROFILING)
            claims = await _sanitized(lease, host, work, seat, result, problem, environment, steps, build)
            async for fact in profiled((claims,), host, build):
                yield fact


async def _sweep(
    lease: Lease,
    host: Host,
    work: Workspace,
    lane: Lane,
    run_box: Callable[[], AbstractAsyncContextManager[RunBox]],
    problem: wire.ProblemSpec,
    build: wire.Build,
) -> AsyncGenerator[wire.Fact, None]:
    """Judge the sizes of a sweep, each part of them in a fresh process."""

    async def judged(part: SweepPart) -> AsyncGenerator[wire.Fact, None]:
        async with host.turn(secret=False), run_box() as taken:
            job = _job(lease, dataclasses.replace(problem, workloads=part.workloads), host, work, build, taken.box, taken.link_dir)
            job = dataclasses.replace(job, measure_s=part.measure_s, sweep_s=part.sweep_s)
            await taken.imported()
            async with aclosing(_judged(lane, job, taken, met_before=False)) as facts:
                async for fact in facts:
                    yield fact

    async with aclosing(swept(problem.workloads, lease.problem.sweep_measure_s, host.profile, judged)) as facts:
        async for fact in facts:
            yield fact


async def _profile(
    lease: Lease, host: Host, work: Workspace, lane: Lane, seat: LaneReservation, problem: wire.ProblemSpec, build: wire.Build
) -> AsyncIterator[wire.Fact]:
    """Let the tools of profile mode look at a kernel that was right on every workload."""
    yield wire.Progress(stage=wire.Stage.PROFILING)
    on_gpu = seat.gpu is not None
    claimed = [await static_profile(lease, host, work, lane.environment)]
    assert work.make_output is not None
    for number, tool in enumerate(run_tools(on_gpu=on_gpu), PROFILE_BOX):
        chosen = profiled_workload(problem, largest=on_gpu and not tool.on_smallest)
        if chosen is None:
            claimed.append(no_workload(tool))
            continue
        with work.make_output() as out_dir:
            spec = _run_spec(lease, problem, host, work, seat, number, tool, out_dir)
            job = partial(_job, lease, chosen, host, work, build, mode=wire.Mode.PROFILE)
            async with host.turn(secret=False), aclosing(run_profile(tool, spec, job, lane, host, out_dir)) as found:
                async for each in found:
                    if isinstance(each, ProfileClaims):
                        claimed.append(each)
                    else:
                        yield each
    claimed.append(unavailable_tools(on_gpu=on_gpu))
    async for fact in profiled(tuple(claimed), host, build):
        yield fact


async def _sanitized(
    lease: Lease,
    host: Host,
    work: Workspace,
    seat: LaneReservation,
    result: RunResult,
    problem: wire.ProblemSpec,
    environment: wire.Environment,
    steps: StepClock,
    build: wire.Build,
) -> ProfileClaims:
    """Run a kernel that was verified once more, under the device's sanitizer, at the public workload
    that failed or at the smallest. Others have the lane while it is compiled for that. The box's own
    limit ends the run, so that the judge sees a runner that went away and need not be started anew."""
    new, on_gpu, now_s = lease.submission.new, seat.gpu is not None, asyncio.get_running_loop().time
    end_s = now_s() + limit_s(new.mode)
    tool = tool_for(new, result, on_gpu=on_gpu, contended=seat.contended)
    if isinstance(tool, ProfileClaims):
        return tool
    chosen = profiled_workload(problem, largest=False, preferred=result.failure.workload_id if result.failure else "")
    if chosen is None:
        return no_workload(tool)
    assert work.make_output is not None
    with work.make_output() as out_dir, work.make_output() as built_dir:
        if not on_gpu:
            work = dataclasses.replace(work, out_dir=built_dir, artifact_path=work.artifact_path.with_name("sanitized"))
            try:
                async with asyncio.timeout_at(end_s):
                    build = await build_artifact(lease, host, work, environment, steps, sanitize=True)
            except TimeoutError:
                return too_slow(new.mode)
            if build.outcome is not BuildOutcome.BUILT:
                return not_built(build)
            tool = tool_for(new, result, on_gpu=on_gpu, contended=seat.contended)  # others may have come
            if isinstance(tool, ProfileClaims):
                return tool
        steps.enter(Step.PROFILE)
        spec = _run_spec(lease, chosen, host, work, seat, PROFILE_BOX, tool, out_dir)
        spec = dataclasses.replace(spec, limits=dataclasses.replace(spec.limits, wall_s=max(0.0, end_s - now_s())))
        job = partial(_job, lease, chosen, host, work, build, mode=wire.Mode.TEST)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(None if new.mode is wire.Mode.SANITIZE else end_s):
                    lane = await stack.enter_async_context(seat.lane())
                    await stack.enter_async_context(host.turn(secret=False))
            except TimeoutError:
                return too_late(new.mode, tool.name)
            facts = await stack.enter_async_context(aclosing(run_profile(tool, spec, job, lane, host, out_dir)))
            (claims,) = [fact async for fact in facts if isinstance(fact, ProfileClaims)]
    return claims if new.mode is wire.Mode.SANITIZE else without_counts(claims)


def _rounds(lease: Lease) -> tuple[wire.Round | None, ...]:
    """What is said before each process, one after the other, each in a box of its own: in ranked mode there are several. The second of a
    benchmark is for one whose first asks for new times of the baselines."""
    if lease.ranking is None:
        return (None, wire.Round(index=0, count=1))
    count = lease.ranking.process_count
    return tuple(wire.Round(index=index, count=count) for index in range(count))


async def _judged(lane: Lane, job: wire.Job, taken: RunBox, *, met_before: bool) -> AsyncGenerator[wire.Fact, None]:
    """The facts of one process, up to how its box ended. met_before: an earlier process has met a hidden workload."""
    gone, loaded, hidden_at_ns, box = False, False, None, taken.box
    # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
    async with closed_link(box, Path(job.link_path)):
        asleep = True
        async for fact in lane.judge(job):
            if asleep and isinstance(fact, wire.Progress) and fact.stage is wire.Stage.LOADING:
                taken.give_job()
                asleep = False
            if isinstance(fact, wire.Broken):
                if fact.problem_at_fault:
                    raise ProblemBroken(fact.message)
                raise JudgeBroken(fact.message if loaded else fact.message + await _early_end(box))
            loaded = loaded or isinstance(fact, wire.Load)
            gone = gone or lost_runner(fact)
            if hidden_at_ns is None and isinstance(fact, wire.Progress):
                hidden_at_ns = fact.hidden_at_ns
            yield after_hidden(fact) if met_before else fact
    yield run_end(await _ending(box, CRASH_S if gone else 0.0), hidden_at_ns, met_before=met_before)


@asynccontextmanager
async def started_early(
    seat: LaneReservation, start: Callable[[], AbstractAsyncContextManager[RunBox]]
) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[RunBox]]]:
    """Start the run box while the kernel is being built if its device is free or a GPU; else when it is first asked for.

    The box leaves a GPU alone until it has a job, and holds nothing of the submission until the judge hands it the artifact. It is gone
    when the context that gives it is left. One that has waited for too long, or for another GPU, is replaced; anybody who takes a second
    one gets a new one.
    """
    early = _EarlyBox(start)
    if seat.idle or seat.gpu is not None:
        early.open_for(seat)

    @asynccontextmanager
    async def take() -> AsyncIterator[RunBox]:
        nonlocal early
        if early.opened and not await early.serves(seat):
            await early.close()
            early = _EarlyBox(start)
        early.open_for(seat)
        try:
            yield await early.box
        finally:
            await early.close()
            early = _EarlyBox(start)  # for the next process

    try:
        yield take
    finally:
        await early.close()


class _EarlyBox(HeldRunBox):
    """The box of a seat, which may be another one's by the time that it is taken."""

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[RunBox]]) -> None:
        super().__init__(start)
        self._gpu: GpuAccess | None = None
        self._since = 0.0

    def open_for(self, seat: LaneReservation) -> None:
        """Begin it, unless it was."""
        if not self.opened:
            self._gpu, self._since = seat.gpu, asyncio.get_running_loop().time()
            self.open()

    async def serves(self, seat: LaneReservation) -> bool:
        """Whether it is of this seat's device, fresh and alive; one that could not be started reports it to anybody who takes it."""
        if seat.gpu != self._gpu or asyncio.get_running_loop().time() - self._since > STALE_S:
            return False
        if not self.box.done() or self.box.exception() is not None:
            return True
        ended = asyncio.ensure_future(self.box.result().box.wait())
        await asyncio.wait([ended], timeout=LOOK_S)
        gone = ended.done()
        ended.cancel()
        return not gone


def runs_hidden(lease: Lease) -> bool:
    """Whether hidden workloads are run. In a competition only ranked submissions meet them: a kernel chooses how long it takes at a
    secret size, and the end of an attempt and the mean of its speedups would tell that as often as somebody tries."""
    return not lease.problem.competition_id or lease.ranking is not None


def problem_for(device_kind: str, spec: wire.ProblemSpec, *, hidden: bool = True) -> wire.ProblemSpec:
    """The problem with the workloads that are meant for this kind of device. hidden: False: only the public ones."""
    workloads = tuple(one for one in spec.workloads if one.device_kind in ("", device_kind) and (hidden or not one.hidden))
    if not workloads:
        which = "workload" if hidden else "public workload"
        text = f"problem {spec.problem_id!r} has no {which} for the device {device_kind!r}; add one, or leave device_kind out of one"
        raise ProblemBroken(text)
    return dataclasses.replace(spec, workloads=workloads)


def _report_on(environment: wire.Environment, host: Host) -> wire.Environment:
    return dataclasses.replace(environment, isolation=host.isolation.NAME)


def _run_spec(
    lease: Lease,
    problem: wire.ProblemSpec,
    host: Host,
    work: Workspace,
    seat: LaneReservation,
    number: int,
    tool: RunTool | None = None,
    out_dir: Path | None = None,
) -> BoxSpec:
    """A run box. out_dir: what a profiler, and the runner under it, may write to; else it has no such place."""
    # On a GPU whatever the language, for do_bench; the GPU itself is opened once the box has its job.
    new = lease.submission.new
    language = languages()[new.language]
    options: tuple[str, ...] = ("--language", language.module)
    if tool is None:
        options += (WAIT, "{link}")
    if seat.gpu is not None or language.needs_torch or out_dir is not None:
        options += ("--preload", "torch")
    if seat.gpu is not None:
        options += ("--import-device", seat.kind)
    command: tuple[str, ...] = ()
    directory: Path | None = None
    if tool is not None:
        options += tool.options
        command, directory = tool.command, tool.directory
    return BoxSpec(
        box_id=f"{work.box_id}-run" + (f"-{number}" if number else ""),
        purpose=Purpose.RUN,
        argv=(*command, *module_argv("sandbox.runner.run", "{link}/judge.sock", *options)),
        limits=host.profile.run_limits(problem, new.mode, on_gpu=seat.gpu is not None, measure_s=new.measure_s),
        slot=work.slot,
        link_dir=work.link_dir,
        out_dir=out_dir,
        gpu=seat.gpu,
        tool_dir=directory if directory is not None and directory.is_dir() else None,
    )


def _job(
    lease: Lease,
    problem: wire.ProblemSpec,
    host: Host,
    work: Workspace,
    build: wire.Build,
    box: Box,
    link_dir: Path | None = None,
    *,
    mode: wire.Mode | None = None,
    on_gpu: bool = True,
) -> wire.Job:
    """link_dir: None: the workspace's. mode: None: the submission's; in profile mode it is verified first, and never timed for a score."""
    new = lease.submission.new
    assert build.artifact_digest is not None
    timing = MeasurementSettings.of(new, problem, host.profile, on_gpu=on_gpu)
    return wire.Job(
        job_id=work.box_id,
        problem=with_calling_convention(problem, new),
        language=new.language,
        entry=new.entry or entry_in(problem, new.language),
        mode=mode or (wire.Mode.TEST if new.mode in (wire.Mode.PROFILE, wire.Mode.SANITIZE) else new.mode),
        link_path=str((link_dir or work.link_dir) / "judge.sock"),
        artifact_path=str(work.artifact_path),
        artifact_digest=build.artifact_digest,
        runner_uid=box.uid,
        load_s=host.profile.load_s,
        measure_s=timing.measure_s,
        precision=timing.precision,
    )


def lost_runner(fact: wire.Fact) -> bool:
    """Whether the judge lost the runner, so that the box ends by itself and knows why."""
    if isinstance(fact, wire.Trial):
        return fact.outcome is wire.TrialOutcome.CRASHED
    return isinstance(fact, wire.Load) and fact.outcome is wire.LoadOutcome.CRASHED


def load_failed(fact: wire.Fact) -> bool:
    """Whether this decides against the kernel, so that it need not be run again."""
    match fact:
        case wire.Violation():
            return True
        case wire.Load(outcome=outcome):
            return outcome is not wire.LoadOutcome.LOADED
        case wire.Trial(outcome=outcome):
            return outcome is not wire.TrialOutcome.PASSED
    return False


async def _early_end(box: Box) -> str:
    """How a box ended in which nothing of a submission has run yet, with the last line that it printed; "" where it has not ended."""
    try:
        async with asyncio.timeout(EARLY_END_S):
            end = await box.wait()
    except TimeoutError:
        return ""
    printed = end.output.decode("utf-8", "replace").strip().splitlines()[-1:]
    how = f"exit code {end.exit_code}" if end.cause is BoxCause.EXITED else end.cause.value
    return f" ({how}{f': {plain(printed[0], 300)}' if printed else ''})"


async def _ending(box: Box, patience_s: float) -> BoxExit:
    """How the box ended; one whose runner is gone reports it by itself within a moment, every other is killed."""
    try:
        async with asyncio.timeout(patience_s):
            return await box.wait()
    except TimeoutError:
        return await box.kill()
