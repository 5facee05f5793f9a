"""Run boxes that wait next to a GPU: they leave it alone, jobs get them, and the lane stays in service."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.observability.observer import LaneState
from sandbox.protocol import wire
from tests.gpu.conftest import HIDDEN, RUNNER, one_at_a_time
from tests.gpu.kernels.files import Example
from tests.gpu.report import Report, Section
from tests.gpu.test_examples import all_examples
from tests.harness.grading import Grading, grader

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

NAMES = ("vector_add/grid_stride.cu", "tril_matmul/stale_memory.cu", "tril_matmul/correct_2d.cu")
ROUNDS, WARM_COUNT = 3, 3
READY_S, POLL_S = 60.0, 0.2
LOAD_SHARE = 0.5  # of what it takes with the import of PyTorch


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def waiting(request: pytest.FixtureRequest, gpu: Gpu, gpu_report: Report) -> AsyncIterator[Grading]:
    """A fleet of one GPU whose boxes wait, as a server's do."""
    with one_at_a_time(gpu.uuid):
        async with grader(isolation=request.config.getoption("gpu_isolation"), lanes=(0,), hidden=HIDDEN, warm_count=WARM_COUNT) as grading:
            gpu_report.describe(await grading.environment())
            await grading.prebuild(example.build for example in _examples())
            yield grading


async def test_jobs_get_boxes_that_waited_and_the_lane_stays(waiting: Grading, section: Section) -> None:
    """A submission that finds a waiting box loads in half the time, and no box is a leftover. Forked, it is all but the very first."""
    forked = waiting.fleet.isolation.NAME == "bubblewrap" and os.geteuid() == 0
    table = section.table("kernel", "round", "verdict", "box waited", "load, s", "total, s")
    loads: dict[bool, list[float]] = {True: [], False: []}
    for example in _examples():
        for number in range(ROUNDS):
            hits = waiting.fleet.warm().hit_count
            graded = await example.grade(waiting, mode=wire.Mode.TEST)
            hit = waiting.fleet.warm().hit_count > hits
            load_s = sum(step.duration_ns for step in graded.report.timeline if step.step in (wire.Step.BOX, wire.Step.LOAD)) / 1e9
            table.add(example.name, number + 1, graded.verdict, "yes" if hit else "no", f"{load_s:.2f}", f"{graded.seconds:.2f}")
            assert graded.is_one_of(example.expected), graded.explanation
            loads[hit or (forked and bool(loads[False]))].append(load_s)
            if number > 0:
                await _until_waiting(waiting, WARM_COUNT)
    await waiting.environment()  # waits for the check that follows every job
    assert [lane.state for lane in waiting.fleet.lanes() if lane.name.startswith("cuda")] == [LaneState.FREE]
    assert len(loads[True]) >= len(NAMES)
    assert max(loads[True]) < LOAD_SHARE * min(loads[False])


async def test_a_box_that_waits_has_not_opened_the_gpu(waiting: Grading, section: Section, gpu: Gpu) -> None:
    """None of its processes has a device node open. The control: one that has a job does."""
    await _until_waiting(waiting, 1)
    asleep = await asyncio.to_thread(_runners, gpu.minor)
    job = asyncio.create_task(_examples()[-1].grade(waiting))
    at_work: dict[str, set[str]] = {}
    while not job.done():
        at_work |= {pid: nodes for pid, nodes in (await asyncio.to_thread(_runners, gpu.minor)).items() if nodes}
    assert (await job).verdict == "ACCEPTED"
    section.notes.append(f"{len(asleep)} processes of boxes that wait, with {sum(map(len, asleep.values()))} nodes of GPUs open")
    assert asleep and not any(asleep.values())
    assert at_work


async def _until_waiting(grading: Grading, count: int) -> None:
    async with asyncio.timeout(READY_S):
        while grading.fleet.warm().waiting_count < count:
            await asyncio.sleep(POLL_S)


def _examples() -> list[Example]:
    examples = {example.name: example for example in all_examples()}
    return [examples[name] for name in NAMES]


def _runners(minor: int) -> dict[str, set[str]]:
    """The nodes of GPUs that each runner here has open, by its pid, but not another server's, of another GPU. minor: of our GPU's node."""
    nodes_of: dict[str, set[str]] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if RUNNER in (process / "cmdline").read_bytes():
                nodes = set()
                for descriptor in (process / "fd").iterdir():
                    with suppress(OSError):  # it was closed since
                        nodes |= {node for node in (os.readlink(descriptor),) if node.startswith("/dev/nvidia")}
                if all(number == str(minor) for number in re.findall(r"/dev/nvidia(\d+)", " ".join(nodes))):
                    nodes_of[process.name] = nodes
    return nodes_of
