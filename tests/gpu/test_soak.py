"""Many good and bad submissions in a row on one lane: every verdict is right, nothing is left behind, and how many it takes a minute."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from sandbox.protocol import wire
from tests.gpu.conftest import GradedAhead, cases_of, count_of, graded_ahead, left_boxes, nvml_memory
from tests.gpu.kernels import files
from tests.gpu.kernels.files import Example
from tests.gpu.report import Section
from tests.gpu.test_examples import all_examples
from tests.harness.grading import BUILDER_COUNT, Conditions, Graded, Grading

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

SUBMISSION_COUNT = 200
RATE_COUNT = 43  # of the mix of which an H100 took 31 a minute at a62ffb8
# These wait for a limit, fill a memory, or leave 20 s of work behind; test_faults.py has them.
SLOW = {"zero_stride", "endless", "endless_everywhere", "left_running", "pinned_flood", "hoards_memory", "torch_takes_all_memory"}
BENCHMARK_EVERY = 5  # of those that may be timed
TIMED = ("vector_add", "row_softmax", "tril_matmul")  # problems whose baselines are compiled beforehand
MEASURE_S = 0.5
LANE_STEPS = (wire.Step.LOAD, wire.Step.VERIFY, wire.Step.CLOSE)
MEMORY_SLACK_MIB = 64.0  # the judge's own allocator may keep some
SEED = 1

Look = Callable[[str], Awaitable[tuple[float, int]]]


def may_be_timed(example: Example) -> bool:
    """Return whether its problem's baselines are compiled."""
    return example.problem.problem_id in TIMED


def mixed(*, emulated: bool) -> list[Example]:
    """Every CUDA kernel of the examples, and where there is a GPU the faults and the honest ones of the tests too."""
    examples = [item for item in all_examples() if item.name.endswith(".cu") and item.name.split("/")[1].removesuffix(".cu") not in SLOW]
    kernels = () if emulated else (*files.all_in("faults"), *files.all_in("honest"))
    return [*examples, *(kernel.example() for kernel in kernels if kernel.path.stem not in SLOW)]


def ordered(items: list[Example], count: int) -> list[Example]:
    """The whole mix again and again, each time in another order."""
    shuffled = random.Random(SEED)
    order: list[Example] = []
    while len(order) < count:
        order += shuffled.sample(items, len(items))
    return order[:count]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many submissions as --gpu-count says."""
    if "number" in metafunc.fixturenames:
        items = mixed(emulated=metafunc.config.getoption("gpu_device") == "emulated")
        order = ordered(items, count_of(metafunc.config, SUBMISSION_COUNT))
        timed = [number for number, item in enumerate(order) if may_be_timed(item)][::BENCHMARK_EVERY]
        cases = [(number, item, wire.Mode.BENCHMARK if number in timed else wire.Mode.TEST) for number, item in enumerate(order)]
        metafunc.parametrize(("number", "item", "mode"), cases, ids=[f"{number}-{item.name}" for number, item, _ in cases])


async def grade(grading: Grading, item: Example, mode: wire.Mode) -> Graded:
    """Grade one submission."""
    return await item.grade(grading, mode=mode, conditions=Conditions(measure_s=MEASURE_S))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def look(grading: Grading, maybe_gpu: Gpu | None, section: Section) -> AsyncIterator[Look]:
    """Says how much GPU memory, in MiB, and how many boxes are in use."""
    with nullcontext(lambda: 0) if maybe_gpu is None else nvml_memory(maybe_gpu) as memory:

        async def looked(when: str) -> tuple[float, int]:
            await grading.environment()  # waits for the check that follows the last job
            await asyncio.sleep(1)  # for the processes of its box to be reaped
            usage = (memory() / 2**20, await left_boxes(grading))
            section.table("when", "GPU memory in use, MiB", "boxes").add(when, f"{usage[0]:.0f}", usage[1])
            return usage

        yield looked


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def before(grading: Grading, look: Look) -> tuple[float, int]:
    """Return what is in use when the judge has graded one kernel of each problem that is timed."""
    right = [item for item in mixed(emulated=True) if may_be_timed(item) and item.expected == ("ACCEPTED",)]
    for item in {item.problem.problem_id: item for item in reversed(right)}.values():
        await grade(grading, item, wire.Mode.BENCHMARK)
    return await look("before the first, the judge warm")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ahead(request: pytest.FixtureRequest, grading: Grading, before: tuple[float, int]) -> AsyncIterator[GradedAhead]:
    """All gradings."""
    async with graded_ahead(
        cases_of(request, test_the_verdict_is_right.__name__), lambda number, item, mode: grade(grading, item, mode)
    ) as tasks:
        yield tasks


async def test_the_verdict_is_right(
    ahead: GradedAhead, request: pytest.FixtureRequest, section: Section, number: int, item: Example, mode: wire.Mode
) -> None:
    """Each kernel gets the verdict that its file names, whatever was graded before it."""
    graded = await ahead[request.node.nodeid]
    counts = section.raw.setdefault("verdicts", {})
    counts[graded.verdict] = counts.get(graded.verdict, 0) + 1
    section.table("verdict", "count").rows[:] = sorted(counts.items())
    assert graded.is_one_of(item.expected), f"{mode.value}: {graded.explanation}"


async def test_the_rate_of_a_lane(grading: Grading, device: str, request: pytest.FixtureRequest, section: Section) -> None:
    """A mix in mode test, each kernel built first, as they come to a server whose judge is warm."""
    items = ordered(mixed(emulated=device == "emulated"), count_of(request.config, RATE_COUNT))
    await grade(grading, items[0], wire.Mode.TEST)
    places, begun = asyncio.Semaphore(2 * BUILDER_COUNT), time.monotonic()

    async def cold(item: Example) -> Graded:
        async with places:
            return await item.grade(grading, mode=wire.Mode.TEST, conditions=Conditions(cached=False))

    results = await asyncio.gather(*map(cold, items))
    passed_s = time.monotonic() - begun
    table = section.table("submissions", "seconds", "a minute", "build, s of all", "on the lane, s of all")
    build_s = sum(step.duration_ns for graded in results for step in graded.report.timeline if step.step is wire.Step.COMPILE) / 1e9
    lane_s = sum(step.duration_ns for graded in results for step in graded.report.timeline if step.step in LANE_STEPS) / 1e9
    table.add(len(items), f"{passed_s:.1f}", f"{60 * len(items) / passed_s:.0f}", f"{build_s:.1f}", f"{lane_s:.1f}")
    slow = sorted(zip(results, items, strict=True), key=lambda pair: -pair[0].seconds)
    section.raw["slowest"] = [(item.name, round(graded.seconds, 2), steps_of(graded)) for graded, item in slow[:12]]
    wrong = [f"{item.name}: {graded.explanation}" for graded, item in slow if not graded.is_one_of(item.expected)]
    assert not wrong, "\n".join(wrong)


def steps_of(graded: Graded) -> dict[str, float]:
    """Seconds of each step of a grading, by its name."""
    return {step.step.value: round(step.duration_ns / 1e9, 2) for step in graded.report.timeline}


async def test_nothing_is_left(look: Look, before: tuple[float, int]) -> None:
    """After the last one, GPU memory is what it was before the first, within 64 MiB, and there is no further box."""
    memory_mib, box_count = await look("after the last")
    assert memory_mib - before[0] <= MEMORY_SLACK_MIB
    assert box_count <= before[1]
