"""The sanitizer of a kernel that was verified: in mode sanitize, and after a failed test on the emulated device.

It looks in a box of its own, at one public workload, with no more rights than the kernel has. Its findings are claims, as of profile
mode. The verdict is known before and never changes, so the sanitizer is bounded. After a failed test the verdict is given first, and the
sanitizer gives way: it begins after a pause, and is ended as soon as another attempt needs the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

from grader.grading.attempt import Attempt, OpenRunBox, RunTool, module_argv
from grader.grading.pipeline import build_artifact, judged
from grader.model import NewSubmission
from grader.verdict.fold import fold
from grader_extensions.modes import profile
from sandbox.protocol import wire
from sandbox.protocol.box_files import EMULATED_SANITIZER
from sandbox.protocol.languages import languages
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step, ToolOutcome, TrialOutcome

__all__ = ["DISCLOSED", "fold", "plan", "run"]
DISCLOSED = {
    wire.KernelProfile: ("tools", "workload_id", "findings", "access_counts", "remarks"),
    wire.ArtifactFile: profile.ARTIFACT_FIELDS,
}
plan = profile.plan
FAILED_TEST_S, SANITIZE_MODE_S = 10.0, 120.0  # for building for the sanitizer and running under it, together
PAUSE_S = 0.3  # after a failed test: by then whoever submits again and again has done so
LOOK_S = 0.01  # from one look at whether others need the lane to the next
OTHERS_WAIT = "others wait for the device; --mode sanitize runs it all the same"
LEAST_RUN_S = 1.0  # a box that meets its limit before its first process reports is taken for one that is broken
EXPLAINED = frozenset(
    (
        TrialOutcome.MISMATCHED,
        TrialOutcome.UNWRITTEN,
        TrialOutcome.NON_FINITE,
        TrialOutcome.INPUT_MODIFIED,
        TrialOutcome.OUT_OF_BOUNDS,
        TrialOutcome.DEVICE_FAULT,
    )
)

SANITIZER = RunTool(
    name=EMULATED_SANITIZER,
    files=(),
    options=("--instrument", "grader_extensions.emulated_cuda.sanitizer"),
    command=module_argv("grader_extensions.emulated_cuda.sanitizer", "{out}"),
)


async def run(attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge a kernel, then let a sanitizer look at it where the report is to have its findings."""
    process = list[wire.Fact]()
    async with aclosing(judged(attempt, build, open_run_box)) as facts:
        async for fact in facts:
            process.append(fact)
            yield fact
    if not sanitizer_follows(attempt.submission, process, on_gpu=attempt.on_gpu):
        return
    yield wire.Progress(stage=wire.Stage.PROFILING)
    tool, failure = profile.GPU_SANITIZER if attempt.on_gpu else SANITIZER, _failed_trial(process)
    problem = profile.profiled_workload(attempt.problem, largest=False, preferred=failure.workload_id if failure else "")
    if why := _obstacle(attempt, process):
        claims = profile.without_result(ToolOutcome.UNAVAILABLE, why, tool.name)
    elif problem is None:
        claims = profile.without_result(ToolOutcome.UNAVAILABLE, profile.NO_WORKLOAD, tool.name)
    else:
        if attempt.submission.mode is not wire.Mode.SANITIZE:
            yield attempt.steps.timeline()
        gave_way = asyncio.Event()
        claims = await _sanitized(attempt, problem, build, tool, gave_way)
        if gave_way.is_set() and any(claim.outcome is not ToolOutcome.RAN for claim in claims.profile.tools):
            claims = profile.without_result(ToolOutcome.UNAVAILABLE, OTHERS_WAIT, tool.name)
    async for fact in profile.profiled((claims,), attempt.host, build):
        yield fact


def sanitizer_follows(submission: NewSubmission, process: Sequence[wire.Fact], *, on_gpu: bool) -> bool:
    """Return whether the report is to have the findings of a sanitizer: in its mode, and on the emulated device after a failed test.

    Of a kernel that broke the rules nothing more is shown.
    """
    failure = _failed_trial(process)
    if any(isinstance(fact, wire.Violation) for fact in process):
        return False
    if submission.mode is wire.Mode.SANITIZE or failure is None or on_gpu or submission.skip_sanitizer:
        return submission.mode is wire.Mode.SANITIZE
    # A sanitizer may see the cause of a wrong access, not of a limit or a shape.
    signalled = any(isinstance(fact, wire.RunEnd) and fact.cause is BoxCause.SIGNALLED for fact in process)
    explained = failure.outcome in EXPLAINED or (failure.outcome is TrialOutcome.CRASHED and signalled)
    return explained and languages()[submission.language].is_c


def _failed_trial(process: Sequence[wire.Fact]) -> wire.Trial | None:
    return next((fact for fact in process if isinstance(fact, wire.Trial) and fact.outcome is not TrialOutcome.PASSED), None)


def _obstacle(attempt: Attempt, process: Sequence[wire.Fact]) -> str:
    """Return why the sanitizer can't look at the kernel now; "" where it can."""
    submission, failure = attempt.submission, _failed_trial(process)
    loaded = any(isinstance(fact, wire.Load) and fact.outcome is wire.LoadOutcome.LOADED for fact in process)
    if not attempt.on_gpu and not languages()[submission.language].is_c:
        return "it looks at CUDA C++ only, not at kernels in Python"
    if not loaded or (failure is not None and failure.outcome is TrialOutcome.TIMED_OUT):
        return "the kernel did not load, or did not end in time; under it the kernel takes longer"
    if attempt.seat.contended and submission.mode is not wire.Mode.SANITIZE:
        return OTHERS_WAIT
    return ""


@asynccontextmanager
async def _giving_way(attempt: Attempt, gave_way: asyncio.Event, stop: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """While inside, stop once others need the lane, and set gave_way; in mode sanitize never."""
    if attempt.submission.mode is wire.Mode.SANITIZE:
        yield
        return

    async def watch() -> None:
        while not attempt.seat.contended:
            await asyncio.sleep(LOOK_S)
        gave_way.set()
        with suppress(Exception):  # a box that broke says so where it is waited for
            await stop()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        if attempt.seat.contended:  # they came in this moment
            gave_way.set()
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def _end_now(limit: asyncio.Timeout) -> None:
    limit.reschedule(asyncio.get_running_loop().time())


async def _sanitized(
    attempt: Attempt, problem: wire.ProblemSpec, build: wire.Build, tool: RunTool, gave_way: asyncio.Event
) -> profile.ProfileClaims:
    """Run a kernel that was verified once more, under the device's sanitizer, at the public workload that failed or at the smallest.

    Others have the lane while it is compiled for that. The box's own limit ends the run, so that the judge sees a runner that went away
    and need not be started anew. In mode sanitize the time for which others have the lane does not count. gave_way: set where it did.
    """
    mode, now_s = attempt.submission.mode, asyncio.get_running_loop().time
    limit_s = SANITIZE_MODE_S if mode is wire.Mode.SANITIZE else FAILED_TEST_S
    end_s = now_s() + limit_s
    work = attempt.work
    with work.make_output() as out_dir, work.make_output() as built_dir:
        if not attempt.on_gpu:
            work = replace(work, out_dir=built_dir, artifact_path=work.artifact_path.with_name("sanitized"))
            attempt = replace(attempt, work=work)
            try:
                async with asyncio.timeout_at(end_s) as limit, _giving_way(attempt, gave_way, partial(_end_now, limit)):
                    await asyncio.sleep(0 if mode is wire.Mode.SANITIZE else PAUSE_S)
                    build = await build_artifact(attempt.lease, attempt.host, work, attempt.environment, attempt.steps, sanitize=True)
            except TimeoutError:
                why = f"the kernel was not compiled for it within {limit_s:g} s, waiting for a builder included"
                return profile.without_result(ToolOutcome.FAILED, why, EMULATED_SANITIZER)
            if gave_way.is_set():
                return profile.without_result(ToolOutcome.UNAVAILABLE, OTHERS_WAIT, EMULATED_SANITIZER)
            if build.outcome is not BuildOutcome.BUILT:
                (line,) = build.log.strip().splitlines()[-1:] or [build.outcome.value]
                return profile.without_result(ToolOutcome.FAILED, f"the kernel could not be compiled for it: {line}", EMULATED_SANITIZER)
        attempt.steps.enter(Step.PROFILE)
        left_s = end_s - now_s()
        async with AsyncExitStack() as stack:
            try:
                until_s = None if mode is wire.Mode.SANITIZE else end_s
                async with asyncio.timeout_at(until_s) as limit, _giving_way(attempt, gave_way, partial(_end_now, limit)):
                    lane = await stack.enter_async_context(attempt.seat.lane())
                    await stack.enter_async_context(attempt.host.turn(secret=False))
            except TimeoutError:
                why = f"other work on the host did not end within {limit_s:g} s; --mode sanitize waits for it"
                return profile.without_result(ToolOutcome.UNAVAILABLE, why, tool.name)
            left_s = left_s if mode is wire.Mode.SANITIZE else end_s - now_s()
            if left_s < LEAST_RUN_S:
                return profile.without_result(ToolOutcome.FAILED, f"nearly all of its {limit_s:g} s were over before it began", tool.name)
            spec = attempt.run_spec(profile.PROFILE_BOX, tool, out_dir)
            spec = replace(spec, limits=replace(spec.limits, wall_s=left_s))
            running = profile.run_tool(attempt, tool, spec, problem, build, lane, lambda box: _giving_way(attempt, gave_way, box.kill))
            facts = await stack.enter_async_context(aclosing(running))
            (claims,) = [fact async for fact in facts if isinstance(fact, profile.ProfileClaims)]
    # A failed test is explained by findings, and not by how the kernel uses memory.
    return claims if mode is wire.Mode.SANITIZE else replace(claims, profile=replace(claims.profile, access_counts=None))
