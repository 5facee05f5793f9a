"""Boxes that wait for a job: when there is one, whose it is, and that none is used twice or left behind."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.dispatch import warm_boxes
from grader.dispatch.warm_boxes import BOX_BYTES, SPARE_BYTES, WarmBoxes
from grader.errors import SandboxBroken
from grader.grading import attempt
from grader.grading.attempt import JobPipes, started
from grader.isolation import Box, BoxSpec, GpuAccess, Held, IsolationBroken, Purpose
from sandbox.protocol.box_files import GO, READY
from tests import fakes
from tests.unit.pipeline_fleets import until

SPEC = BoxSpec(
    box_id="job-run", purpose=Purpose.RUN, argv=("{python}", "--language", "cuda"), limits=replace(fakes.LIMITS, wall_s=900.0), slot=7
)


class WaitingBox(fakes.FakeBox):
    """A box that counts how often it was given a time, and can end by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.began_with_s = 0.0

    def end(self) -> None:
        self._killed.set()


class Boxes(fakes.FakeBoxes):
    """An isolation whose run boxes say that they have imported everything. broken: none starts. stuck: none can be removed."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes: list[WaitingBox] = []
        self.imports = asyncio.Event()
        self.imports.set()
        self.broken = self.stuck = False
        self.print = "one"

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        if self.broken:
            raise IsolationBroken("no box")
        self.specs.append(spec)
        self.open.append(spec)
        self.boxes.append(box := WaitingBox())
        imported = asyncio.create_task(self._imported(spec))
        try:
            yield box
        finally:
            imported.cancel()
            self.open.remove(spec)
            if self.stuck:
                raise IsolationBroken("it is still there")

    async def _imported(self, spec: BoxSpec) -> None:
        await self.imports.wait()
        assert spec.link_dir is not None
        (spec.link_dir / READY).open("wb", buffering=0).write(b"r")

    async def fingerprint(self, *, fresh: bool = False) -> str:
        return self.print


@pytest.fixture
async def boxes() -> Boxes:
    return Boxes()


@pytest.fixture
def make(tmp_path: Path, boxes: Boxes) -> Callable[..., WarmBoxes]:
    """Make a pool of two on a host with enough memory."""
    numbers = itertools.count()

    @contextmanager
    def place(spec: BoxSpec) -> Iterator[BoxSpec]:
        number = next(numbers)
        (tmp_path / f"warm{number}").mkdir()
        yield replace(spec, link_dir=tmp_path / f"warm{number}", slot=100 + number, box_id=f"warm-{number}")

    def make_pool(size: int = 2, **settings: object) -> WarmBoxes:
        settings = {"memory": lambda: SPARE_BYTES + 10 * BOX_BYTES, "from_count": 1, "idle_s": 1e9} | settings
        return WarmBoxes(boxes, place, size=size, **settings)  # type: ignore[arg-type]

    return make_pool


def on_gpu(tmp_path: Path, index: int = 0, number: int = 0) -> BoxSpec:
    """The box of a job on a GPU."""
    gpu = GpuAccess(index=index, uuid=f"GPU-{index}", name="NVIDIA H200", minor=index, triton_dir=tmp_path)
    return replace(of(tmp_path, number=number), gpu=gpu)


def of(tmp_path: Path, language: str = "cuda", number: int = 0, wall_s: float = 900.0) -> BoxSpec:
    """The box of a job."""
    link_dir = tmp_path / f"job{language}{number}"
    link_dir.mkdir(exist_ok=True)
    return replace(SPEC, argv=("{python}", "--language", language), link_dir=link_dir, limits=replace(fakes.LIMITS, wall_s=wall_s))


async def used(pool: WarmBoxes, spec: BoxSpec) -> Path:
    """Take a box and leave it; return where its {link} was."""
    async with pool.run_box(spec) as box:
        box.give_job()
        return box.link_dir


async def filled(pool: WarmBoxes, tmp_path: Path) -> None:
    """Use a box, so that another one waits."""
    await used(pool, of(tmp_path))
    await until(pool._waiting)


def waiting(boxes: Boxes, count: int) -> Callable[[], bool]:
    return lambda: len(boxes.open) == count


async def test_the_second_job_gets_a_box_that_waits(make, boxes, tmp_path) -> None:
    """A slot, a name and a directory of its own: nothing of a job was there before. Its time is the job's, from when it is given one."""
    async with make() as pool:
        assert await used(pool, of(tmp_path)) == of(tmp_path).link_dir
        await until(pool._waiting)
        async with pool.run_box(of(tmp_path, number=1, wall_s=33.0)) as warm_box:
            assert warm_box.link_dir == tmp_path / "warm0" and (pool.hit_count, pool.miss_count) == (1, 1)
            box = boxes.boxes[1]
            assert warm_box.box is box and box.began_with_s == 33.0
            box.began_with_s = 0.0
            warm_box.give_job()
            assert box.began_with_s == 33.0
            spec = boxes.specs[1]
            assert (spec.box_id, spec.slot, spec.argv, spec.link_dir) == ("warm-0", 100, SPEC.argv, tmp_path / "warm0")
    assert boxes.open == []


@pytest.mark.parametrize(("fork_argv", "count"), [((), 2), (("{python}",), 3)])
async def test_a_forked_box_waits_from_the_third_on(make, tmp_path, fork_argv, count) -> None:
    """A benchmark asks for two itself, and a command that grades one kernel needs no third. The control is a box that is not forked."""
    spec = replace(of(tmp_path), fork_argv=fork_argv)
    async with make(from_count=2) as pool:
        for _ in range(count - 1):
            await used(pool, spec)
            await asyncio.sleep(0.05)
            assert pool._boxes == []
        await used(pool, spec)
        await until(pool._waiting)


async def test_a_box_waits_for_one_gpu(make, boxes, tmp_path) -> None:
    first, second = (on_gpu(tmp_path, index) for index in range(2))
    async with make() as pool:
        for _ in range(2):
            await used(pool, first)
        await until(pool._waiting)
        async with pool.run_box(second):
            assert pool.hit_count == 0
        async with pool.run_box(first):
            assert pool.hit_count == 1


@pytest.mark.parametrize(("cores", "by_host_clock", "filled"), [(16, False, True), (2, False, False), (16, True, False)])
async def test_a_box_for_a_gpu_is_started_next_to_a_gpu_where_cores_are_free(make, tmp_path, cores, by_host_clock, filled) -> None:
    """Started boxes do not disturb what a GPU's clock times; with two cores for a judge, or a kernel timed by the host's clock, they do."""
    async with make(cores=cores) as pool:
        pool.times("a", busy=True, by_host_clock=by_host_clock)
        for _ in range(2):
            await used(pool, on_gpu(tmp_path))
        await asyncio.sleep(0.05)
        assert bool(pool._waiting()) is filled
        pool.times("a", busy=False)
        await until(pool._waiting)


@pytest.mark.parametrize(("cores", "at_once"), [(64, 3), (16, 1), (4, 0)])
async def test_boxes_for_a_gpu_are_started_while_a_job_runs_as_cores_allow(make, boxes, tmp_path, cores, at_once) -> None:
    """Somebody whose jobs come every few seconds has a box each time; with few cores they are started in the pauses. One that is being
    started is ended with the pool."""
    now = [0.0]
    async with make(3, cores=cores, clock=lambda: now[0], idle_s=1.0) as pool:
        now[0] += 2.0
        boxes.imports.clear()
        async with pool.run_box(on_gpu(tmp_path)):
            await until(waiting(boxes, 1 + at_once))
            await asyncio.sleep(0.05)
            assert (len(boxes.open), pool.now().waiting_count) == (1 + at_once, 0)
            boxes.imports.set()
            await until(lambda: pool.now().waiting_count == (3 if at_once else 0))
            await asyncio.sleep(0.05)
            assert len(boxes.open) == 1 + (3 if at_once else 0)
        boxes.imports.clear()
        async with pool.run_box(on_gpu(tmp_path, number=1)):
            await until(lambda: len(pool._boxes) - len(pool._waiting()) == min(1, at_once))
    assert boxes.open == []


async def test_boxes_that_started_before_a_copy_are_for_no_job_after_it(make, boxes, tmp_path) -> None:
    """They see the toolchain on disk, also those that still import. New ones wait for the next jobs."""
    async with make(1) as pool:
        await filled(pool, tmp_path)
        pool.end_waiting()
        async with pool.run_box(of(tmp_path, number=1)) as box:
            assert box.link_dir == of(tmp_path, number=1).link_dir and pool.hit_count == 0
        boxes.imports.clear()
        await until(lambda: len(pool._boxes) == 1)
        pool.end_waiting()
        boxes.imports.set()
        async with pool.run_box(of(tmp_path, number=2)):
            assert pool.hit_count == 0
        await until(pool._waiting)


async def test_a_box_is_used_once(make, boxes, tmp_path) -> None:
    async with make(1) as pool:
        await filled(pool, tmp_path)
        async with pool.run_box(of(tmp_path)) as first, pool.run_box(of(tmp_path, number=1)) as second:
            assert first.box is not second.box and first.link_dir != second.link_dir
        await until(pool._waiting)
        entered = pool.run_box(of(tmp_path, number=2))
        warm_box = await entered.__aenter__()
        await entered.__aexit__(None, None, None)  # cancelled between the two
        assert all(spec.link_dir != warm_box.link_dir for spec in boxes.open)


DIFFERENCES = {"argv": (*SPEC.argv, "--preload", "torch"), "limits": replace(SPEC.limits, memory_bytes=2), "environment": (("A", "b"),)}


@pytest.mark.parametrize("part", [*DIFFERENCES, "fingerprint"])
async def test_a_box_that_differs_in_any_part_is_not_used(make, boxes, tmp_path, part) -> None:
    async with make() as pool:
        await filled(pool, tmp_path)
        boxes.print = "two" if part == "fingerprint" else "one"
        variant = replace(of(tmp_path, number=1), **{name: value for name, value in DIFFERENCES.items() if name == part})
        assert await used(pool, variant) == variant.link_dir


async def test_nothing_is_started_while_something_is_timed(make, boxes, tmp_path) -> None:
    """A box that still imports is ended, and started again afterwards; one that waits already stays."""
    async with make(2) as pool:
        pool.times("a", busy=True)
        await used(pool, of(tmp_path))
        await asyncio.sleep(0.05)
        assert boxes.open == []
        boxes.imports.clear()
        pool.times("a", busy=False)
        await until(waiting(boxes, 1))
        pool.times("a", busy=True)
        pool.times("b", busy=True)
        await until(waiting(boxes, 0))
        boxes.imports.set()
        pool.times("a", busy=False)
        await asyncio.sleep(0.05)
        assert boxes.open == []
        pool.times("b", busy=False)
        await until(pool._waiting)
        pool.times("c", busy=True)
        await asyncio.sleep(0.05)
        assert len(boxes.open) == 1
        assert (await used(pool, of(tmp_path))).name.startswith("warm")


async def test_a_box_that_ended_while_it_waited_is_not_given_out(make, boxes, tmp_path) -> None:
    async with make(1) as pool:
        await filled(pool, tmp_path)
        boxes.boxes[-1].end()
        await asyncio.sleep(0.02)
        assert (await used(pool, of(tmp_path, number=1))).name == "jobcuda1"


async def test_a_box_does_not_wait_for_ever(make, boxes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(warm_boxes, "LOOK_S", 0.01)
    now = [0.0]
    async with make(1, clock=lambda: now[0]) as pool:
        await filled(pool, tmp_path)
        first = boxes.boxes[-1]
        now[0] = 601.0
        await until(lambda: boxes.boxes[-1] is not first and pool._waiting())
        assert len(boxes.open) == 1


async def test_the_pool_shrinks_with_the_hosts_memory(make, boxes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(warm_boxes, "LOOK_S", 0.01)
    free = [SPARE_BYTES + BOX_BYTES - 1]
    async with make(2, memory=lambda: free[0]) as pool:
        await used(pool, of(tmp_path))
        await asyncio.sleep(0.05)
        assert boxes.open == []
        free[0] += 1
        await until(pool._waiting)
        free[0] = SPARE_BYTES - 1
        await until(waiting(boxes, 0))


async def test_where_no_box_starts_jobs_say_so_and_the_server_goes_on(make, boxes, tmp_path) -> None:
    """Tried again only when a job asks for one."""
    async with make(1) as pool:
        await filled(pool, tmp_path)
        boxes.broken = True
        await used(pool, of(tmp_path))
        await until(lambda: not pool._wanted)
        with pytest.raises(SandboxBroken, match="no box"):
            await used(pool, of(tmp_path))
        boxes.broken = False
        await filled(pool, tmp_path)


async def test_a_box_that_can_not_be_removed_is_the_fault_of_the_job_that_had_it(make, boxes, tmp_path) -> None:
    """As with a new one. One that nobody has is logged, and stops no server."""
    async with make(1) as pool:
        await filled(pool, tmp_path)
        boxes.stuck = True
        with pytest.raises(SandboxBroken, match="still there"):
            await filled(pool, tmp_path)
    assert boxes.open == []


async def test_one_that_never_says_that_it_waits_is_ended(make, boxes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(attempt, "IMPORT_S", 0.05)
    boxes.imports.clear()
    async with make(1) as pool:
        await used(pool, of(tmp_path))
        await until(lambda: len(boxes.specs) == 2)
        await until(waiting(boxes, 0))
        assert not pool._waiting()


async def test_a_held_box_is_closed_by_others_than_who_opened_it(boxes, tmp_path) -> None:
    """Also when who waited for it was cancelled, before it is open, and where it can't be removed."""
    spec, begin = replace(SPEC, link_dir=tmp_path), asyncio.Event()

    @asynccontextmanager
    async def late() -> AsyncIterator[Box]:
        await begin.wait()
        async with boxes.start(spec) as box:
            yield box

    held_box = Held(late)
    waiter = asyncio.create_task(held_box.opened())
    await asyncio.sleep(0)
    waiter.cancel()
    begin.set()
    assert not (await held_box.opened()).ended and boxes.open == [spec]
    await held_box.close()
    assert boxes.open == []
    begin.clear()
    early = Held(late)
    await early.close()
    with pytest.raises(IsolationBroken, match="before it was open"):
        await early.opened()
    begin.set()
    boxes.stuck = True
    await (stuck := Held(late)).opened()
    with pytest.raises(IsolationBroken, match="still there"):
        await stuck.close()


async def test_a_box_that_is_given_up_twice_is_cleaned_up_once() -> None:
    """The second time does not cut short what the first began."""
    steps, begun, clean = [], asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow() -> AsyncIterator[Box]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield fakes.FakeBox()
        finally:
            steps.append("begun")
            await clean.wait()
            steps.append("clean")

    held_box = Held(slow)
    await begun.wait()
    for _ in range(2):
        held_box.leave()
        await asyncio.sleep(0)
    clean.set()
    await held_box.close()
    assert steps == ["begun", "clean"]


# -- the pipes -----------------------------------------------------------------------------------------------------------


async def test_a_box_reads_its_job_even_where_it_was_given_before_it_came(tmp_path) -> None:
    """The server holds both ends; it gives no other job, and removes the pipes."""
    pipes = JobPipes(tmp_path)
    pipes.give()
    assert await asyncio.to_thread(_read, tmp_path / GO) == b"g"
    (tmp_path / READY).open("wb", buffering=0).write(b"r" * 4096)
    await asyncio.wait_for(pipes.ready.wait(), 300)
    assert (tmp_path / READY).stat().st_mode & 0o777 == 0o622 and (tmp_path / GO).stat().st_mode & 0o777 == 0o644
    pipes.close()
    assert list(tmp_path.iterdir()) == []


def _read(path: Path) -> bytes:
    with path.open("rb", buffering=0) as pipe:
        return pipe.read(1)


async def test_a_box_whose_server_dies_reads_an_end(tmp_path) -> None:
    pipes = JobPipes(tmp_path)
    reading = os.open(tmp_path / GO, os.O_RDONLY)
    pipes.close()
    assert await asyncio.to_thread(os.read, reading, 1) == b""
    os.close(reading)


async def test_a_box_cannot_have_more_of_the_pipes_than_it_is_given(boxes, tmp_path) -> None:
    """A pipe that an earlier process left is replaced; what a box writes to `ready` later fills a pipe and nothing else."""
    (tmp_path / GO).write_text("left")
    async with started(boxes, replace(SPEC, link_dir=tmp_path)) as run:
        await asyncio.wait_for(run.pipes.ready.wait(), 300)
        flooding = os.open(tmp_path / READY, os.O_WRONLY | os.O_NONBLOCK)
        with pytest.raises(BlockingIOError):
            while True:
                os.write(flooding, bytes(4096))
        os.close(flooding)
        run.give_job()
    assert list(tmp_path.iterdir()) == []
