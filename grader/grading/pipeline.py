"""Grades one submission: built in one box (or taken from the cache), run in another (ranked: in several, in turn), judged from outside.

Emits facts and draws no conclusion; `grader/verdict/fold.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from pathlib import Path

from grader.errors import JudgeBroken, ProblemBroken
from grader.grading.attempt import Attempt, RunResult, StepClock
from grader.grading.build import build_artifact, cut, plain
from grader.grading.ports import Host, Lane
from grader.grading.profile import profile_kernel, profiled
from grader.grading.run_box import RunBox, closed_link, ending
from grader.grading.sanitize import sanitized, sanitizer_follows
from grader.isolation import Box, BoxExit
from grader.model import Lease
from grader.rules.disclosure import Exposure, redact
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step

EARLY_END_S = 0.5  # how long a box may take to end whose runner has not come
CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended
LEFT_OUT = "\n(what was printed since the hidden workloads were run is left out)\n"
LOAD_FAILED = "the message is not shown, because an earlier process has met the hidden workloads"

OpenRunBox = Callable[[], AbstractAsyncContextManager[RunBox]]


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
    """Build the kernel, judge it in boxes, and add the facts of profilers and sanitizers."""
    submission, result = lease.submission.new, RunResult()
    steps.enter(Step.DEVICE)
    with host.seat(submission.device_kind) as seat, host.workspace(lease) as work:
        environment = await seat.environment()
        problem = problem_for(environment.device_kind, lease.problem.spec, hidden=runs_hidden(lease))
        attempt = Attempt(lease=lease, host=host, seat=seat, work=work, environment=environment, problem=problem, steps=steps)
        yield replace(environment, isolation=host.isolation.NAME)
        yield wire.Progress(stage=wire.Stage.BUILDING)
        async with attempt.started_early() as open_run_box:
            build = await build_artifact(lease, host, work, environment, steps)
            yield build
            if build.outcome is not BuildOutcome.BUILT:
                steps.enter(Step.CLOSE)
                return
            steps.enter(Step.DEVICE)
            yield wire.Progress(stage=wire.Stage.WAITING)
            async with seat.lane() as lane:  # held to the end: all processes are timed on one device
                if lane.environment != environment:  # another lane was free first
                    yield replace(lane.environment, isolation=host.isolation.NAME)
                steps.enter(Step.BOX)
                judge = _judge_sweep if submission.mode is wire.Mode.SWEEP else _judge_rounds
                async with aclosing(judge(attempt, lane, open_run_box, build)) as facts:
                    async for fact in facts:
                        result = result.after(fact)
                        yield fact
                if submission.mode is wire.Mode.PROFILE and not result.failed:
                    async for fact in profile_kernel(attempt, lane, build):
                        yield fact
        if sanitizer_follows(submission, result, on_gpu=attempt.on_gpu):
            yield wire.Progress(stage=wire.Stage.PROFILING)
            claims = await sanitized(attempt, result, build)
            async for fact in profiled((claims,), host, build):
                yield fact


async def _judge_rounds(attempt: Attempt, lane: Lane, open_run_box: OpenRunBox, build: wire.Build) -> AsyncGenerator[wire.Fact, None]:
    """Judge all workloads, in ranked mode in several processes in turn, each in a fresh box: right in every process, or not right.

    The second process of a benchmark is for a kernel whose first asks for new times of the baselines.
    """
    ranking, problem = attempt.lease.ranking, attempt.problem
    count = 1 if ranking is None else ranking.process_count
    rounds = [wire.Round(index=index, count=count) for index in range(count)]
    met_hidden = False  # whether a process has met a hidden workload, whose size it could report later
    # It could tell a size to any other box that is alive.
    secret = bool(attempt.lease.problem.competition_id) and any(workload.hidden for workload in problem.workloads)
    for start in rounds if ranking is not None else [None, *rounds]:
        if start is not None:
            yield start
        result, restart = RunResult(), False
        attempt.steps.enter(Step.BOX)
        async with attempt.host.turn(secret=secret), open_run_box() as run_box:
            job = replace(attempt.job(build, run_box.box, link_dir=run_box.link_dir), kept_times=start is None)
            if start is not None:
                await run_box.imported()  # nothing of a box runs while a baseline is timed alone
            attempt.steps.enter(Step.LOAD)
            async with aclosing(_judge_process(lane, job, run_box, met_before=met_hidden)) as facts:
                async for fact in facts:
                    if isinstance(fact, wire.Restart):
                        restart = True
                        attempt.steps.enter(Step.CLOSE)
                        continue
                    met_hidden = met_hidden or (isinstance(fact, wire.Progress) and fact.hidden_at_ns is not None)
                    result = result.after(fact)
                    yield fact
        if result.failed or (start is None and not restart):
            return


async def _judge_sweep(attempt: Attempt, lane: Lane, open_run_box: OpenRunBox, build: wire.Build) -> AsyncGenerator[wire.Fact, None]:
    """Judge the sizes of a sweep. Those that a process did not reach, such as after a crash, get a fresh one within the sweep's time."""
    profile, now_s = attempt.host.profile, asyncio.get_running_loop().time
    workloads = tuple(workload for workload in attempt.problem.workloads if not workload.hidden)  # the problem of a sweep hides none
    end_s = now_s() + profile.sweep_s
    for _ in range(profile.sweep_process_count):
        begun, over, sweep_s = set[str](), False, max(end_s - now_s(), 0.0)
        async with attempt.host.turn(secret=False), open_run_box() as run_box:
            job = attempt.job(build, run_box.box, replace(attempt.problem, workloads=workloads), run_box.link_dir)
            job = replace(job, measure_s=attempt.lease.problem.sweep_measure_s or profile.sweep_measure_s, sweep_s=sweep_s)
            await run_box.imported()
            async with aclosing(_judge_process(lane, job, run_box, met_before=False)) as facts:
                async for fact in facts:
                    if isinstance(fact, wire.Plan):
                        begun |= set(fact.measured)
                    over = over or isinstance(fact, wire.Violation)
                    over = over or (isinstance(fact, wire.Load) and fact.outcome is not wire.LoadOutcome.LOADED)
                    yield fact
        workloads = tuple(workload for workload in workloads if workload.workload_id not in begun)
        if over or not workloads or not begun or now_s() > end_s:
            return


async def _judge_process(lane: Lane, job: wire.Job, run_box: RunBox, *, met_before: bool) -> AsyncGenerator[wire.Fact, None]:
    """Yield the facts of one process, up to how its box ended. met_before: an earlier process has met a hidden workload."""
    crashed, loaded, hidden_at_ns, asleep = False, False, None, True
    # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
    async with closed_link(run_box.box, Path(job.link_path)):
        async for fact in lane.judge(job):
            match fact:
                case wire.Broken():
                    if fact.problem_at_fault:
                        raise ProblemBroken(fact.message)
                    raise JudgeBroken(fact.message if loaded else fact.message + await _early_end(run_box.box))
                case wire.Progress():
                    if asleep and fact.stage is wire.Stage.LOADING:
                        run_box.give_job()
                        asleep = False
                    if hidden_at_ns is None:
                        hidden_at_ns = fact.hidden_at_ns
                case wire.Load(outcome=load):
                    loaded = True
                    crashed = crashed or load is wire.LoadOutcome.CRASHED
                case wire.Trial(outcome=trial):
                    crashed = crashed or trial is wire.TrialOutcome.CRASHED
            yield after_hidden(fact) if met_before else fact
    # The box of a runner that is gone ends by itself and knows why; every other is killed.
    end = await ending(run_box.box, CRASH_S if crashed else 0.0)
    yield run_end(end, hidden_at_ns, met_before=met_before)


async def _early_end(box: Box) -> str:
    """Return how a box ended in which nothing of a submission has run yet, with its last line of output; "" where it has not ended."""
    try:
        async with asyncio.timeout(EARLY_END_S):
            end = await box.wait()
    except TimeoutError:
        return ""
    printed = end.output.decode("utf-8", "replace").strip().splitlines()[-1:]
    cause = f"exit code {end.exit_code}" if end.cause is BoxCause.EXITED else end.cause.value
    return f" ({cause}{f': {plain(printed[0], 300)}' if printed else ''})"


# An earlier process of ranked mode may have left a hidden size for a later one, in whatever both can reach. So a later process's words,
# numbers and exit codes are hidden from its start on, as those of the earlier one were from its first hidden workload on.


def after_hidden(fact: wire.Fact) -> wire.Fact:
    """Return a fact of a later process without what its kernel could choose to carry a size: messages, counts and errors."""
    match fact:
        case wire.Load(outcome=outcome) if outcome is not wire.LoadOutcome.LOADED:
            return replace(redact(fact, Exposure.LATER), message=LOAD_FAILED)
        case wire.Trial(outcome=wire.TrialOutcome.PASSED):
            return redact(fact, Exposure.LATER)
        case wire.Trial():  # of a failed trial only what is shown of a hidden workload
            return replace(fact, hidden=True)
    return fact


def run_end(end: BoxExit, hidden_at_ns: int | None, *, met_before: bool = False) -> wire.RunEnd:
    """Return how the box ended. hidden_at_ns: when its process met the first hidden workload; met_before: an earlier process met one."""
    if met_before:
        return wire.RunEnd(cause=end.cause, output=LEFT_OUT if end.output else "", wall_ns=end.wall_ns)
    output = end.output if hidden_at_ns is None else end.output_before(hidden_at_ns)
    left_out = LEFT_OUT if len(output) < len(end.output) else ""
    return wire.RunEnd(cause=end.cause, exit_code=end.exit_code, signal=end.signal, output=cut(output)[0] + left_out, wall_ns=end.wall_ns)


def runs_hidden(lease: Lease) -> bool:
    """Return whether hidden workloads are run. In a competition only ranked submissions meet them: a kernel chooses how long it takes at
    a secret size, and the end of an attempt and the mean of its speedups would tell that as often as somebody tries."""
    return not lease.problem.competition_id or lease.ranking is not None


def problem_for(device_kind: str, spec: wire.ProblemSpec, *, hidden: bool = True) -> wire.ProblemSpec:
    """Return the problem with the workloads that are meant for this kind of device. hidden: False: only the public ones."""
    workloads = tuple(
        workload for workload in spec.workloads if workload.device_kind in ("", device_kind) and (hidden or not workload.hidden)
    )
    if not workloads:
        kind = "workload" if hidden else "public workload"
        text = f"problem {spec.problem_id!r} has no {kind} for the device {device_kind!r}; add one, or leave device_kind out of one"
        raise ProblemBroken(text)
    return replace(spec, workloads=workloads)
