"""The grading service of a test run: one process that grades whatever the tests of all xdist workers submit.

    python -m tests.harness.service RUN_DIR

It listens on the Unix socket RUN_DIR/grading, has two lanes for each isolation, started when they are first needed, and one artifact cache
for all of them. It ends when the process that started the test run is gone, or on SIGTERM. `client.py` is the other side.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from grader.isolation import NoIsolationWorks
from sandbox.protocol import wire
from tests.harness.grading import Graded, Grading, grader
from tests.harness.messages import LENGTH_BYTES, SECRET, SOCKET, Answer, BuildRequest, GradingRequest, ServiceFailed, Unusable, frame
from tests.run_files import cache_directory

LANE_COUNT = 2
LOOK_S = 1.0

# With GRADER_TEST_WARM=2 all attacks and honest kernels run in boxes that waited; it costs imports of torch that a sample has no use for.
WARM_COUNT = int(os.environ.get("GRADER_TEST_WARM", "0"))


class IsolationLanes:
    """The lanes of one isolation. Each is a fleet of its own, so that a test can name what is graded next on the same judge."""

    def __init__(self, isolation: str, artifacts: Path, stack: AsyncExitStack) -> None:
        self._isolation, self._artifacts, self._stack = isolation, artifacts, stack
        self._free: list[Grading] = []
        self._lane_count = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[Grading]:
        """Wait for a free lane; start one where there are not as many as there may be. Raises NoIsolationWorks."""
        async with self._changed:
            while not self._free and self._lane_count == LANE_COUNT:
                await self._changed.wait()
            starts = not self._free
            self._lane_count += starts
            idle_lane = None if starts else self._free.pop()
        try:
            lane = idle_lane or await self._start()
        except BaseException:
            async with self._changed:
                self._lane_count -= 1
                self._changed.notify()
            raise
        try:
            yield lane
        finally:
            async with self._changed:
                self._free.append(lane)
                self._changed.notify()

    async def _start(self) -> Grading:
        return await self._stack.enter_async_context(
            grader(isolation=self._isolation, lanes=(), artifacts=self._artifacts, warm_count=WARM_COUNT)
        )


class GradingService:
    """Answers requests, each on a connection of its own."""

    def __init__(self, run_dir: Path, stack: AsyncExitStack) -> None:
        self._run_dir, self._stack = run_dir, stack
        self._lanes: dict[str, IsolationLanes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            # The socket lies in a directory of this user's, so what comes from it is a test's.
            request = pickle.loads(await read_frame(reader))
            writer.write(frame(pickle.dumps(await self._answer(request))))
            await writer.drain()
        finally:
            writer.close()

    async def _answer(self, request: GradingRequest | BuildRequest) -> Answer:
        submission = request.submission if isinstance(request, BuildRequest) else request
        if submission.isolation not in self._lanes:
            self._lanes[submission.isolation] = IsolationLanes(submission.isolation, cache_directory(), self._stack)
        try:
            async with self._lanes[submission.isolation].lane() as lane:
                if isinstance(request, BuildRequest):
                    return await _build(lane, submission)
                return tuple([await grade_on(lane, job) for job in (submission, submission.then) if job is not None])
        except NoIsolationWorks as error:
            return Unusable(detail=str(error))
        except Exception as error:  # noqa: BLE001  the test that asked reports it
            return ServiceFailed(detail=f"{type(error).__name__}: {error}")


async def grade_on(lane: Grading, job: GradingRequest) -> Graded:
    """Grade this on the emulated device of that fleet."""
    return await lane.grade(job.problem, job.sources, language=job.language, mode=job.mode, device="emulated", conditions=job.conditions)


async def _build(lane: Grading, job: GradingRequest) -> tuple[wire.Build, bytes | None]:
    return await lane.build(job.problem, job.sources, language=job.language, device="emulated", conditions=job.conditions)


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The bytes of one frame. Raises asyncio.IncompleteReadError where the other side is gone."""
    return await reader.readexactly(int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big"))


async def run(run_dir: Path, owner_pid: int) -> None:
    """Serve until the owner of the test run is gone, or SIGTERM."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with AsyncExitStack() as stack:
        service = GradingService(run_dir, stack)
        # Under another name first: a socket that can be seen can be connected to.
        partial = run_dir / f".{SOCKET}"
        server = await asyncio.start_unix_server(service.serve, partial)
        partial.chmod(0o600)
        partial.rename(run_dir / SOCKET)
        async with server:
            while not ended.is_set() and Path(f"/proc/{owner_pid}").exists():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), LOOK_S)


if __name__ == "__main__":
    os.environ[SECRET] = "the server's own"
    asyncio.run(run(Path(sys.argv[1]), int(sys.argv[2])))
