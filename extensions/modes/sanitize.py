"""The sanitizer of a kernel that was verified: in mode sanitize, and after a failed test on the emulated device.

It looks in a box of its own, at one public workload, with no more rights than the kernel has. Its findings are claims, as of profile
mode. The verdict is known before and never changes, so the sanitizer is bounded, and after a failed test it runs only while no other
attempt needs the lane.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

from extensions.modes.profile import (
    ARTIFACT_FIELDS,
    GPU_SANITIZER,
    PROFILE_BOX,
    ProfileClaims,
    no_workload,
    plan,
    profiled,
    profiled_workload,
    run_tool,
    without_result,
)
from grader.grading.attempt import Attempt, OpenRunBox, RunTool, module_argv
from grader.grading.build import build_artifact
from grader.grading.pipeline import judged
from grader.model import NewSubmission
from grader.verdict.fold import fold
from sandbox.protocol import wire
from sandbox.protocol.box_files import EMULATED_SANITIZER
from sandbox.protocol.languages import languages
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step, ToolOutcome, TrialOutcome

__all__ = ["DISCLOSED", "fold", "plan", "run"]
DISCLOSED = {wire.KernelProfile: ("tools", "workload_id", "findings", "access_counts", "remarks"), wire.ArtifactFile: ARTIFACT_FIELDS}
FAILED_TEST_S, SANITIZE_MODE_S = 10.0, 120.0  # for building for the sanitizer and running under it, together
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
    options=("--instrument", "extensions.emulated_cuda.sanitizer"),
    command=module_argv("extensions.emulated_cuda.sanitizer", "{out}"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of the run that judged the kernel. failure: the trial that failed, if any. end: of its process."""

    loaded: bool = False
    violated: bool = False
    failure: wire.Trial | None = None
    end: wire.RunEnd | None = None

    def after(self, fact: wire.Fact) -> RunResult:
        """Add a fact."""
        match fact:
            case wire.Load(outcome=outcome):
                return replace(self, loaded=outcome is wire.LoadOutcome.LOADED)
            case wire.Violation():
                return replace(self, violated=True)
            case wire.Trial(outcome=outcome) if outcome is not TrialOutcome.PASSED:
                return replace(self, failure=self.failure or fact)
            case wire.RunEnd():
                return replace(self, end=fact)
        return self


async def run(attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge a kernel, then let a sanitizer look at it where the report is to have its findings."""
    result = RunResult()
    async with aclosing(judged(attempt, build, open_run_box)) as facts:
        async for fact in facts:
            result = result.after(fact)
            yield fact
    if sanitizer_follows(attempt.submission, result, on_gpu=attempt.on_gpu):
        yield wire.Progress(stage=wire.Stage.PROFILING)
        claims = await _sanitized(attempt, result, build)
        async for fact in profiled((claims,), attempt.host, build):
            yield fact


def sanitizer_follows(submission: NewSubmission, result: RunResult, *, on_gpu: bool) -> bool:
    """Return whether the report is to have the findings of a sanitizer: in its mode, and on the emulated device after a failed test.

    Of a kernel that broke the rules nothing more is shown.
    """
    if submission.mode is wire.Mode.SANITIZE:
        return not result.violated
    if result.violated or result.failure is None or on_gpu or submission.skip_sanitizer:
        return False
    # A sanitizer may see the cause of a wrong access, not of a limit or a shape.
    crashed = result.failure.outcome is TrialOutcome.CRASHED and result.end is not None and result.end.cause is BoxCause.SIGNALLED
    return (crashed or result.failure.outcome in EXPLAINED) and languages()[submission.language].is_c


def _tool_for(attempt: Attempt, result: RunResult) -> RunTool | ProfileClaims:
    """Return the sanitizer of the device, or why none runs."""
    submission, tool, why = attempt.submission, GPU_SANITIZER if attempt.on_gpu else SANITIZER, ""
    if not attempt.on_gpu and not languages()[submission.language].is_c:
        why = "it looks at CUDA C++ only, not at kernels in Python"
    elif not result.loaded or (result.failure is not None and result.failure.outcome is TrialOutcome.TIMED_OUT):
        why = "the kernel did not load, or did not end in time; under it the kernel takes longer"
    elif attempt.seat.contended and submission.mode is not wire.Mode.SANITIZE:
        why = "others wait for the device; --mode sanitize runs it all the same"
    return without_result(ToolOutcome.UNAVAILABLE, why, tool.name) if why else tool


async def _sanitized(attempt: Attempt, result: RunResult, build: wire.Build) -> ProfileClaims:
    """Run a kernel that was verified once more, under the device's sanitizer, at the public workload that failed or at the smallest.

    Others have the lane while it is compiled for that. The box's own limit ends the run, so that the judge sees a runner that went away
    and need not be started anew.
    """
    mode, now_s = attempt.submission.mode, asyncio.get_running_loop().time
    limit_s = SANITIZE_MODE_S if mode is wire.Mode.SANITIZE else FAILED_TEST_S
    end_s = now_s() + limit_s
    tool = _tool_for(attempt, result)
    if isinstance(tool, ProfileClaims):
        return tool
    problem = profiled_workload(attempt.problem, largest=False, preferred=result.failure.workload_id if result.failure else "")
    if problem is None:
        return no_workload(tool)
    work = attempt.work
    assert work.make_output is not None
    with work.make_output() as out_dir, work.make_output() as built_dir:
        if not attempt.on_gpu:
            work = replace(work, out_dir=built_dir, artifact_path=work.artifact_path.with_name("sanitized"))
            attempt = replace(attempt, work=work)
            try:
                async with asyncio.timeout_at(end_s):
                    build = await build_artifact(attempt.lease, attempt.host, work, attempt.environment, attempt.steps, sanitize=True)
            except TimeoutError:
                why = f"the kernel was not compiled for it within {limit_s:g} s, waiting for a builder included"
                return without_result(ToolOutcome.FAILED, why, EMULATED_SANITIZER)
            if build.outcome is not BuildOutcome.BUILT:
                (line,) = build.log.strip().splitlines()[-1:] or [build.outcome.value]
                return without_result(ToolOutcome.FAILED, f"the kernel could not be compiled for it: {line}", EMULATED_SANITIZER)
            tool = _tool_for(attempt, result)  # others may have come
            if isinstance(tool, ProfileClaims):
                return tool
        attempt.steps.enter(Step.PROFILE)
        spec = attempt.run_spec(PROFILE_BOX, tool, out_dir)
        spec = replace(spec, limits=replace(spec.limits, wall_s=max(0.0, end_s - now_s())))
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout_at(None if mode is wire.Mode.SANITIZE else end_s):
                    lane = await stack.enter_async_context(attempt.seat.lane())
                    await stack.enter_async_context(attempt.host.turn(secret=False))
            except TimeoutError:
                why = f"other work on the host did not end within {limit_s:g} s; --mode sanitize waits for it"
                return without_result(ToolOutcome.UNAVAILABLE, why, tool.name)
            facts = await stack.enter_async_context(aclosing(run_tool(attempt, tool, spec, problem, build, lane)))
            (claims,) = [fact async for fact in facts if isinstance(fact, ProfileClaims)]
    # A failed test is explained by findings, and not by how the kernel uses memory.
    return claims if mode is wire.Mode.SANITIZE else replace(claims, profile=replace(claims.profile, access_counts=None))
