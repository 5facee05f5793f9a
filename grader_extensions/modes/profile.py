"""Profile mode, once a kernel was verified: tools look at it in boxes of their own, with no more rights than the kernel has.

What the tools leave is shown and kept, and decides nothing: no fact of it reaches the verdict, and there is no score. No hidden workload is
run in these boxes, and nothing of the box that was verified in comes here, so that no file can hold a hidden size. The note and the files
that a box leaves are claims: bounded, plain, and of no weight.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from grader.artifacts import FILE_COUNT_LIMIT, FILE_NAME, SUBMISSION_LIMIT_BYTES
from grader.errors import JudgeBroken, ProblemBroken
from grader.grading.attempt import Attempt, Host, Lane, OpenRunBox, RunTool, closed_link, ending, module_argv, open_box
from grader.grading.pipeline import (
    KERNEL_LIMIT,
    NAME_LIMIT_CHARS,
    REMARK_LIMIT,
    REMARK_LIMIT_CHARS,
    build_input,
    build_spec,
    failed,
    judge_rounds,
    judged,
    plain,
    sane,
    write_sources,
)
from grader.isolation import Box, BoxExit, BoxSpec
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from grader.model import Problem
from grader.v1 import submission_pb2
from grader.verdict.fold import fold
from sandbox.protocol import box_files, wire
from sandbox.protocol.wire import BoxCause, ToolOutcome

__all__ = ["DISCLOSED", "fold", "plan", "run"]
log = structlog.get_logger()

NOTE_LIMIT_BYTES = 256 * 1024
LIST_LIMITS = {"tools": 16, "kernels": KERNEL_LIMIT, "launches": 64, "findings": 50, "remarks": REMARK_LIMIT, "lines": 40}
TEXT_LIMITS_CHARS = {"architecture": 16, **dict.fromkeys(("detail", "message", "remarks"), REMARK_LIMIT_CHARS)}  # the others are names
AXES = 3
SLOWDOWN = 20.0  # the factor by which compute-sanitizer and ncu slow a kernel down, at most
TOOL_END_S = 150.0  # once the runner has ended, for the tool's own report
PROFILE_BOX = 1  # the number of the first run box for profilers: the box before verified
NO_WORKLOAD = "the problem has no public workload"
COMPILERS = "compilers"  # the tool that is named where the static box left nothing
ARTIFACT_FIELDS = ("name", "tool", "digest", "size_bytes")
DISCLOSED = {
    wire.KernelProfile: ("tools", "workload_id", "architecture", "kernels", "launches", "remarks"),
    wire.ArtifactFile: ARTIFACT_FIELDS,
}
# Of tools that run the kernel; the others have files and a sentence.
CLAIMED_BY = {box_files.TORCH_PROFILER: ("launches",), box_files.EMULATED_SANITIZER: ("findings", "access_counts")}
# As `grader_extensions/modes/box/static_profile.py` and what it calls name themselves.
STATIC_TOOLS = (COMPILERS, "kernels", "nvcc", "ptxas", "nvdisasm", "Triton", "Numba")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedFile:
    """A file out of a box. name: plain, as `FILE_NAME` has it."""

    name: str
    tool: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileClaims:
    """The claims of one box. missing: why there is no note, in a sentence; "" where there is a note."""

    profile: wire.KernelProfile = wire.KernelProfile()  # noqa: RUF009  frozen
    files: tuple[ClaimedFile, ...] = ()
    missing: str = ""


TORCH = RunTool(
    name=box_files.TORCH_PROFILER,
    files=(box_files.TORCH_TABLE, box_files.TORCH_TRACE, box_files.TORCH_TRACE_PACKED),
    options=("--instrument", "grader_extensions.modes.box.torch_profile", "{out}"),
)
GPU_SANITIZER = RunTool(
    name=box_files.COMPUTE_SANITIZER,
    files=(box_files.SANITIZER_TEXT,),
    command=module_argv("grader_extensions.modes.box.nvidia_tools", box_files.COMPUTE_SANITIZER, "{out}"),
    on_smallest=True,
)
# In this order: a tool that brings a GPU to a stop comes last.
GPU_TOOLS = (
    RunTool(
        name=box_files.NCU,
        files=(box_files.NCU_REPORT, box_files.NCU_TEXT, box_files.NCU_CSV),
        options=("--instrument", "grader_extensions.modes.box.nvidia_tools"),
        command=module_argv("grader_extensions.modes.box.nvidia_tools", box_files.NCU, "{out}"),
        directory=box_files.NSIGHT,
    ),
    GPU_SANITIZER,
)


def take(out_dir: Path, tools: Collection[str], names: Collection[str] | None, fields: Collection[str]) -> ProfileClaims:
    """Read the files in {out} of a box that is gone. Never follows a link; a file over a limit is left there, and named in a remark.

    tools: those that the box runs; claims of another tool are dropped. names: the files that it may leave; None: any plain name. fields:
    those of the profile, besides tools and remarks, that it has to say something of.
    """
    content = pick_up(out_dir, box_files.PROFILE_NOTE, limit_bytes=NOTE_LIMIT_BYTES)
    if isinstance(content, Refusal):
        return ProfileClaims(missing="it left no result" if content.reason is RefusalReason.MISSING else content.sentence)
    try:
        note = wire.decode(content)
    except wire.WireError:
        note = None
    if not isinstance(note, wire.ProfileNote):
        return ProfileClaims(missing="it left a result that can't be read")
    files: list[ClaimedFile] = []
    refused: list[str] = []
    free_bytes = SUBMISSION_LIMIT_BYTES
    wanted = [(name, tool) for name, tool in note.files.items() if tool in tools and (names is None or name in names)]
    for name, tool in wanted[:FILE_COUNT_LIMIT]:
        if FILE_NAME.fullmatch(name) is None:  # checked before anything is opened
            refused.append("a file without a plain name")
        elif isinstance(content := pick_up(out_dir, name, limit_bytes=min(box_files.FILE_LIMIT_BYTES, free_bytes)), Refusal):
            refused.append(content.sentence)
        else:
            free_bytes -= len(content)
            files.append(ClaimedFile(name=name, tool=tool, content=content))
    if len(wanted) > FILE_COUNT_LIMIT:
        refused.append(f"all but the first {FILE_COUNT_LIMIT} files")
    tool_claims = tuple(tool for tool in note.profile.tools if tool.name in tools)
    # Which workload it was is not the box's to say.
    claims = {name: getattr(note.profile, name) for name in fields}
    profile = checked(wire.KernelProfile(tools=tool_claims, remarks=note.profile.remarks, **claims))
    remarks = (f"left out: {'; '.join(refused)}"[:REMARK_LIMIT_CHARS],) if refused else ()
    return ProfileClaims(profile=replace(profile, remarks=(*profile.remarks, *remarks)), files=tuple(files))


def checked(claim: Any, name: str = "") -> Any:
    """Return a claim in printable characters, cut to sizes and counts, without impossible numbers. name: of the field that holds it."""
    match claim:
        case StrEnum():
            return claim
        case str():
            return plain(claim, TEXT_LIMITS_CHARS.get(name, NAME_LIMIT_CHARS))
        case tuple():
            return tuple(checked(part, name) for part in claim[: LIST_LIMITS.get(name)] if _possible(part))
        case wire.AccessCounts(counted_blocks=counted, blocks=blocks) if not 0 < counted <= blocks < 2**53:
            return None
    if is_dataclass(claim):
        return replace(claim, **{field.name: checked(getattr(claim, field.name), field.name) for field in fields(claim)})  # type: ignore[type-var]
    return claim


def _possible(claim: object) -> bool:
    """Return whether the API has room for the numbers of a claim, none of which is negative, and its places have all axes."""
    match claim:
        case wire.KernelUse():
            return sane(claim)
        case wire.KernelLaunch(grid=grid, block=block):
            return len(grid) == len(block) == AXES and max(*grid, *block, claim.shared_bytes, claim.count, claim.duration_ns or 0) < 2**53
        case wire.SanitizerFinding(block=block, thread=thread):
            return {len(block), len(thread)} <= {0, AXES} and max(*block, *thread, claim.line, claim.other_line, claim.count) < 2**31
        case wire.LineCounts():
            counts = (claim.requests, claim.transactions, claim.least_transactions, claim.active_lanes, claim.requested_bytes)
            return claim.line > 0 and claim.requests > 0 and max(counts) < 2**53
    return True


def run_tools(*, on_gpu: bool) -> tuple[RunTool, ...]:
    """Return the tools that can run on this device."""
    return (TORCH, *GPU_TOOLS) if on_gpu else (TORCH,)


def plan(submission: submission_pb2.Submission, problem: Problem, device_kinds: Sequence[str]) -> Problem:
    """Return the problem."""
    return problem


def run(attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge a kernel, then let the tools look at it."""
    return judged(attempt, build, open_run_box, _judge_and_profile)


async def _judge_and_profile(attempt: Attempt, lane: Lane, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge a kernel, and let the tools look at one that was right on every workload, on the same device."""
    process = list[wire.Fact]()
    async with aclosing(judge_rounds(attempt, lane, build, open_run_box)) as facts:
        async for fact in facts:
            process.append(fact)
            yield fact
    if any(map(failed, process)):
        return
    yield wire.Progress(stage=wire.Stage.PROFILING)
    claims = [await _static_profile(attempt, lane.environment)]
    for number, tool in enumerate(run_tools(on_gpu=attempt.on_gpu), PROFILE_BOX):
        problem = profiled_workload(attempt.problem, largest=attempt.on_gpu and not tool.on_smallest)
        if problem is None:
            claims.append(without_result(ToolOutcome.UNAVAILABLE, NO_WORKLOAD, tool.name))
            continue
        with attempt.work.make_output() as out_dir:
            spec = attempt.run_spec(number, tool, out_dir)
            async with attempt.host.turn(secret=False), aclosing(run_tool(attempt, tool, spec, problem, build, lane)) as outcomes:
                async for outcome in outcomes:
                    if isinstance(outcome, ProfileClaims):
                        claims.append(outcome)
                    else:
                        yield outcome
    if not attempt.on_gpu:  # named in every profile, so that nobody looks for them
        claims.append(without_result(ToolOutcome.UNAVAILABLE, "it needs a GPU", *(tool.name for tool in GPU_TOOLS)))
    async for fact in profiled(tuple(claims), attempt.host, build):
        yield fact


async def profiled(claims: tuple[ProfileClaims, ...], host: Host, build: wire.Build) -> AsyncIterator[wire.Fact]:
    """Keep the files of all boxes that fit the limits of a submission, each name once, and join the other claims in one fact."""
    names, left_out, free_bytes = set[str](), list[str](), SUBMISSION_LIMIT_BYTES
    for file in (file for claim in claims for file in claim.files):
        digest, size_bytes = None, len(file.content)
        if host.files is not None and file.name not in names and len(names) < FILE_COUNT_LIMIT and size_bytes <= free_bytes:
            try:
                digest = await asyncio.to_thread(host.files.keep, file.content)
            except OSError as error:
                log.warning("submission_file_not_kept", error=str(error))
        if digest is None:
            left_out.append(file.name)
            continue
        names.add(file.name)
        free_bytes -= size_bytes
        yield wire.ArtifactFile(name=file.name, tool=file.tool, digest=digest, size_bytes=size_bytes)
    merged = joined(tuple(claim.profile for claim in claims))
    remarks = tuple(remark for remark in dict.fromkeys(merged.remarks) if remark not in build.remarks)  # what the build did not say
    if left_out:
        remarks += (f"left out, for being too large or too many: {', '.join(left_out)}"[:REMARK_LIMIT_CHARS],)
    yield replace(merged, remarks=remarks)


def joined(profiles: tuple[wire.KernelProfile, ...]) -> wire.KernelProfile:
    """Join the profiles of all boxes: their lists, and of anything else what the first has to say."""
    values: dict[str, Any] = {}
    for name in (field.name for field in fields(wire.KernelProfile)):
        parts = [getattr(profile, name) for profile in profiles]
        values[name] = sum(parts, ()) if isinstance(parts[0], tuple) else next(filter(None, parts), parts[0])
    return wire.KernelProfile(**values)


async def _static_profile(attempt: Attempt, environment: wire.Environment) -> ProfileClaims:
    host, work = attempt.host, attempt.work
    job, files = build_input(attempt.lease, environment)
    with work.make_output() as out_dir:
        write_sources(job, files, work)
        spec = build_spec("profile", "grader_extensions.modes.box.static_profile", host, work, out_dir)
        async with host.builder(), host.turn(secret=False), open_box(host.isolation, spec) as box:
            end = await box.wait()
        claims = await asyncio.to_thread(take, out_dir, STATIC_TOOLS, None, ("architecture", "kernels"))
    return unless_missing(claims, COMPILERS, end)


async def run_tool(
    attempt: Attempt,
    tool: RunTool,
    spec: BoxSpec,
    problem: wire.ProblemSpec,
    build: wire.Build,
    lane: Lane,
    watch: Callable[[Box], AbstractAsyncContextManager[None]] = lambda _: nullcontext(),
) -> AsyncGenerator[wire.Fact | ProfileClaims, None]:
    """Launch the kernel once more in a fresh box, under a profiler; yield progress, then the claims. The caller has the turn.

    None of the facts of this run is kept: the kernel was judged before. problem: with one public workload. watch: may end the box.
    """
    failure, end = "", BoxExit(cause=BoxCause.EXITED)
    mode = wire.Mode.PROFILE if attempt.submission.mode is wire.Mode.PROFILE else wire.Mode.TEST
    async with open_box(attempt.host.isolation, spec) as box, watch(box):
        job = replace(attempt.job(build, box, problem), mode=mode)
        if tool.command:
            job = replace(job, load_s=SLOWDOWN * job.load_s, problem=replace(job.problem, trial_s=SLOWDOWN * job.problem.trial_s))
        async with closed_link(box, Path(job.link_path)):
            # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
            async for fact in lane.judge(job):
                if isinstance(fact, wire.Broken) and (fact.problem_at_fault or fact.device_lost or not tool.command):
                    raise (ProblemBroken if fact.problem_at_fault else JudgeBroken)(fact.message)
                if isinstance(fact, wire.Progress):
                    yield fact
                failure = failure or _failure(fact)
        # A tool writes its report once the runner has ended.
        end = await ending(box, TOOL_END_S) if tool.command else await box.kill()
    assert spec.out_dir is not None
    claims = await asyncio.to_thread(take, spec.out_dir, (tool.name,), tool.files, CLAIMED_BY.get(tool.name, ()))
    if not claims.missing and not claims.profile.tools:
        claims = replace(claims, missing="its result does not name it")
    if claims.missing and failure:
        claims = replace(claims, missing=failure)
    profile = claims.profile
    if profile.launches or profile.findings or profile.access_counts:
        claims = replace(claims, profile=replace(profile, workload_id=job.problem.workloads[0].workload_id))
    yield unless_missing(claims, tool.name, end)


def unless_missing(claims: ProfileClaims, tool: str, end: BoxExit) -> ProfileClaims:
    """Return the claims; of a box that left none, that this tool failed, and how the box ended."""
    if not claims.missing:
        return claims
    detail = {
        BoxCause.WALL_LIMIT: "it reached its time limit",
        BoxCause.MEMORY_LIMIT: "it took more memory than a box may",
        BoxCause.OUTPUT_LIMIT: "it printed too much",
    }.get(end.cause, claims.missing)
    return without_result(ToolOutcome.FAILED, detail, tool)


def profiled_workload(problem: wire.ProblemSpec, *, largest: bool, preferred: str = "") -> wire.ProblemSpec | None:
    """Return the problem with the public workload of the id `preferred`, else its largest or smallest; None where all are hidden.

    It is not observed for libraries: one profiler does not run under another.
    """
    public = sorted(
        (workload for workload in problem.workloads if not workload.hidden), key=lambda workload: math.prod(workload.axes.values())
    )
    if not public:
        return None
    chosen = next((workload for workload in public if workload.workload_id == preferred), public[-1 if largest else 0])
    return replace(problem, workloads=(chosen,), trial_count=1, libraries=wire.Libraries.ALLOWED)


def without_result(outcome: ToolOutcome, detail: str, *names: str) -> ProfileClaims:
    """Return the claims of tools that saw nothing, and why."""
    tools = tuple(wire.ProfileTool(name=name, outcome=outcome, detail=detail) for name in names)
    return ProfileClaims(profile=wire.KernelProfile(tools=tools))


def _failure(fact: wire.Fact) -> str:
    """Return why a run that was right before is not right now."""
    match fact:
        case wire.Load(outcome=outcome) if outcome is not wire.LoadOutcome.LOADED:
            return f"the kernel did not load again: {outcome.value}"
        case wire.Trial(outcome=outcome) if outcome is not wire.TrialOutcome.PASSED:
            return f"the kernel was not right again: {outcome.value}"
        case wire.Violation():
            return "the kernel's process broke the protocol"
    return ""
