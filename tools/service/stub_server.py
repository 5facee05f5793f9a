"""`grader-server` whose kernels are stubs: the server, the ledger, the queue and the API are the real ones.

    python -m tools.service.stub_server instant|processes|remote MILLISECONDS OPTIONS OF grader-server...

instant: facts come from this process, at the seam where the dispatcher asks the fleet. processes: the real fleet and pipeline, with a
judge and boxes that are processes and can be killed, but do nothing. remote: workers that join (`stub_worker.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from grader.config import Settings
from grader.dispatch.judge_process import JudgeProcess
from grader.dispatch.local_fleet import LocalFleet
from grader.isolation import Availability, Box, BoxCause, BoxExit, BoxSpec, GpuAccess, Purpose
from grader.model import Lease
from grader.server.grading import Grading, Wiring
from grader.server.main import parser
from grader.server.serve import run
from grader.server.wiring import box_settings, host_breaker, joined
from sandbox.protocol import wire
from sandbox.protocol.box_files import READY

CAPACITY = 4
BUILDER_COUNT = 2  # where --builders says nothing: stubs need no cores
HOLD = "stub: hold"  # a source with this in it is graded until it is cancelled, in addition to the others
HELD_MOST = 5000
HELD_LEASE_S = 600.0  # no server has thousands of attempts under way, and none has their heartbeats
ARTIFACT = bytes(1 << 20)  # as large as that of a small extension
BOX_COMMAND = ("cat", "-")  # waits until it is killed, or until the process that started it is gone
POOL_COMMAND = (*BOX_COMMAND, "-")  # the same, of a box that was started before there was a job for it
POOL_COUNT = 2  # where --warm-boxes says nothing
JUDGE_MODULE = "tools.service.stub_judge"


def instant(wait_s: float, lane_count: int = 0) -> Wiring:
    """Everything is right after wait_s. lane_count: so many at once, and nothing is held."""
    room = asyncio.Semaphore(lane_count or CAPACITY)
    capacity = lane_count or CAPACITY + HELD_MOST

    async def grade(lease: Lease) -> AsyncIterator[wire.Fact]:
        yield wire.Environment(device="stub", device_kind="emulated", clock=wire.Clock.HOST)
        yield wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="e" * 64)
        if HOLD in lease.submission.new.sources[0].content:
            await asyncio.Event().wait()
        async with room:
            await asyncio.sleep(wait_s)
        yield wire.Load(outcome=wire.LoadOutcome.LOADED)
        yield wire.Plan(trials=tuple((one.workload_id, wire.TrialPhase.VERIFY, 1) for one in lease.problem.spec.workloads))
        for one in lease.problem.spec.workloads:
            yield wire.Trial(workload_id=one.workload_id, phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.PASSED)
        yield wire.Finished(job_id=lease.submission.submission_id)

    @asynccontextmanager
    async def wired(settings: Settings) -> AsyncIterator[Grading]:
        yield Grading(grade=grade, capacity=lambda: capacity, device_kinds=lambda: ("emulated",), isolation="stub", safe=True)

    return wired


def processes(wait_s: float) -> Wiring:
    """The real fleet, with a judge and boxes that do nothing."""

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
                device_kinds=lambda: fleet.device_kinds,
                ready_kinds=lambda: () if breaker.fault else fleet.ready_kinds,
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
        """It works."""
        return Availability(usable=True, detail="keeps nobody in, and runs nothing")

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """Start one."""
        if spec.purpose is Purpose.BUILD:
            assert spec.out_dir is not None
            (spec.out_dir / "artifact").write_bytes(ARTIFACT)
            yield _Ended()
            return
        if spec.link_dir is not None and (spec.link_dir / READY).is_fifo():
            (spec.link_dir / READY).write_bytes(b"r")  # it has imported all that it needs
        command = POOL_COMMAND if spec.box_id.startswith("warm-") else BOX_COMMAND
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        try:
            yield _Running(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def fingerprint(self) -> str:
        """There are no tools."""
        return "stub"

    async def sweep(self) -> int:
        """Boxes of a server that died have ended with it."""
        return 0

    async def close(self) -> None:
        """There is nothing to close."""


class _Ended:
    uid = -1

    async def wait(self) -> BoxExit:
        return BoxExit(cause=BoxCause.EXITED, exit_code=0)

    kill = wait

    def begin(self, wall_s: float) -> None:
        """It has ended."""


class _Running:
    uid = -1

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def wait(self) -> BoxExit:
        code = await self._process.wait()
        return BoxExit(cause=BoxCause.SIGNALLED if code < 0 else BoxCause.EXITED, signal=-code if code < 0 else None)

    def begin(self, wall_s: float) -> None:
        """It has no limit."""

    async def kill(self) -> BoxExit:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self.wait()


def main() -> int:
    """Serve."""
    kind, wait_ms, *words = sys.argv[1:]
    given: dict[str, Any] = {name: value for name, value in vars(parser().parse_args(words)).items() if value is not None}
    wait_s = float(wait_ms) / 1000
    if kind == "instant":
        given["lease_s"] = HELD_LEASE_S
    return run(given, {"instant": instant, "processes": processes}[kind](wait_s) if kind != "remote" else joined)


if __name__ == "__main__":
    sys.exit(main())
