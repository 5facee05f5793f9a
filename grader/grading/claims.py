"""Takes what a box of profile mode left: a note and files.  Everything in it is a claim: bounded, plain, and decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from grader.artifacts.files import FILE_COUNT_LIMIT, NAME, SUBMISSION_LIMIT_BYTES
from grader.grading.build import KERNEL_LIMIT, NAME_LIMIT_CHARS, REMARK_LIMIT, REMARK_LIMIT_CHARS, plain, sane
from grader.isolation.pickup import Refusal, RefusalReason, pick_up
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES, PROFILE_NOTE

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
