"""Grades one submission: built in one box (or taken from the cache), run in another (ranked: in several, in turn), judged from outside.

Emits facts and draws no conclusion; `grader/verdict/fold.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from grader import extensions
from grader.artifacts import BuildResult, artifact_key
from grader.errors import JudgeBroken, ProblemBroken, SandboxBroken
from grader.grading.attempt import Attempt, Host, Lane, OpenRunBox, RunBox, StepClock, Workspace, closed_link, ending, module_argv, open_box
from grader.isolation import Box, BoxExit, BoxSpec, Purpose
from grader.isolation.pickup import Refusal, pick_up
from grader.model import Lease, Reason
from grader.rules.disclosure import Exposure, disclosed, redact
from sandbox.protocol import wire
from sandbox.protocol.languages import languages, module_of
from sandbox.protocol.signatures import CUDA, PYTHON, declaration, entry_in, is_axis, without_model
from sandbox.protocol.wire import BoxCause, BuildOutcome, Step

log = structlog.get_logger()

EARLY_END_S = 0.5  # how long a box may take to end whose runner has not come
CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended
CRASHED = (wire.LoadOutcome.CRASHED, wire.TrialOutcome.CRASHED)
LOAD_FAILED = "the message is not shown, because an earlier process has met the hidden workloads"
LEFT_OUT = "\n(what was printed since the hidden workloads were run is left out)\n"

Judge = Callable[[Attempt, Lane, wire.Build, OpenRunBox], AsyncGenerator[wire.Fact, None]]


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission. Where it is graded to its end, the last fact is its AttemptTimeline."""
    submission, mode = lease.submission.new, extensions.mode_of(lease.submission.new.mode)
    # A competition's submissions are only judged.
    run, row = (judged, {}) if mode is None or submission.competition_id else (mode.run, mode.DISCLOSED)
    with StepClock(host=host) as steps:
        steps.enter(Step.DEVICE)
        with host.seat(submission.device_kind) as seat, host.workspace(lease) as work:
            await seat.settle()
            problem = problem_for(seat.kind, lease.problem.spec, hidden=runs_hidden(lease))
            environment = wire.Environment(device="", device_kind=seat.kind, clock=wire.Clock.HOST)  # until the judge says more
            attempt = Attempt(lease=lease, host=host, seat=seat, work=work, environment=environment, problem=problem, steps=steps)
            async with attempt.started_early() as open_run_box:  # it imports while a judge does that has to be started
                environment = await seat.environment()
                attempt = replace(attempt, environment=environment)
                steps.follow(environment)
                yield replace(environment, isolation=host.isolation.NAME)
                yield wire.Progress(stage=wire.Stage.BUILDING)
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
    if meets_secrets(attempt):
        yield wire.Progress(stage=wire.Stage.PREPARING)
        await attempt.host.before_secret()  # not on the device, which others use meanwhile
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
    ranking = attempt.lease.ranking
    count = 1 if ranking is None else ranking.process_count
    rounds = [wire.Round(index=index, count=count) for index in range(count)]
    met_hidden = False  # whether a process has met a hidden workload, whose size it could report later
    own_share = None
    for start in rounds if ranking is not None else [None, *rounds]:
        if start is not None:
            yield start
        process = list[wire.Fact]()
        attempt.steps.enter(Step.BOX)
        async with attempt.host.turn(secret=meets_secrets(attempt)), open_run_box() as run_box:  # it could tell any other box a size
            job = replace(attempt.job(build, run_box.box, link_dir=run_box.link_dir), kept_times=start is None, own_share=own_share)
            if start is not None:
                await run_box.imported()  # nothing of a box runs while a baseline is timed alone
            attempt.steps.enter(Step.LOAD)
            async with aclosing(judge_process(lane, job, run_box, met_before=met_hidden)) as facts:
                async for fact in facts:
                    process.append(fact)
                    if isinstance(fact, wire.Restart):
                        own_share = fact.own_share
                        attempt.steps.enter(Step.CLOSE)
                    else:
                        yield fact
        met_hidden = met_hidden or hidden_at_ns(process) is not None
        if any(map(failed, process)) or (start is None and not any(isinstance(fact, wire.Restart) for fact in process)):
            return


def meets_secrets(attempt: Attempt) -> bool:
    """Return whether the kernel meets secret workloads of a competition."""
    return bool(attempt.lease.problem.competition_id) and any(workload.hidden for workload in attempt.problem.workloads)


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
        text = f"problem {spec.problem_id!r} has no {kind} for the device '{device_kind}'; add one, or leave device_kind out of one"
        raise ProblemBroken(text)
    return replace(spec, workloads=workloads)


# How a submission becomes an artifact: found in the cache, or built in a box and taken out of it. The builder runs untrusted code (a
# compiler on a stranger's source), so what it says is a claim, and what it leaves is touched only when its box is gone.

FILES, MODULES = "files", "modules"  # the submission's and the problem's, where a build box reads them
ARTIFACT, NOTE = "artifact", "note.json"
NOTE_LIMIT_BYTES = 64 * 1024
KERNEL_LIMIT, NAME_LIMIT_CHARS = 32, 200
ARCHITECTURE = re.compile(r"sm_\d{2,3}[a-z]?")
FALLBACK_LIMIT_CHARS = 300
REMARK_LIMIT, REMARK_LIMIT_CHARS = 16, 400
HEADERS = frozenset({"", "light", "full"})
# The builder's exit codes (`sandbox/compilers/steps.py`). An interpreter that can't start: 1 or 2. A box without one: 127.
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
    begun_ns, user = time.monotonic_ns(), lease.submission.new.user
    job, files = build_input(lease, environment)
    job = replace(job, sanitize=sanitize)
    steps.enter(Step.ARTIFACT)
    # A key names the toolchain too, so what is built while that changes is handed to nobody else.
    toolchain, generation = await host.isolation.fingerprint() if host.cache is not None else "", host.generation()

    async def run_builder() -> BuildResult:
        steps.enter(Step.BUILDER)
        async with host.builder(), host.turn(secret=False):
            write_sources(job, files, work)
            result = await _build(job.language, host, work, steps)
        steady = host.cache is None or not result.cacheable or await host.isolation.fingerprint(fresh=True) == toolchain
        return result if steady and host.generation() == generation else replace(result, cacheable=False)

    if host.cache is None:
        result = await run_builder()
    else:
        # What an isolation makes that keeps nobody in is not for those that do. And each user has entries of its own: a hit, or how soon it
        # comes, would tell that another user submitted the same source.
        settings = (f"user={user}", toolchain, "safe" if host.isolation.SAFE else "unsafe", *map("=".join, BUILD_ENVIRONMENT))
        key = artifact_key(job, files.items(), settings)
        result = await host.cache.fetch(key, run_builder, limit_bytes=host.profile.build.file_bytes)
        duration_ms, build_ms = (time.monotonic_ns() - begun_ns) // 1_000_000, result.build.duration_ns // 1_000_000
        outcome = result.build.outcome.value
        log.info("artifact", key=key, hit=result.build.cached, outcome=outcome, duration_ms=duration_ms, build_ms=build_ms)
    if result.artifact is not None:
        work.artifact_path.write_bytes(result.artifact)
    build = replace(result.build, duration_ns=time.monotonic_ns() - begun_ns) if result.build.cached else result.build
    declared = declaration(lease.problem.spec, job.language) if build.reason == Reason.ENTRY_NOT_FOUND else ""
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
    cacheable = _lasts(end, language, built=isinstance(artifact, bytes))
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


def _lasts(end: BoxExit, language: str, *, built: bool) -> bool:
    """Return whether every other build of the source would end so: it was built, or is at fault.

    What is imported may use packages of the host, which no fingerprint has: of such a language only the compiler's own word lasts. And a
    module may go on without what was not compiled; but a compiler that was interrupted leaves no artifact, whatever names its log quotes.
    """
    info = languages().get(language)
    is_c = info is not None and info.is_c
    if built:
        return is_c or INTERRUPTED.search(end.output) is None
    codes = CACHEABLE_EXIT_CODES if is_c else {COMPILER_REJECTED}
    whole = len(end.output) < wire.LOG_LIMIT_BYTES  # or nobody knows how it ends
    return end.cause is BoxCause.EXITED and end.exit_code in codes and whole and INTERRUPTED.search(end.output) is None


def _entry_call(spec: wire.ProblemSpec, language: str, device_kind: str) -> wire.EntryCall | None:
    """Return the public part of how the entry is called; None where only the problem's own code knows it."""
    spec = spec if language == PYTHON else without_model(spec)
    if not spec.inputs or not spec.outputs:
        return None
    shown = [workload for workload in spec.workloads if not workload.hidden and workload.device_kind in ("", device_kind)]
    inputs = [tensor for tensor in spec.inputs if language != CUDA or not is_axis(tensor)]
    tensors = [tuple(replace(item, distribution=wire.Distribution()) for item in items) for items in (inputs, spec.separate_outputs)]
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
