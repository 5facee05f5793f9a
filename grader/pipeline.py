"""How one submission is graded: built in one box (or found built), run in another, judged from outside both.

Emits facts and draws no conclusion; `grader/verdict.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from grader.building import build_artifact, cut, module_argv
from grader.errors import JudgeBroken, ProblemBroken
from grader.host import Host, Workspace
from grader.isolation import Box, BoxExit, BoxSpec, Purpose
from grader.model import Lease
from sandbox import wire
from sandbox.wire import BuildOutcome

CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission."""
    device_kind = lease.submission.new.device_kind
    environment = await host.environment(device_kind)
    yield dataclasses.replace(environment, isolation=host.isolation.NAME)
    with host.workspace(lease) as work:
        yield wire.Progress(stage=wire.Stage.BUILDING)
        async with started_early(host, _run_spec(lease, host, work), device_kind) as run_box:
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


def _run_spec(lease: Lease, host: Host, work: Workspace) -> BoxSpec:
    preload = ("--preload", "torch") if lease.submission.new.language == "torch_extension" else ()
    return BoxSpec(
        box_id=f"{work.box_id}-run",
        purpose=Purpose.RUN,
        argv=module_argv("sandbox.box.run", "{link}/judge.sock", *preload),
        limits=host.profile.run,
        slot=work.slot,
        link_dir=work.link_dir,
    )


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
