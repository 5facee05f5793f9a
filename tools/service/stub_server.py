"""Runs `grader-server` or `grader-worker` with stub kernels: server, ledger, queue, API, stream and fleet are real.

    python -m tools.service.stub_server instant|processes|remote MILLISECONDS OPTIONS OF grader-server...
    python -m tools.service.stub_server worker MILLISECONDS OPTIONS OF grader-worker...

instant: facts come from this process, instead of a fleet. processes, worker: the real fleet and pipeline, with a judge and
boxes that are processes and can be killed, but do nothing. remote: workers join; it and worker need grader_extensions/fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from grader import extensions
from grader.config import Settings
from grader.dispatch.lanes import JudgeProcess
from grader.dispatch.local_fleet import LocalFleet
from grader.isolation import Availability, Box, BoxCause, BoxExit, BoxSpec, GpuAccess, Purpose
from grader.model import Lease
from grader.server.main import parser
from grader.server.running import run
from grader.server.wiring import Grading, Wiring, box_settings, host_breaker
from sandbox.protocol import wire
from sandbox.protocol.box_files import READY

CAPACITY = 4
BUILDER_COUNT = 2  # without --builders: stubs need no cores
HOLD = "stub: hold"  # a source with this text is graded until it is cancelled, in addition to the others
HELD_LIMIT = 5000
HELD_LEASE_S = 600.0  # no server has thousands of attempts under way, and none has their heartbeats
ARTIFACT = bytes(1 << 20)  # as large as that of a small extension
BOX_COMMAND = ("cat", "-")  # waits until it is killed, or until the process that started it is gone
POOL_COMMAND = (*BOX_COMMAND, "-")  # the same, of a box that was started before there was a job for it
POOL_COUNT = 2  # without --warm-boxes
JUDGE_MODULE = "tools.service.stub_judge"


def instant(wait_s: float) -> Wiring:
    """Accept every kernel after wait_s."""
    room = asyncio.Semaphore(CAPACITY)

    async def grade(lease: Lease) -> AsyncIterator[wire.Fact]:
        yield wire.Environment(device="stub", device_kind="emulated", clock=wire.Clock.HOST)
        yield wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="e" * 64)
        if HOLD in lease.submission.new.sources[0].content:
            await asyncio.Event().wait()
        async with room:
            await asyncio.sleep(wait_s)
        yield wire.Load(outcome=wire.LoadOutcome.LOADED)
        names = [workload.workload_id for workload in lease.problem.spec.workloads]
        yield wire.Plan(trials=tuple((name, wire.TrialPhase.VERIFY, 1) for name in names))
        for name in names:
            yield wire.Trial(workload_id=name, phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.PASSED)
        yield wire.Finished(job_id=lease.submission.submission_id)

    @asynccontextmanager
    async def wired(settings: Settings) -> AsyncIterator[Grading]:
        kinds, capacity = ("emulated",), CAPACITY + HELD_LIMIT
        yield Grading(grade=grade, capacity=lambda: capacity, device_kinds=lambda: kinds, isolation="stub", safe=True)

    return wired


def processes(wait_s: float) -> Wiring:
    """Run the real fleet with a judge and boxes that do nothing."""

    def judge(kind: str, gpu: GpuAccess | None, cache_dir: Path | None, /) -> JudgeProcess:
        return JudgeProcess(kind, gpu, cache_dir, command=(sys.executable, "-m", JUDGE_MODULE, str(wait_s * 1000)))

    @asynccontextmanager
    async def wired(settings: Settings) -> AsyncIterator[Grading]:
        boxes = StubBoxes()
        fleet = LocalFleet(
            isolation=boxes,
            settings=box_settings(settings),
            lane_count=settings.lanes,
            builder_count=settings.builders or BUILDER_COUNT,
            warm_count=POOL_COUNT if settings.warm_boxes is None else settings.warm_boxes,
            make_judge=judge,
        )
        async with fleet, host_breaker(fleet, proving=True) as breaker:
            yield Grading(
                grade=breaker.grade,
                capacity=lambda: 0 if breaker.fault else fleet.capacity,
                device_kinds=fleet.device_kinds,
                ready_kinds=lambda: () if breaker.fault else fleet.ready_kinds(),
                fault=lambda: breaker.fault,
                isolation=boxes.NAME,
                safe=True,
                lanes=fleet.lanes,
            )

    return wired


class StubBoxes:
    """An isolation whose build boxes leave an artifact at once, and whose run boxes are processes that wait."""

    NAME, SAFE = "stub", True

    async def check(self) -> Availability:
        """Report that it works."""
        return Availability(usable=True, detail="confines nothing, and runs nothing")

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """Start a box."""
        if spec.purpose is Purpose.BUILD:
            assert spec.out_dir is not None
            (spec.out_dir / "artifact").write_bytes(ARTIFACT)
            yield _StubBox(None)
            return
        if spec.link_dir is not None and (spec.link_dir / READY).is_fifo():
            (spec.link_dir / READY).write_bytes(b"r")  # it has imported all that it needs
        command = POOL_COMMAND if spec.box_id.startswith("warm-") else BOX_COMMAND
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        box = _StubBox(process)
        try:
            yield box
        finally:
            await box.kill()

    async def fingerprint(self, *, fresh: bool = False) -> str:
        """Return the same for every build: there are no tools."""
        return "stub"

    async def sweep(self) -> int:
        """Find nothing: boxes of a server that died have ended with it."""
        return 0

    async def close(self) -> None:
        """Close nothing."""


class _StubBox:
    """A box of a process, or of none, which has ended."""

    uid = -1

    def __init__(self, process: asyncio.subprocess.Process | None) -> None:
        self._process = process

    @property
    def ended(self) -> bool:
        return self._process is None or self._process.returncode is not None

    async def wait(self) -> BoxExit:
        code = await self._process.wait() if self._process is not None else 0
        return BoxExit(cause=BoxCause.SIGNALLED, signal=-code) if code < 0 else BoxExit(cause=BoxCause.EXITED, exit_code=0)

    def begin(self, wall_s: float) -> None:
        """Start no limit."""

    async def kill(self) -> BoxExit:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        return await self.wait()


async def _examine(*_: object) -> None:
    """Find nothing: stubs need no compiler."""


def main() -> int:
    """Serve or work."""
    kind, wait_ms, *words = sys.argv[1:]
    wait_s = float(wait_ms) / 1000
    if kind == "worker":
        worker = import_module("grader_extensions.fleet.main")
        return worker.start(vars(worker.parser().parse_args(words)), wiring=processes(wait_s), examine=_examine)
    options: dict[str, Any] = {name: value for name, value in vars(parser().parse_args(words)).items() if value is not None}
    if kind == "instant":
        options["lease_s"] = HELD_LEASE_S
    wiring = extensions.part(extensions.FLEETS, kind) if kind == "remote" else {"instant": instant, "processes": processes}[kind](wait_s)
    return run(options, wiring)


if __name__ == "__main__":
    sys.exit(main())
