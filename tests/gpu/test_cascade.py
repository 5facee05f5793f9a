"""Right and wrong kernels, on the GPU alone and with the emulated device before it: the same verdicts, and how much GPU time is saved."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.errors import GraderError
from grader.model import Verdict
from sandbox.protocol import wire
from sandbox.protocol.wire import ScreeningOutcome, Step
from tests.gpu.conftest import HIDDEN, WARM_MORE, count_of, one_at_a_time, show_flow_only
from tests.gpu.kernels import files
from tests.gpu.kernels.files import Example
from tests.gpu.report import Report, Section
from tests.gpu.test_examples import all_examples
from tests.harness.grading import BUILDER_COUNT, Graded, Grading, grader
from tests.honest.kernel_files import all_in

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1200)]

COUNT = 200
EMULATED_COUNT = 4
WRONG_SHARE = 0.6  # of what a training loop submits
LANE_STEPS = (Step.LOAD, Step.VERIFY, Step.CLOSE)
SLOW = {"endless", "endless_everywhere", "left_running", "pinned_flood", "hoards_memory", "torch_takes_all_memory"}  # wait for a limit


def corpus() -> list[Example]:
    """The examples, the kernels of these tests, and the honest ones with their wrong twins, in turns of those."""
    honest = [
        Example(
            name=kernel.path.name,
            problem=(problem := kernel.read_problem()),
            source=(submission := kernel.submission(problem.problem_id)).sources[0].content,
            language=submission.language,
            expected=(verdict,),
        )
        for directory, verdict in (("kernels", "ACCEPTED"), ("controls", "WRONG_ANSWER"))
        for kernel in all_in(directory)
    ]
    own_kernels = [kernel.example() for kind in ("faults", "honest") for kernel in files.all_in(kind) if kernel.path.stem not in SLOW]
    return [item for item in (*all_examples(), *honest, *own_kernels) if item.name.rpartition("/")[2].partition(".")[0] not in SLOW]


def candidates(count: int) -> list[Example]:
    """As many kernels as a training loop submits, each with a line of its own, so that none was built before."""
    items, wrong_count = [item for item in corpus() if "/" in item.name], round(WRONG_SHARE * count)
    right = itertools.cycle([item for item in items if item.expected == ("ACCEPTED",)])
    wrong = itertools.cycle([item for item in items if item.expected[0].startswith("WRONG_ANSWER")])
    mixed = [*itertools.islice(wrong, wrong_count), *itertools.islice(right, count - wrong_count)]
    random.Random(1).shuffle(mixed)
    return mixed


def unique(item: Example, text: str) -> Example:
    """The kernel with a line of comment behind it."""
    return replace(item, source=f"{item.source}\n{'#' if item.language == 'python' else '//'} {text}\n")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(request: pytest.FixtureRequest, maybe_gpu: Gpu | None, device: str, gpu_report: Report) -> AsyncIterator[Grading]:
    """A fleet of the GPU and several emulated devices."""
    isolation = request.config.getoption("gpu_isolation")
    if maybe_gpu is None:
        async with grader(isolation=isolation, lanes=(), hidden=HIDDEN, device=device) as fleet:
            yield fleet
        return
    with one_at_a_time(maybe_gpu.uuid):
        async with grader(isolation=isolation, lanes=(0,), hidden=HIDDEN, emulated_count=EMULATED_COUNT, warm_count=1 + WARM_MORE) as fleet:
            gpu_report.describe(await fleet.environment())
            yield fleet


@pytest.mark.parametrize("mix", ["corpus", "training"])
async def test_no_right_kernel_is_stopped_and_wrong_ones_take_no_gpu(
    both: Grading, device: str, request: pytest.FixtureRequest, section: Section, mix: str
) -> None:
    """Each kernel has its verdict both ways, and is built both times."""
    count = count_of(request.config, COUNT)
    items = corpus()[:count] if mix == "corpus" else candidates(count)
    places = asyncio.Semaphore(BUILDER_COUNT + EMULATED_COUNT)

    async def grade(number: int, item: Example, *, cascade: bool) -> Graded | GraderError:
        item = unique(item, f"{mix} {number} {cascade}")
        async with places:
            try:
                return await both.grade(item.problem, item.source, language=item.language, mode=wire.Mode.TEST, cascade=cascade)
            except GraderError as error:
                return error

    table = section.table("kernels", "way", "count", "accepted", "a minute", "GPU, s", "stopped before it")
    results: dict[bool, list[Graded | GraderError]] = {}
    for cascade in (False, True):
        begin_s = time.monotonic()
        results[cascade] = await asyncio.gather(*(grade(number, item, cascade=cascade) for number, item in enumerate(items)))
        rate = 60 * len(items) / (time.monotonic() - begin_s)
        graded_items = [graded for graded in results[cascade] if isinstance(graded, Graded)]
        accepted = sum(graded.report.verdict is Verdict.ACCEPTED for graded in graded_items)
        stopped = sum(outcome_of(graded) == "failed" for graded in graded_items)
        way = "emulated device first" if cascade else "GPU alone"
        table.add(mix, way, len(graded_items), accepted, f"{rate:.0f}", f"{sum(map(gpu_s, graded_items)):.1f}", stopped)
    outcomes = Counter(outcome_of(graded) for graded in results[True] if isinstance(graded, Graded))
    section.notes.append(f"{mix}: {dict(sorted(outcomes.items()))}")
    differences = []
    for item, alone, screened in zip(items, results[False], results[True], strict=True):
        if isinstance(alone, GraderError) or isinstance(screened, GraderError):
            differences.append(f"{item.name}: {alone!r}; {screened!r}"[:600])
        elif alone.report.verdict is not screened.report.verdict:
            differences.append(f"{item.name}: {alone.verdict}; {screened.verdict}: {screened.report.summary}"[:600])
    section.notes.extend(differences)
    show_flow_only(device)
    assert not differences, "\n".join(differences)


def outcome_of(graded: Graded) -> str:
    """Return the outcome of the stage on the emulated device."""
    return graded.report.screening.outcome.value if graded.report.screening else "none"


def gpu_s(graded: Graded) -> float:
    """Seconds on the GPU's lane."""
    if graded.report.screening is not None and graded.report.screening.outcome is ScreeningOutcome.FAILED:
        return 0.0
    return sum(step.duration_ns for step in graded.report.timeline if step.step in LANE_STEPS) / 1e9
