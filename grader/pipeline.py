"""How one submission is graded: built in one box, run in another, judged from outside both.

Emits facts and draws no conclusion; `grader/verdict.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.errors import JudgeBroken, ProblemBroken, SandboxBroken
from grader.isolation import Box, BoxCause, BoxExit, BoxSpec, Isolation, Limits, Purpose
from grader.isolation.pickup import Refusal, pick_up
from grader.model import Lease
from sandbox import wire
from sandbox.wire import BuildOutcome

ARTIFACT = "artifact"
BUILD_REASONS = {3: "UNSUPPORTED", 4: "ENTRY_NOT_FOUND"}  # the builder's exit codes, `sandbox/box/build.py`
BUILDER_BROKEN = 5
CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended


class Lane(Protocol):
    """A device and its judge, ours until the context is left."""

    environment: wire.Environment

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts up to Finished or Broken; JudgeBroken where it died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One attempt's directories, and its slot; all gone when the attempt ends."""

    source_dir: Path
    out_dir: Path
    link_dir: Path
    artifact_path: Path
    slot: int
    box_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a box may use, and how long the judge is patient; `sandbox/profiles/limits.toml`."""

    build: Limits
    run: Limits
    load_s: float
    measure_s: float


class Host(Protocol):
    """What grading needs of the machine that it runs on."""

    isolation: Isolation
    profile: Profile

    def workspace(self, lease: Lease) -> AbstractContextManager[Workspace]:
        """Make an attempt's directories."""

    def builder(self) -> AbstractAsyncContextManager[None]:
        """Wait for a core to build on."""

    def idle(self, device_kind: str) -> bool:
        """Whether nobody is on the device or waits for it."""

    def lane(self, device_kind: str) -> AbstractAsyncContextManager[Lane]:
        """Wait for a device. One job at a time is on it."""

    async def environment(self, device_kind: str) -> wire.Environment:
        """What reports from this device are made on and with."""


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission."""
    device_kind = lease.submission.new.device_kind
    environment = await host.environment(device_kind)
    yield dataclasses.replace(environment, isolation=host.isolation.NAME)
    with host.workspace(lease) as work:
        yield wire.Progress(stage=wire.Stage.BUILDING)
        async with started_early(host, _run_spec(lease, host, work), device_kind) as run_box:
            async with host.builder():
                build = await build_artifact(lease, host, work, environment.device_kind)
            yield build
            if build.outcome is not BuildOutcome.BUILT:
                return
            async with host.lane(device_kind) as lane:
                box = await run_box()
                gone = False
                # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
                async with closed_link(box, work.link_dir):
                    async for fact in lane.judge(_job(lease, host, work, build, box)):
                        if isinstance(fact, wire.Broken):
                            raise (ProblemBroken if fact.problem_at_fault else JudgeBroken)(fact.message)
                        gone = gone or says_gone(fact)
                        yield fact
                yield _run_end(await _ending(box, CRASH_S if gone else 0.0))


@asynccontextmanager
async def started_early(host: Host, spec: BoxSpec, device_kind: str) -> AsyncIterator[Callable[[], Awaitable[Box]]]:
    """Start the run box while the kernel is being built, if its device is free; else when it is first asked for.

    The box holds nothing of the submission until the judge hands it the artifact. One task opens and closes it.
    """
    wanted, finished = asyncio.Event(), asyncio.Event()
    opened: asyncio.Future[Box] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        await wanted.wait()
        try:
            async with host.isolation.start(spec) as box:
                opened.set_result(box)
                await finished.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    async def take() -> Box:
        wanted.set()
        return await opened

    holder = asyncio.create_task(hold())
    if host.idle(device_kind):
        wanted.set()
    try:
        yield take
    finally:
        finished.set()
        if not wanted.is_set():
            holder.cancel()
        await asyncio.wait([holder])
        if opened.done() and not opened.cancelled() and not holder.cancelled():
            opened.exception()  # seen: whoever asked for the box got it
            holder.result()


async def build_artifact(lease: Lease, host: Host, work: Workspace, device_kind: str) -> wire.Build:
    """Build in a box and take the artifact out of it; the box is gone before anything that it left is touched."""
    _write_sources(lease, work, device_kind)
    limits = host.profile.build
    spec = BoxSpec(
        box_id=f"{work.box_id}-build",
        purpose=Purpose.BUILD,
        argv=_module("sandbox.box.build", "{src}", "{out}"),
        limits=limits,
        slot=work.slot,
        src_dir=work.source_dir,
        out_dir=work.out_dir,
    )
    begun = time.monotonic_ns()
    async with host.isolation.start(spec) as box:
        end = await box.wait()
    outcome, reason = _build_outcome(end)
    artifact = pick_up(work.out_dir, ARTIFACT, limit_bytes=limits.file_bytes) if outcome is BuildOutcome.BUILT else None
    log, truncated = cut(end.output)
    if isinstance(artifact, Refusal):
        outcome, log = BuildOutcome.REJECTED, f"error: the build left no artifact: {artifact.sentence}"
    if isinstance(artifact, bytes):
        work.artifact_path.write_bytes(artifact)
    return wire.Build(
        outcome=outcome,
        log=log,
        log_truncated=truncated,
        duration_ns=time.monotonic_ns() - begun,
        artifact_digest=hashlib.sha256(artifact).hexdigest() if isinstance(artifact, bytes) else None,
        reason=reason,
    )


def cut(output: bytes) -> tuple[str, bool]:
    """What a box printed as text of at most LOG_LIMIT_BYTES, whatever bytes it was, and whether some of it is gone."""
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
        case BoxCause.EXITED if end.exit_code == BUILDER_BROKEN:
            raise SandboxBroken(f"the builder failed: {end.output[-2000:].decode('utf-8', 'replace')}")
        case BoxCause.EXITED:
            return BuildOutcome.REJECTED, BUILD_REASONS.get(end.exit_code or 0)
    return BuildOutcome.REJECTED, "BUILDER_DIED"


def _write_sources(lease: Lease, work: Workspace, device_kind: str) -> None:
    new = lease.submission.new
    for source in new.sources:
        path = work.source_dir / "files" / source.path  # checked at intake: relative, normalized, no '..'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source.content, "utf-8")
    job = wire.BuildJob(
        language=new.language,
        entry=new.entry or lease.problem.spec.entry,
        device_kind=device_kind,
        sources=tuple(source.path for source in new.sources),
    )
    (work.source_dir / "job.json").write_bytes(wire.encode(job))


def _run_spec(lease: Lease, host: Host, work: Workspace) -> BoxSpec:
    preload = ("--preload", "torch") if lease.submission.new.language == "torch_extension" else ()
    return BoxSpec(
        box_id=f"{work.box_id}-run",
        purpose=Purpose.RUN,
        argv=_module("sandbox.box.run", "{link}/judge.sock", *preload),
        limits=host.profile.run,
        slot=work.slot,
        link_dir=work.link_dir,
    )


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    """Run a module of the `sandbox` package that the box has at {lib}, in isolated mode: no PYTHON* variable, no user site, no cwd."""
    start = f"import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
    return ("{python}", "-I", "-c", start, "{lib}", *arguments)


def _job(lease: Lease, host: Host, work: Workspace, build: wire.Build, box: Box) -> wire.Job:
    new = lease.submission.new
    assert build.artifact_digest is not None
    return wire.Job(
        job_id=work.box_id,
        problem=lease.problem.spec,
        language=new.language,
        entry=new.entry or lease.problem.spec.entry,
        mode=new.mode,
        link_path=str(work.link_dir / "judge.sock"),
        artifact_path=str(work.artifact_path),
        artifact_digest=build.artifact_digest,
        runner_uid=box.uid,
        load_s=host.profile.load_s,
        measure_s=host.profile.measure_s,
    )


def says_gone(fact: wire.Fact) -> bool:
    """Whether the judge lost the runner, so that the box ends by itself and knows why."""
    if isinstance(fact, wire.Trial):
        return fact.outcome is wire.TrialOutcome.CRASHED
    return isinstance(fact, wire.Load) and fact.outcome is wire.LoadOutcome.CRASHED


@asynccontextmanager
async def closed_link(box: Box, link_dir: Path) -> AsyncIterator[None]:
    """While inside, tell the judge when the box has ended, so that it does not wait for a runner that never comes."""

    async def watch() -> None:
        await box.wait()
        (link_dir / "judge.sock.closed").touch()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def _ending(box: Box, patience_s: float) -> BoxExit:
    """How the box ended; one whose runner is gone says so by itself within a moment, every other is killed."""
    try:
        async with asyncio.timeout(patience_s):
            return await box.wait()
    except TimeoutError:
        return await box.kill()


def _run_end(end: BoxExit) -> wire.RunEnd:
    return wire.RunEnd(
        cause=end.cause.value,
        exit_code=end.exit_code,
        signal=end.signal,
        output=cut(end.output)[0],
        wall_ns=end.wall_ns,
    )
