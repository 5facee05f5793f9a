"""Grades one submission: built in one box (or taken from the cache), run in another (ranked: in several, in turn), judged from outside.

Emits facts and draws no conclusion; `grader/verdict/fold.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from grader import extensions
from grader.errors import JudgeBroken, ProblemBroken
from grader.grading.attempt import Attempt, OpenRunBox, StepClock
from grader.grading.build import build_artifact, cut, plain
from grader.grading.ports import Host, Lane
from grader.grading.run_box import RunBox, closed_link, ending
from grader.isolation import Box, BoxExit
from grader.model import Lease
from grader.rules.disclosure import Exposure, disclosed, redact
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step

EARLY_END_S = 0.5  # how long a box may take to end whose runner has not come
CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended
CRASHED = (wire.LoadOutcome.CRASHED, wire.TrialOutcome.CRASHED)
LEFT_OUT = "\n(what was printed since the hidden workloads were run is left out)\n"
LOAD_FAILED = "the message is not shown, because an earlier process has met the hidden workloads"

Judge = Callable[[Attempt, Lane, wire.Build, OpenRunBox], AsyncGenerator[wire.Fact, None]]


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission. Where it is graded to its end, the last fact is its AttemptTimeline."""
    submission, mode = lease.submission.new, extensions.mode_of(lease.submission.new.mode)
    # A competition's submissions are only judged.
    run, row = (judged, {}) if mode is None or submission.competition_id else (mode.run, mode.DISCLOSED)
    with StepClock(host=host) as steps:
        steps.enter(Step.DEVICE)
        with host.seat(submission.device_kind) as seat, host.workspace(lease) as work:
            environment = await seat.environment()
            steps.follow(environment)
            problem = problem_for(environment.device_kind, lease.problem.spec, hidden=runs_hidden(lease))
            attempt = Attempt(lease=lease, host=host, seat=seat, work=work, environment=environment, problem=problem, steps=steps)
            yield replace(environment, isolation=host.isolation.NAME)
            yield wire.Progress(stage=wire.Stage.BUILDING)
            async with attempt.started_early() as open_run_box:
                build = await build_artifact(lease, host, work, environment, steps)
                yield build
                if build.outcome is BuildOutcome.BUILT:
                    async with aclosing(run(attempt, build, open_run_box)) as facts:
                        async for fact in facts:
                            steps.follow(fact)
                            if (passed := disclosed(fact, row)) is not None:
                                yield passed
                else:
                    steps.enter(Step.CLOSE)
    yield steps.timeline()


async def judged(
    attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox, judge: Judge | None = None
) -> AsyncGenerator[wire.Fact, None]:
    """Wait for the device, and judge a kernel on it. judge: yields the facts; `judge_rounds` unless one is passed."""
    attempt.steps.enter(Step.DEVICE)
    yield wire.Progress(stage=wire.Stage.WAITING)
    async with attempt.seat.lane() as lane:  # held to the end: all processes are timed on one device
        if lane.environment != attempt.environment:  # another lane was free first
            yield replace(lane.environment, isolation=attempt.host.isolation.NAME)
        attempt.steps.enter(Step.BOX)
        async with aclosing((judge or judge_rounds)(attempt, lane, build, open_run_box)) as facts:
            async for fact in facts:
                yield fact


async def judge_rounds(attempt: Attempt, lane: Lane, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
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
        process = list[wire.Fact]()
        attempt.steps.enter(Step.BOX)
        async with attempt.host.turn(secret=secret), open_run_box() as run_box:
            job = replace(attempt.job(build, run_box.box, link_dir=run_box.link_dir), kept_times=start is None)
            if start is not None:
                await run_box.imported()  # nothing of a box runs while a baseline is timed alone
            attempt.steps.enter(Step.LOAD)
            async with aclosing(judge_process(lane, job, run_box, met_before=met_hidden)) as facts:
                async for fact in facts:
                    process.append(fact)
                    if isinstance(fact, wire.Restart):
                        attempt.steps.enter(Step.CLOSE)
                    else:
                        yield fact
        met_hidden = met_hidden or hidden_at_ns(process) is not None
        if any(map(failed, process)) or (start is None and not any(isinstance(fact, wire.Restart) for fact in process)):
            return


def failed(fact: wire.Fact) -> bool:
    """Return whether a fact decides against the kernel."""
    match fact:
        case wire.Load(outcome=outcome):
            return outcome is not wire.LoadOutcome.LOADED
        case wire.Trial(outcome=outcome):
            return outcome is not wire.TrialOutcome.PASSED
    return isinstance(fact, wire.Violation)


async def judge_process(lane: Lane, job: wire.Job, run_box: RunBox, *, met_before: bool = False) -> AsyncGenerator[wire.Fact, None]:
    """Yield the facts of one process, up to how its box ended. met_before: an earlier process has met a hidden workload."""
    process = list[wire.Fact]()
    # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
    async with closed_link(run_box.box, Path(job.link_path)):
        async for fact in lane.judge(job):
            match fact:
                case wire.Broken(problem_at_fault=True):
                    raise ProblemBroken(fact.message)
                case wire.Broken():
                    loaded = any(isinstance(earlier, wire.Load) for earlier in process)
                    raise JudgeBroken(fact.message if loaded else fact.message + await _early_end(run_box.box))
                case wire.Progress(stage=wire.Stage.LOADING) if fact not in process:
                    run_box.give_job()
            process.append(fact)
            yield after_hidden(fact) if met_before else fact
    crashed = any(isinstance(fact, wire.Load | wire.Trial) and fact.outcome in CRASHED for fact in process)
    # The box of a runner that is gone ends by itself and knows why; every other is killed.
    end = await ending(run_box.box, CRASH_S if crashed else 0.0)
    yield run_end(end, hidden_at_ns(process), met_before=met_before)


def hidden_at_ns(process: Iterable[wire.Fact]) -> int | None:
    """Return when a process met the first hidden workload; None where it met none."""
    return next((fact.hidden_at_ns for fact in process if isinstance(fact, wire.Progress) and fact.hidden_at_ns is not None), None)


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
