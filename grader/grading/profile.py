"""Profile mode, once a kernel was verified: tools look at it in boxes of their own, with no more rights than the kernel has.

What the tools leave is shown and kept, and decides nothing: no fact of it reaches the verdict, and there is no score. No hidden workload is
run in these boxes, and nothing of the box that was verified in comes here, so that no file can hold a hidden size. The note and the files
that a box leaves are claims: bounded, plain, and of no weight.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from grader.artifacts.files import FILE_COUNT_LIMIT, NAME, SUBMISSION_LIMIT_BYTES
from grader.errors import JudgeBroken, ProblemBroken, SandboxBroken
from grader.grading.build import (
    BUILD_ENVIRONMENT,
    KERNEL_LIMIT,
    NAME_LIMIT_CHARS,
    REMARK_LIMIT,
    REMARK_LIMIT_CHARS,
    build_input,
    module_argv,
    plain,
    sane,
    write_sources,
)
from grader.grading.ports import Host, Lane, Workspace
from grader.grading.run_box import closed_link
from grader.isolation import Box, BoxExit, BoxSpec, IsolationBroken, Purpose
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from grader.model import Lease
from sandbox.protocol import wire
from sandbox.protocol.output import (
    COMPUTE_SANITIZER,
    EMULATED_SANITIZER,
    FILE_LIMIT_BYTES,
    NCU,
    NCU_CSV,
    NCU_REPORT,
    NCU_TEXT,
    NSIGHT,
    PROFILE_NOTE,
    SANITIZER_TEXT,
    TORCH_PROFILER,
    TORCH_TABLE,
    TORCH_TRACE,
    TORCH_TRACE_PACKED,
)
from sandbox.protocol.wire import BoxCause, ToolOutcome

NOTE_LIMIT_BYTES = 256 * 1024
TOOL_LIMIT, LAUNCH_LIMIT, FINDING_LIMIT, DETAIL_LIMIT_CHARS, TOOL_LIMIT_CHARS, ARCHITECTURE_LIMIT_CHARS = 16, 64, 50, 400, 64, 16
COUNTED_LINE_LIMIT = 40
AXES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedFile:
    """A file out of a box. name: plain, as `files.NAME` has it."""

    name: str
    tool: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileClaims:
    """What one box found. missing: why there is no note, in a sentence; "" where there is one."""

    profile: wire.KernelProfile = wire.KernelProfile()  # noqa: RUF009  frozen
    files: tuple[ClaimedFile, ...] = ()
    missing: str = ""


def take(out_dir: Path, tools: Collection[str], names: Collection[str] | None = None) -> ProfileClaims:
    """Read what lies in {out} of a box that is gone. Never follows a link; what is over a limit is left there, and named in a remark.

    tools: those that the box runs; what it claims of another one is dropped. names: the files that it may leave; None: any plain name.
    """
    content = pick_up(out_dir, PROFILE_NOTE, limit_bytes=NOTE_LIMIT_BYTES)
    if isinstance(content, Refusal):
        return ProfileClaims(missing="it left no result" if content.reason is RefusalReason.MISSING else content.sentence)
    try:
        note = wire.decode(content)
    except wire.WireError:
        note = None
    if not isinstance(note, wire.ProfileNote):
        return ProfileClaims(missing="it left a result that can't be read")
    wanted = {name: tool for name, tool in note.files.items() if tool in tools and (names is None or name in names)}
    files, refused = _files(out_dir, wanted)
    profile = checked(replace(note.profile, tools=tuple(one for one in note.profile.tools if one.name in tools)))
    left_out = (f"left out: {'; '.join(refused)}"[:REMARK_LIMIT_CHARS],) if refused else ()
    return ProfileClaims(profile=replace(profile, remarks=(*profile.remarks, *left_out)), files=files)


def checked(profile: wire.KernelProfile) -> wire.KernelProfile:
    """The same in printable characters, cut to sizes and counts, without numbers that can't be."""
    return wire.KernelProfile(
        tools=tuple(
            replace(one, name=plain(one.name, TOOL_LIMIT_CHARS), detail=plain(one.detail, DETAIL_LIMIT_CHARS))
            for one in profile.tools[:TOOL_LIMIT]
        ),
        architecture=plain(profile.architecture, ARCHITECTURE_LIMIT_CHARS),
        kernels=tuple(replace(one, name=plain(one.name, NAME_LIMIT_CHARS)) for one in profile.kernels[:KERNEL_LIMIT] if sane(one)),
        launches=tuple(
            replace(one, kernel=plain(one.kernel, NAME_LIMIT_CHARS)) for one in profile.launches[:LAUNCH_LIMIT] if _possible(one)
        ),
        remarks=tuple(plain(one, REMARK_LIMIT_CHARS) for one in profile.remarks[:REMARK_LIMIT]),
        findings=tuple(_bounded_finding(one) for one in profile.findings[:FINDING_LIMIT] if _possible_finding(one)),
        access_counts=_checked_counts(profile.access_counts),
    )


def _bounded_finding(found: wire.SanitizerFinding) -> wire.SanitizerFinding:
    return replace(
        found,
        message=plain(found.message, REMARK_LIMIT_CHARS),
        path=plain(found.path, NAME_LIMIT_CHARS),
        other_path=plain(found.other_path, NAME_LIMIT_CHARS),
        memory=plain(found.memory, NAME_LIMIT_CHARS),
    )


def _possible_finding(found: wire.SanitizerFinding) -> bool:
    where = (*found.block, *found.thread)
    return (
        len(found.block) in (0, AXES)
        and len(found.thread) in (0, AXES)
        and all(0 <= one < 2**31 for one in where)
        and all(0 <= one < 2**31 for one in (found.line, found.other_line, found.count))
    )


def _checked_counts(found: wire.AccessCounts | None) -> wire.AccessCounts | None:
    """None where even the number of blocks can't be."""
    if found is None or not 0 < found.counted_blocks <= found.blocks < 2**53:
        return None
    lines = (replace(one, path=plain(one.path, NAME_LIMIT_CHARS)) for one in found.lines[:COUNTED_LINE_LIMIT] if _possible_counts(one))
    flops = (replace(one, path=plain(one.path, NAME_LIMIT_CHARS)) for one in found.flops[:COUNTED_LINE_LIMIT] if _possible_flops(one))
    return replace(found, lines=tuple(lines), flops=tuple(flops))


def _possible_flops(one: wire.LineFlops) -> bool:
    return 0 < one.line < 2**31 and 0 < one.flops < 2**63


def _possible_counts(one: wire.LineCounts) -> bool:
    numbers = (one.transactions, one.least_transactions, one.active_lanes, one.requested_bytes)
    return 0 < one.line < 2**31 and 0 < one.requests < 2**53 and all(0 <= number < 2**53 for number in numbers)


def bounded(files: Iterable[ClaimedFile]) -> tuple[list[ClaimedFile], list[str]]:
    """The first files of a submission that fit its limits, each name once; and the names of the others."""
    kept: list[ClaimedFile] = []
    left_out: list[str] = []
    for one in files:
        total_bytes = sum(len(other.content) for other in kept) + len(one.content)
        fits = total_bytes <= SUBMISSION_LIMIT_BYTES and len(kept) < FILE_COUNT_LIMIT
        if fits and not any(one.name == other.name for other in kept):
            kept.append(one)
        else:
            left_out.append(one.name)
    return kept, left_out


def _files(out_dir: Path, named: dict[str, str]) -> tuple[tuple[ClaimedFile, ...], list[str]]:
    """The files that a note names. Names are checked before anything is opened."""
    found: list[ClaimedFile] = []
    refused: list[str] = []
    left_bytes = SUBMISSION_LIMIT_BYTES
    for name, tool in list(named.items())[:FILE_COUNT_LIMIT]:
        if NAME.fullmatch(name) is None:
            refused.append("a file without a plain name")
            continue
        content = pick_up(out_dir, name, limit_bytes=min(FILE_LIMIT_BYTES, left_bytes))
        if isinstance(content, Refusal):
            refused.append(content.sentence)
            continue
        left_bytes -= len(content)
        found.append(ClaimedFile(name=name, tool=plain(tool, TOOL_LIMIT_CHARS), content=content))
    if len(named) > FILE_COUNT_LIMIT:
        refused.append(f"all but the first {FILE_COUNT_LIMIT} files")
    return tuple(found), refused


def _possible(launch: wire.KernelLaunch) -> bool:
    sizes = (*launch.grid, *launch.block)
    numbers = (*sizes, launch.shared_bytes, launch.count, launch.duration_ns or 0)
    return len(launch.grid) == len(launch.block) == AXES and all(0 <= one < 2**53 for one in numbers)


log = structlog.get_logger()

SLOWDOWN = 20.0  # what compute-sanitizer and ncu make of a kernel's time, at most
TOOL_END_S = 150.0  # once the runner has ended, for the tool's own report
COMPILERS = "compilers"  # what the static box is called where it left nothing
# As `sandbox/builder/profile.py` and what it calls name themselves.
STATIC_TOOLS = (COMPILERS, "kernels", "nvcc", "ptxas", "nvdisasm", "Triton", "Numba")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """A profiler that has the kernel run, in a run box of its own.

    files: what it may leave. options: the runner's. command: what launches the runner; () where the runner looks at itself.
    on_smallest: it takes too long for a large workload.
    """

    name: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    on_smallest: bool = False
    directory: Path | None = None

    def patient(self, job: wire.Job) -> wire.Job:
        """The job, with the time that the kernel takes under the tool."""
        if not self.command:
            return job
        return replace(job, load_s=SLOWDOWN * job.load_s, problem=replace(job.problem, trial_s=SLOWDOWN * job.problem.trial_s))


TORCH = RunTool(name=TORCH_PROFILER, files=(TORCH_TABLE, TORCH_TRACE, TORCH_TRACE_PACKED), options=("--profile", "{out}"))
GPU_SANITIZER = RunTool(
    name=COMPUTE_SANITIZER,
    files=(SANITIZER_TEXT,),
    command=module_argv("sandbox.runner.nvidia_tools", COMPUTE_SANITIZER, "{out}"),
    on_smallest=True,
)
# In this order: one that brings a GPU to a stop comes last.
GPU_TOOLS = (
    RunTool(
        name=NCU,
        files=(NCU_REPORT, NCU_TEXT, NCU_CSV),
        options=("--profiler-range",),
        command=module_argv("sandbox.runner.nvidia_tools", NCU, "{out}"),
        directory=NSIGHT,
    ),
    GPU_SANITIZER,
)


def run_tools(*, on_gpu: bool) -> tuple[RunTool, ...]:
    """Those that can run on this device."""
    return (TORCH, *GPU_TOOLS) if on_gpu else (TORCH,)


def unavailable_tools(*, on_gpu: bool) -> ProfileClaims:
    """Those that can't, named in every profile, so that nobody looks for them."""
    left = () if on_gpu else GPU_TOOLS
    return without_result(ToolOutcome.UNAVAILABLE, "it needs a GPU", *(one.name for one in left))


async def profiled(claimed: tuple[ProfileClaims, ...], host: Host, build: wire.Build) -> AsyncIterator[wire.Fact]:
    """Keep the files of all boxes, and say what they found, and the build did not say, in one fact."""
    merged = joined(tuple(one.profile for one in claimed))
    files, left_out = bounded(file for one in claimed for file in one.files)
    for file in files:
        if (fact := await _stored(file, host)) is None:
            left_out.append(file.name)
        else:
            yield fact
    remarks = (f"left out, for being too large or too many: {', '.join(left_out)}"[:REMARK_LIMIT_CHARS],) if left_out else ()
    news = tuple(one for one in merged.remarks if one not in build.remarks)
    yield replace(merged, remarks=(*news, *remarks))


def joined(profiles: tuple[wire.KernelProfile, ...]) -> wire.KernelProfile:
    """One profile of several."""
    return wire.KernelProfile(
        tools=tuple(tool for one in profiles for tool in one.tools),
        workload_id=next((one.workload_id for one in profiles if one.workload_id), ""),
        architecture=next((one.architecture for one in profiles if one.architecture), ""),
        kernels=tuple(use for one in profiles for use in one.kernels)[:KERNEL_LIMIT],
        launches=tuple(launch for one in profiles for launch in one.launches)[:LAUNCH_LIMIT],
        remarks=tuple(dict.fromkeys(remark for one in profiles for remark in one.remarks)),
        findings=tuple(found for one in profiles for found in one.findings)[:FINDING_LIMIT],
        access_counts=next((one.access_counts for one in profiles if one.access_counts is not None), None),
        order_swap=next((one.order_swap for one in profiles if one.order_swap is not None), None),
    )


async def static_profile(lease: Lease, host: Host, work: Workspace, environment: wire.Environment) -> ProfileClaims:
    """Compile the kernels for a GPU in a build box, and take what that leaves."""
    job, files = build_input(lease, environment)
    assert work.make_output is not None
    with work.make_output() as out_dir:
        write_sources(job, files, work)
        spec = BoxSpec(
            box_id=f"{work.box_id}-profile",
            purpose=Purpose.BUILD,
            argv=module_argv("sandbox.builder.profile", "{src}", "{out}"),
            limits=host.profile.build,
            slot=work.slot,
            src_dir=work.source_dir,
            out_dir=out_dir,
            environment=BUILD_ENVIRONMENT,
        )
        async with host.builder(), host.turn(secret=False):
            end = await _ended(host, spec)
        found = await asyncio.to_thread(take, out_dir, STATIC_TOOLS)
    # The static tools claim nothing of a run.
    profile = replace(found.profile, launches=(), findings=(), access_counts=None, workload_id="")
    return unless_missing(replace(found, profile=profile), COMPILERS, end)


def unless_missing(found: ProfileClaims, tool: str, end: BoxExit) -> ProfileClaims:
    """The claims; of a box that left none, that this tool failed, and how the box ended."""
    if not found.missing:
        return found
    how = {
        BoxCause.WALL_LIMIT: "it reached its time limit",
        BoxCause.MEMORY_LIMIT: "it took more memory than a box may",
        BoxCause.OUTPUT_LIMIT: "it printed too much",
    }.get(end.cause, found.missing)
    return without_result(ToolOutcome.FAILED, how, tool)


async def run_profile(
    tool: RunTool, spec: BoxSpec, job: Callable[[Box], wire.Job], lane: Lane, host: Host, out_dir: Path
) -> AsyncGenerator[wire.Fact | ProfileClaims, None]:
    """Have the kernel launched once more in a fresh box, under a profiler; progress, then what that left. The caller has the turn.

    Of the facts of this run only the order swap is kept: the kernel was judged before. job: of one public workload.
    """
    why, end, swapped = "", BoxExit(cause=BoxCause.EXITED), None
    try:
        async with host.isolation.start(spec) as box:
            wanted = tool.patient(job(box))
            async with closed_link(box, Path(wanted.link_path)):
                # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
                async for fact in lane.judge(wanted):
                    if isinstance(fact, wire.Broken) and (fact.problem_at_fault or fact.device_lost or not tool.command):
                        raise (ProblemBroken if fact.problem_at_fault else JudgeBroken)(fact.message)
                    if isinstance(fact, wire.Progress):
                        yield fact
                    if isinstance(fact, wire.OrderSwap) and tool is TORCH:
                        swapped = fact
                    why = why or _failure(fact)
            end = await _reported(box) if tool.command else await box.kill()
    except IsolationBroken as error:
        raise SandboxBroken(str(error)) from error
    found = await asyncio.to_thread(take, out_dir, (tool.name,), tool.files)
    if not found.missing and not found.profile.tools:
        found = replace(found, missing="its result does not name it")
    if found.missing and why:
        found = replace(found, missing=why)
    workload_id = wanted.problem.workloads[0].workload_id
    # It compiles nothing. Which workload it was is not the box's to say. Launches are what torch's profiler has to say.
    launches = () if tool.command else found.profile.launches
    sanitizes = tool.name == EMULATED_SANITIZER
    findings, counts = (found.profile.findings, found.profile.access_counts) if sanitizes else ((), None)
    shown_id = workload_id if launches or findings or counts or swapped else ""
    profile = replace(
        found.profile, kernels=(), architecture="", launches=launches, findings=findings, access_counts=counts, workload_id=shown_id
    )
    checked = unless_missing(replace(found, profile=profile), tool.name, end)
    yield replace(checked, profile=replace(checked.profile, order_swap=swapped))


def profiled_workload(problem: wire.ProblemSpec, *, largest: bool, preferred: str = "") -> wire.ProblemSpec | None:
    """The problem with the one public workload that is profiled: the one of the id `preferred`, else the largest or the smallest; None
    where all are hidden. It is not observed for libraries: one profiler does not run under another."""
    shown = sorted((one for one in problem.workloads if not one.hidden), key=lambda one: math.prod(one.axes.values()))
    if not shown:
        return None
    chosen = next((one for one in shown if one.workload_id == preferred), shown[-1 if largest else 0])
    return replace(problem, workloads=(chosen,), trial_count=1, libraries=wire.Libraries.ALLOWED)


def no_workload(tool: RunTool) -> ProfileClaims:
    """Where every workload is hidden."""
    return without_result(ToolOutcome.UNAVAILABLE, "the problem has no public workload", tool.name)


def without_result(outcome: ToolOutcome, detail: str, *names: str) -> ProfileClaims:
    """Tools that have found nothing, and why."""
    return ProfileClaims(
        profile=wire.KernelProfile(tools=tuple(wire.ProfileTool(name=one, outcome=outcome, detail=detail) for one in names))
    )


async def _reported(box: Box) -> BoxExit:
    """Wait until a tool has written its report, which it does once the runner has ended."""
    try:
        async with asyncio.timeout(TOOL_END_S):
            return await box.wait()
    except TimeoutError:
        return await box.kill()


def _failure(fact: wire.Fact) -> str:
    """Why a run that was right before is none now."""
    match fact:
        case wire.Load(outcome=outcome) if outcome is not wire.LoadOutcome.LOADED:
            return f"the kernel did not load again: {outcome.value}"
        case wire.Trial(outcome=outcome) if outcome is not wire.TrialOutcome.PASSED:
            return f"the kernel was not right again: {outcome.value}"
        case wire.Violation():
            return "the kernel's process broke the protocol"
    return ""


async def _ended(host: Host, spec: BoxSpec) -> BoxExit:
    try:
        async with host.isolation.start(spec) as box:
            return await box.wait()
    except IsolationBroken as error:
        raise SandboxBroken(str(error)) from error


async def _stored(file: ClaimedFile, host: Host) -> wire.ArtifactFile | None:
    if host.files is None:
        return None
    try:
        digest = await asyncio.to_thread(host.files.keep, file.content)
    except OSError as error:
        log.warning("submission_file_not_kept", error=str(error))
        return None
    if digest is None:
        return None
    return wire.ArtifactFile(name=file.name, tool=file.tool, digest=digest, size_bytes=len(file.content))
