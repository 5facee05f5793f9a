"""The first submission that meets a competition's secret workloads, on a server that copies the toolchain to memory meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from grader.api.client import GraderClient
from grader.config import Settings
from grader.dispatch.lanes import JudgeProcess
from grader.dispatch.local_fleet import LocalFleet
from grader.isolation import Box, BoxSpec, GpuAccess, toolchain_keeper
from grader.isolation.memory_toolchain import MemoryToolchain, MemoryToolchainUnavailable, ToolchainPart
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain_keeper import KEEPER_NAME, PARTIAL_MODE
from grader.server import wiring
from grader.server.running import serving
from grader.server.wiring import Grading, await_toolchain, host_breaker
from grader.v1 import submission_pb2
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import toml

HANG_S, CAPACITY = 120.0, 4
SECRET = f'secret_seed = "{"ab" * 16}"\nprocesses = 2\n[[secret]]\nproblem = "sum"\naxes = {{ n = 987654 }}\n'


class SeeingBoxes(fakes.FakeBoxes):
    """Boxes that see the toolchain's copy from when it is adopted, and a judge that notes what the box of each job sees."""

    def __init__(self) -> None:
        super().__init__()
        self.adoption_faults: list[Exception] = []  # of as many adoptions
        self.seen: list[Path | None] = []  # by each box, whose number is its uid
        self.judged: list[Path | None] = []

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        self.seen.append(self.toolchain)
        uid = len(self.seen) - 1
        async with super().start(spec) as box:
            box.uid = uid  # type: ignore[misc]
            yield box

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        if self.adoption_faults:
            raise self.adoption_faults.pop()
        await super().adopt(memory_toolchain_dir, fingerprint)

    def judge_maker(self, judges: fakes.Judges) -> Callable[..., JudgeProcess]:
        def make(kind: str, gpu: GpuAccess | None, cache_dir: Path | None) -> JudgeProcess:
            process = judges(kind, gpu, cache_dir)
            judge = process.judge

            def noted(job):
                self.judged.append(self.seen[job.runner_uid])
                return judge(job)

            process.judge = noted  # type: ignore[method-assign]
            return process

        return make


class SlowCopy:
    """A copy of a toolchain of one file, whose keeper waits until it is told what to copy. refusal: why there is no place for it."""

    def __init__(self, root: Path) -> None:
        (root / "tree").mkdir()
        (root / "tree" / "tool").write_bytes(b"tool")
        self.directory, self.refusal_count = root / "copy", 0
        self.refusal: Exception | None = None
        self._parts = [(str(path), os.lstat(path)) for path in (root / "tree", root / "tree" / "tool")]
        self.directory.mkdir(mode=PARTIAL_MODE)
        reading, self._writing = os.pipe()
        command = [sys.executable, "-I", "-S", "-B", toolchain_keeper.__file__, str(self.directory), "0"]
        subprocess.run(command, check=True, timeout=HANG_S, stdin=reading)
        os.close(reading)

    def go_on(self) -> None:
        """Tell the keeper the parts."""
        named = [(path, (facts.st_mode, facts.st_size, facts.st_mtime_ns)) for path, facts in self._parts]
        os.write(self._writing, json.dumps(named).encode())
        os.close(self._writing)

    def kill_keeper(self) -> None:
        """Kill the process that copies, and what it forked."""
        os.killpg(int((self.directory / KEEPER_NAME).read_text().split()[0]), signal.SIGKILL)
        os.close(self._writing)

    def find_place(self) -> tuple[list[ToolchainPart], Path]:
        if self.refusal is not None:
            self.refusal_count += 1
            raise self.refusal
        return self._parts, self.directory

    def resident(self, boxes: SeeingBoxes, fleet: LocalFleet) -> MemoryToolchain:
        settings = BoxSettings(state_id="a", runtime_dir=self.directory.parent)
        resident = MemoryToolchain(settings, boxes, wanted=True, on_adoption=fleet.end_waiting, linger_s=0, retry_s=0)
        resident.find_place = self.find_place  # type: ignore[assignment]
        return resident


async def until(answer):
    """Return the first answer that says something."""
    async with asyncio.timeout(HANG_S):
        while not (result := answer()):
            await asyncio.sleep(0.01)
        return result


@pytest.fixture
def copy(tmp_path):
    return SlowCopy(tmp_path)


@pytest.fixture
def boxes():
    return SeeingBoxes()


@pytest.fixture
def serve_copying(place, settings, tmp_path, boxes, copy):
    """Serve a competition by a fleet of fakes that waits for the copy, or does not."""

    @asynccontextmanager
    async def start(*, waits: bool = True):
        (place / "competitions" / "one").mkdir(parents=True)
        (place / "competitions" / "one" / "competition.toml").write_text(toml("one", extra=SECRET))

        @asynccontextmanager
        async def wired(_: Settings) -> AsyncIterator[Grading]:
            async def before_secret() -> None:
                if waits:
                    await await_toolchain(resident)

            places = BoxSettings(state_id="fleet", runtime_dir=tmp_path)
            maker = boxes.judge_maker(fakes.Judges(tmp_path))
            fleet = LocalFleet(isolation=boxes, settings=places, make_judge=maker, before_secret=before_secret)
            resident = copy.resident(boxes, fleet)
            async with fleet, host_breaker(fleet, proving=False) as breaker:
                yield Grading(
                    grade=breaker.grade,
                    capacity=lambda: CAPACITY,
                    device_kinds=lambda: ("emulated",),
                    isolation="fake",
                    safe=True,
                    lanes=fleet.lanes,
                )
            await resident.close()

        there = settings.model_copy(update={"competitions": (place / "competitions",)})
        async with serving(there, wired) as running, GraderClient(running.address) as client:
            yield client

    return start


def secret(kernel):
    return kernel(competition_id="one", mode=wire.Mode.RANKED)


def succeeded(submission):
    return submission.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED


async def test_the_first_secret_is_met_in_a_box_that_sees_the_copy(serve_copying, boxes, copy, kernel, finished):
    """Though its box is started early, on the files on disk. Who waits is told, and shown work is not held up."""
    async with serve_copying() as client:
        submitted = await client.submit(secret(kernel))
        events = client.watch(submitted.name)
        async for event in events:
            if event.progress.stage == submission_pb2.STAGE_PREPARING:
                break
        await until(lambda: boxes.runs)
        assert succeeded(await finished(client, await client.submit(kernel(mode=wire.Mode.TEST))))
        assert boxes.judged == [None]
        copy.go_on()
        assert succeeded(await finished(client, submitted))
        assert boxes.seen[0] is None and boxes.judged == [None, copy.directory, copy.directory]


async def test_as_many_secrets_as_a_server_takes_do_not_hold_up_shown_work(serve_copying, boxes, copy, kernel, finished):
    """They wait for the copy, and use nothing of the host meanwhile. All are judged once it is there."""
    async with serve_copying() as client:
        waiting = [await client.submit(secret(kernel)) for _ in range(CAPACITY)]
        await until(lambda: len(boxes.runs) == CAPACITY)
        async with asyncio.timeout(HANG_S):
            assert succeeded(await finished(client, await client.submit(kernel(mode=wire.Mode.TEST))))
        copy.go_on()
        assert all([succeeded(await finished(client, submitted)) for submitted in waiting])


async def test_without_the_wait_a_secret_is_met_on_the_files_on_disk(serve_copying, boxes, copy, kernel, finished):
    """The control."""
    async with serve_copying(waits=False) as client:
        assert succeeded(await finished(client, await client.submit(secret(kernel))))
        assert boxes.judged == [None, None]
    copy.kill_keeper()


async def test_secrets_outlive_the_end_of_the_process_that_copies(serve_copying, boxes, copy, kernel, finished):
    """The copier is started again, for both that wait."""
    async with serve_copying() as client:
        waiting = [await client.submit(secret(kernel)) for _ in range(2)]
        await until(lambda: boxes.runs)
        copy.kill_keeper()
        for submitted in waiting:
            assert succeeded(await finished(client, submitted))
        assert boxes.judged == [copy.directory] * 4


@pytest.mark.parametrize(
    ("refusal", "tries"), [(MemoryToolchainUnavailable("there is no room"), 1), (FileNotFoundError("a package is being replaced"), 3)]
)
async def test_secrets_wait_until_there_is_room_for_the_copy(serve_copying, boxes, copy, kernel, finished, monkeypatch, refusal, tries):
    """Where it is asked for. No attempt counts: after three, the submission would fail."""
    monkeypatch.setattr(wiring, "TOOLCHAIN_PAUSE_S", 0.01)
    copy.refusal = refusal
    async with serve_copying() as client:
        submitted = await client.submit(secret(kernel))
        await until(lambda: copy.refusal_count > 3 * tries)
        assert boxes.judged == []
        copy.refusal = None
        copy.go_on()
        assert succeeded(await finished(client, submitted)) and boxes.judged == [copy.directory] * 2


async def test_secrets_wait_until_the_copy_is_adopted(serve_copying, boxes, copy, kernel, finished, monkeypatch):
    """Whatever hinders that, such as a compiler that does not say its version in time."""
    monkeypatch.setattr(wiring, "TOOLCHAIN_PAUSE_S", 0.01)
    boxes.adoption_faults = [subprocess.TimeoutExpired("g++", 30.0)] * 3
    async with serve_copying() as client:
        submitted = await client.submit(secret(kernel))
        copy.go_on()
        assert succeeded(await finished(client, submitted)) and boxes.judged == [copy.directory] * 2


async def test_a_copy_that_is_refused_is_not_asked_for_again_and_again(serve_copying, copy, kernel):
    """Each time costs a box and a build, and rows of the ledger."""
    copy.refusal = MemoryToolchainUnavailable("there is no room")
    async with serve_copying() as client:
        submitted = await client.submit(secret(kernel))
        await until(lambda: copy.refusal_count)
        await asyncio.sleep(2.5)
        assert (await client.get_submission(submitted.name)).attempt_count == 1
    copy.kill_keeper()
