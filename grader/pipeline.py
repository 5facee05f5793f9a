"""How one submission is graded: built in one box (or found built), run in another, judged from outside both.

Emits facts and draws no conclusion; `grader/verdict.py` does. What the submission does wrong is a fact; what we can't do raises.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from grader import devices
from grader.building import build_artifact, cut, module_argv
from grader.errors import JudgeBroken, ProblemBroken
from grader.host import Host, Seat, Workspace
from grader.isolation import Box, BoxExit, BoxSpec, Purpose
from grader.isolation.uninterrupted import uninterrupted
from grader.model import Lease
from sandbox import wire
from sandbox.wire import BuildOutcome

CRASH_S = 3.0  # how long the box of a runner that is gone may take to say how it ended


async def grade(lease: Lease, host: Host) -> AsyncIterator[wire.Fact]:
    """Grade one attempt at one submission."""
    with host.seat(lease.submission.new.device_kind) as seat, host.workspace(lease) as work:
        environment = await seat.environment()
        problem = problem_for(environment.device_kind, lease.problem.spec)
        yield _report_on(environment, host)
        yield wire.Progress(stage=wire.Stage.BUILDING)
        async with started_early(seat, lambda: host.isolation.start(_run_spec(lease, host, work, seat))) as run_box:
            build = await build_artifact(lease, host, work, environment)
            yield build
            if build.outcome is not BuildOutcome.BUILT:
                return
            async with seat.lane() as lane, run_box() as box:
                if lane.environment != environment:  # another lane was free first
                    yield _report_on(lane.environment, host)
                gone = False
                # From here on a process of ours shares a device with untrusted code. Only what the judge says is believed.
                async with closed_link(box, work.link_dir):
                    async for fact in lane.judge(_job(lease, problem, host, work, build, box)):
                        if isinstance(fact, wire.Broken):
                            raise (ProblemBroken if fact.problem_at_fault else JudgeBroken)(fact.message)
                        gone = gone or says_gone(fact)
                        yield fact
                yield _run_end(await _ending(box, CRASH_S if gone else 0.0))


@asynccontextmanager
async def started_early(
    seat: Seat, start: Callable[[], AbstractAsyncContextManager[Box]]
) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[Box]]]:
    """Start the run box while the kernel is being built, if its device is free, or is surely the one that it will have, which it then
    leaves alone until it has a job; else when it is first asked for.

    The box holds nothing of the submission until the judge hands it the artifact. It is gone when the context that gives it is left.
    One task opens and closes it.
    """
    wanted, finished = asyncio.Event(), asyncio.Event()
    opened: asyncio.Future[Box] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        await wanted.wait()
        try:
            async with start() as box:
                opened.set_result(box)
                await finished.wait()
        except Exception as error:
            if opened.done():
                raise
            opened.set_exception(error)

    @asynccontextmanager
    async def take() -> AsyncIterator[Box]:
        wanted.set()
        try:
            yield await opened
        finally:
            finished.set()
            await uninterrupted(_end(holder))

    holder = asyncio.create_task(hold())
    if seat.idle or seat.fixed:
        wanted.set()
    try:
        yield take
    finally:
        finished.set()
        if not wanted.is_set():
            holder.cancel()
        await uninterrupted(_end(holder))
        if opened.done() and not opened.cancelled() and not holder.cancelled():
            opened.exception()  # seen: whoever asked for the box got it
            holder.result()


async def _end(holder: asyncio.Task[None]) -> None:
    await asyncio.wait([holder])


def problem_for(device_kind: str, spec: wire.ProblemSpec) -> wire.ProblemSpec:
    """The problem with the workloads that are meant for this kind of device."""
    workloads = tuple(one for one in spec.workloads if one.device_kind in ("", device_kind))
    if not workloads:
        text = f"problem {spec.problem_id!r} has no workload for the device {device_kind!r}; add one, or leave device_kind out of one"
        raise ProblemBroken(text)
    return dataclasses.replace(spec, workloads=workloads)


def _report_on(environment: wire.Environment, host: Host) -> wire.Environment:
    return dataclasses.replace(environment, isolation=host.isolation.NAME)


def _run_spec(lease: Lease, host: Host, work: Workspace, seat: Seat) -> BoxSpec:
    # On a GPU whatever the language, for do_bench; the device itself is opened early only where nobody else is timed on it.
    options: tuple[str, ...] = ("--preload", "torch") if seat.gpu is not None or lease.submission.new.language == "torch_extension" else ()
    if seat.gpu is not None and seat.idle:
        options += ("--device", devices.CUDA)
    return BoxSpec(
        box_id=f"{work.box_id}-run",
        purpose=Purpose.RUN,
        argv=module_argv("sandbox.box.run", "{link}/judge.sock", *options),
        limits=host.profile.run if seat.gpu is None else host.profile.run_cuda,
        slot=work.slot,
        link_dir=work.link_dir,
        gpu=seat.gpu,
    )


def _job(lease: Lease, problem: wire.ProblemSpec, host: Host, work: Workspace, build: wire.Build, box: Box) -> wire.Job:
    new = lease.submission.new
    assert build.artifact_digest is not None
    return wire.Job(
        job_id=work.box_id,
        problem=problem,
        language=new.language,
        entry=new.entry or problem.entry,
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
