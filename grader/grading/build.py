"""How a submission becomes an artifact: found in the cache, or built in a box and taken out of it.

The builder runs untrusted code (a compiler on a stranger's source), so what it says is a claim, and what it leaves is touched only
when its box is gone.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from grader.artifacts import BuildResult, artifact_key
from grader.errors import JudgeBroken, SandboxBroken
from grader.grading.attempt import StepClock, module_argv
from grader.grading.ports import Host, Workspace
from grader.grading.run_box import open_box
from grader.isolation import BoxExit, BoxSpec, Purpose
from grader.isolation.pickup import Refusal, pick_up
from grader.model import Lease, Reason
from sandbox.protocol import wire
from sandbox.protocol.languages import languages, module_of
from sandbox.protocol.signatures import PYTHON, declaration, entry_in, without_model
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step

log = structlog.get_logger()

FILES, MODULES = "files", "modules"  # the submission's and the problem's, where a build box reads them
ARTIFACT, NOTE = "artifact", "note.json"
NOTE_LIMIT_BYTES = 64 * 1024
KERNEL_LIMIT, NAME_LIMIT_CHARS = 32, 200
ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?")
FALLBACK_LIMIT_CHARS = 300
REMARK_LIMIT, REMARK_LIMIT_CHARS = 16, 400
HEADERS = frozenset({"", "light", "full"})
# The builder's exit codes (`sandbox/compilers/build_result.py`). An interpreter that can't start: 1 or 2. A box without one: 127.
COMPILER_REJECTED = 7
BUILD_REASONS = {3: Reason.UNSUPPORTED, 4: Reason.ENTRY_NOT_FOUND, 6: Reason.IMPORT_FAILED}
CACHEABLE_EXIT_CODES = frozenset({3, 4, COMPILER_REJECTED})  # every other build of the same source would end so
# What a compiler prints that was stopped, or lacked something of the host: the next build may end otherwise. One that is taken for such
# costs a build, and no more.
INTERRUPTED = re.compile(
    rb"signal terminated program|terminated by signal|died due to signal|\bkilled\b|segmentation fault|bus error|core dumped"
    rb"|internal compiler error|internal error|out of memory|cannot allocate memory|memory exhausted|bad_alloc|MemoryError"
    rb"|no space left|quota exceeded|file size limit|time limit|did not finish in time|too many open files|input/output error"
    rb"|temporarily unavailable|can't start new thread|timed out|^ninja: ",
    re.IGNORECASE | re.MULTILINE,
)
BUILDER_BROKEN = frozenset({1, 2, 5, 127})
# So that __DATE__ and __TIME__ are the same in every build of the same source.
BUILD_ENVIRONMENT = (("SOURCE_DATE_EPOCH", "0"),)


async def build_artifact(
    lease: Lease, host: Host, work: Workspace, environment: wire.Environment, steps: StepClock, *, sanitize: bool = False
) -> wire.Build:
    """Leave the artifact at `work.artifact_path`, and return how it was built. sanitize: it is for the emulated device's sanitizer."""
    begun_ns = time.monotonic_ns()
    job, files = build_input(lease, environment)
    job = replace(job, sanitize=sanitize)

    async def built() -> BuildResult:
        steps.enter(Step.BUILDER)
        async with host.builder(), host.turn(secret=False):
            write_sources(job, files, work)
            return await _build(job.language, host, work, steps)

    steps.enter(Step.ARTIFACT)
    result = await _fetch(job, lease.submission.new.user, files, host, built)
    if result.artifact is not None:
        work.artifact_path.write_bytes(result.artifact)
    build = replace(result.build, duration_ns=time.monotonic_ns() - begun_ns) if result.build.cached else result.build
    declared = declaration(lease.problem.spec, lease.submission.new.language) if build.reason == Reason.ENTRY_NOT_FOUND else ""
    return replace(build, remarks=(*build.remarks, f"the problem asks for `{declared}`")) if declared else build


def build_input(lease: Lease, environment: wire.Environment) -> tuple[wire.BuildJob, dict[str, bytes]]:
    """Return the input of a builder: the job, and the files below {src}, in the order in which the job names them, which is in the key."""
    if environment.architecture and ARCHITECTURE.fullmatch(environment.architecture) is None:
        raise JudgeBroken(f"the judge's device has the architecture {environment.architecture!r}, which nvcc does not know")
    submission, spec = lease.submission.new, lease.problem.spec
    info = languages().get(submission.language)
    job = wire.BuildJob(
        language=submission.language,
        language_module=module_of(submission.language),
        entry=submission.entry or entry_in(spec, submission.language),
        device_kind=environment.device_kind,
        architecture=environment.architecture,
        sources=tuple(source.path for source in submission.sources),
        modules=tuple(sorted(spec.modules)) if info is not None and info.takes_modules else (),
        call=_entry_call(spec, submission.language, environment.device_kind),
    )
    files = {f"{FILES}/{source.path}": source.content.encode() for source in submission.sources}
    return job, {**files, **{f"{MODULES}/{name}": spec.modules[name].encode() for name in job.modules}}


async def _fetch(
    job: wire.BuildJob, user: str, files: Mapping[str, bytes], host: Host, build: Callable[[], Awaitable[BuildResult]]
) -> BuildResult:
    """Ask the cache, if there is one. A key names the toolchain too, so what is built while that changes is handed to nobody else."""
    if host.cache is None:
        return await build()
    begun_ns, toolchain = time.monotonic_ns(), await host.isolation.fingerprint()
    # What an isolation makes that keeps nobody in is not for those that do. And each user has entries of its own: a hit, or how soon it
    # comes, would tell that another user submitted the same source.
    settings = (f"user={user}", toolchain, "safe" if host.isolation.SAFE else "unsafe", *("=".join(pair) for pair in BUILD_ENVIRONMENT))
    key = artifact_key(job, files.items(), settings)

    async def build_steadily() -> BuildResult:
        result = await build()
        return result if result.cacheable and await host.isolation.fingerprint() == toolchain else replace(result, cacheable=False)

    result = await host.cache.fetch(key, build_steadily, limit_bytes=host.profile.build.file_bytes)
    log.info(
        "artifact",
        key=key,
        hit=result.build.cached,
        outcome=result.build.outcome.value,
        duration_ms=(time.monotonic_ns() - begun_ns) // 1_000_000,
        build_ms=result.build.duration_ns // 1_000_000,
    )
    return result


async def _build(language: str, host: Host, work: Workspace, steps: StepClock) -> BuildResult:
    """Build in a box and take the artifact out of it; the box is gone before anything that it left is touched."""
    spec = build_spec("build", "sandbox.builder.build", host, work, work.out_dir)
    begun_ns = time.monotonic_ns()
    steps.enter(Step.BOX)
    async with open_box(host.isolation, spec) as box:
        steps.enter(Step.COMPILE)
        end = await box.wait()
        steps.enter(Step.ARTIFACT)
    outcome, reason = _build_outcome(end)
    artifact = pick_up(work.out_dir, ARTIFACT, limit_bytes=spec.limits.file_bytes) if outcome is BuildOutcome.BUILT else None
    note = read_note(pick_up(work.out_dir, NOTE, limit_bytes=NOTE_LIMIT_BYTES))
    log_text, truncated = cut(end.output)
    if isinstance(artifact, Refusal):
        outcome, log_text = BuildOutcome.REJECTED, f"error: the build left no artifact: {artifact.sentence}"
    build = wire.Build(
        outcome=outcome,
        log=log_text,
        log_truncated=truncated,
        duration_ns=time.monotonic_ns() - begun_ns,
        artifact_digest=hashlib.sha256(artifact).hexdigest() if isinstance(artifact, bytes) else None,
        reason=reason,
        **wire.parts(note),
    )
    cacheable = isinstance(artifact, bytes) or _compiler_rejected(end, language)
    return BuildResult(build=build, artifact=artifact if isinstance(artifact, bytes) else None, cacheable=cacheable)


def read_note(content: bytes | Refusal) -> wire.BuildNote:
    """Return the builder's note on its build; an empty note where that is missing or not plain. It decides nothing."""
    empty = wire.BuildNote()
    if isinstance(content, Refusal):
        return empty
    try:
        note = wire.decode(content)
    except wire.WireError:
        return empty
    if not isinstance(note, wire.BuildNote) or note.headers not in HEADERS:
        return empty
    claim: wire.BuildNote = bounded(note)
    kernels = tuple(replace(use, name=use.name[:NAME_LIMIT_CHARS]) for use in claim.kernels if sane(use))
    return replace(claim, fallback=claim.fallback[:FALLBACK_LIMIT_CHARS], kernels=kernels, remarks=claim.remarks[:REMARK_LIMIT])


def bounded(claim: Any) -> Any:
    """Return a claim of a box with plain texts only, and no more of anything than is shown."""
    if isinstance(claim, str):
        return plain(claim, REMARK_LIMIT_CHARS)
    if isinstance(claim, tuple):
        return tuple(bounded(part) for part in claim[:KERNEL_LIMIT])
    return type(claim)(**{name: bounded(part) for name, part in wire.parts(claim).items()}) if is_dataclass(type(claim)) else claim


def plain(text: str, limit_chars: int) -> str:
    """Return the printable characters of a text, cut."""
    return "".join(character for character in text if character.isprintable())[:limit_chars]


def sane(use: wire.KernelUse) -> bool:
    """Return whether all its numbers are possible."""
    numbers = (value for value in asdict(use).values() if isinstance(value, int))
    return all(0 <= number < 2**31 for number in numbers)


def cut(output: bytes) -> tuple[str, bool]:
    """Return a box's output as text of at most LOG_LIMIT_BYTES, whatever bytes it was, and whether some of it is gone."""
    text = output.decode("utf-8", "replace").encode()  # a byte that is no UTF-8 becomes three
    if len(output) < wire.LOG_LIMIT_BYTES and len(text) <= wire.LOG_LIMIT_BYTES:
        return text.decode(), False
    return text[: wire.LOG_LIMIT_BYTES].decode("utf-8", "ignore").removesuffix("\ufffd"), True


def _build_outcome(end: BoxExit) -> tuple[BuildOutcome, str | None]:
    match end.cause:
        case BoxCause.WALL_LIMIT:
            return BuildOutcome.TIMED_OUT, None
        case BoxCause.MEMORY_LIMIT:
            return BuildOutcome.OUT_OF_MEMORY, None
        case BoxCause.OUTPUT_LIMIT:
            return BuildOutcome.OUTPUT_EXCEEDED, None
        case BoxCause.EXITED if end.exit_code == 0:
            return BuildOutcome.BUILT, None
        case BoxCause.EXITED if end.exit_code in BUILDER_BROKEN:
            raise SandboxBroken(f"the builder failed: {end.output[-2000:].decode('utf-8', 'replace')}")
        case BoxCause.EXITED:
            return BuildOutcome.REJECTED, BUILD_REASONS.get(end.exit_code or 0)
    return BuildOutcome.REJECTED, Reason.BUILDER_DIED


def _compiler_rejected(end: BoxExit, language: str) -> bool:
    """Return whether the source is at fault, so that every other build of it would be rejected too.

    What is imported may use packages of the host, which no fingerprint has: of such a language only the compiler's own word lasts.
    """
    info = languages().get(language)
    codes = CACHEABLE_EXIT_CODES if info is not None and info.is_c else {COMPILER_REJECTED}
    whole = len(end.output) < wire.LOG_LIMIT_BYTES  # or nobody knows how it ends
    return end.cause is BoxCause.EXITED and end.exit_code in codes and whole and INTERRUPTED.search(end.output) is None


def _entry_call(spec: wire.ProblemSpec, language: str, device_kind: str) -> wire.EntryCall | None:
    """Return the public part of how the entry is called; None where only the problem's own code knows it."""
    spec = spec if language == PYTHON else without_model(spec)
    if not spec.inputs or not spec.outputs:
        return None
    shown = [workload for workload in spec.workloads if not workload.hidden and workload.device_kind in ("", device_kind)]
    tensors = [tuple(replace(tensor, distribution=wire.Distribution()) for tensor in those) for those in (spec.inputs, spec.outputs)]
    return wire.EntryCall(
        inputs=tensors[0],
        outputs=tensors[1],
        axes=spec.axes,
        sizes=min((workload.axes for workload in shown), key=lambda axes: math.prod(axes.values()), default={}),
        convention=spec.convention,
    )


def build_spec(name: str, module: str, host: Host, work: Workspace, out_dir: Path) -> BoxSpec:
    """Specify a build box that runs a module on {src}."""
    return BoxSpec(
        box_id=f"{work.box_id}-{name}",
        purpose=Purpose.BUILD,
        argv=module_argv(module, "{src}", "{out}"),
        limits=host.profile.build,
        slot=work.slot,
        src_dir=work.source_dir,
        out_dir=out_dir,
        environment=BUILD_ENVIRONMENT,
    )


def write_sources(job: wire.BuildJob, files: Mapping[str, bytes], work: Workspace) -> None:
    """Write what a builder is given to {src}."""
    for name, content in files.items():
        path = work.source_dir / name  # checked at intake, or by the problem's format: relative, normalized, no '..'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (work.source_dir / "job.json").write_bytes(wire.encode(job))
    for path in work.source_dir.rglob("*"):  # the box's uid reads them, whatever the server's umask is
        path.chmod(0o755 if path.is_dir() else 0o644)
