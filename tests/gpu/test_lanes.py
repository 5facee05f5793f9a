"""Two lanes on two GPUs do twice the jobs in about the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from sandbox.protocol import wire
from tests.gpu.conftest import count_of, show_flow_only
from tests.gpu.report import Report, Section
from tests.gpu.test_examples import Example, all_examples
from tests.harness.grading import Conditions, Grading, grader, usable_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]

MIX = (
    "vector_add/float4_with_tail.cu",
    "row_softmax/warp_per_row.cu",
    "tril_matmul/shared_tiles.cu",
    "row_softmax/torch_online_block.cu",
    "vector_add/off_by_one.cu",
    "row_softmax/block_tree.cu",
)
JOB_COUNT = 12
RATIO_LIMIT = 1.15
CONDITIONS = Conditions(measure_s=1.0)
AHEAD = 2  # jobs a lane that build, or have a box made ready, while it is taken


async def test_two_lanes_do_twice_the_jobs_of_one(
    request: pytest.FixtureRequest, section: Section, gpu_report: Report, device: str
) -> None:
    """2N jobs on two take at most 1.15 times as long as N on one, and every verdict is right."""
    gpus = usable_gpus((0, 1)) if device == "cuda" else ()
    if device == "cuda" and len(gpus) < 2:
        pytest.skip(f"this host has {len(gpus)} usable GPUs; two are needed")
    examples = {example.name: example for example in all_examples()}
    mix, count = [examples[name] for name in MIX], count_of(request.config, JOB_COUNT)
    single = [f"cuda:{gpu.index}" for gpu in gpus] or [device]
    walls_s = []
    isolation = request.config.getoption("gpu_isolation")
    async with grader(isolation=isolation, lanes=tuple(range(len(gpus))), emulated_count=2, device=device) as grading:
        gpu_report.describe(await grading.environment())
        await grading.prebuild((one.problem, one.source, one.language) for one in mix)
        await asyncio.gather(*(_warm(grading, mix, lane) for lane in single))
        for lanes, wanted in ((1, single[0]), (2, device)):
            begun = time.monotonic()
            right = await _right_count(grading, [mix[at % len(mix)] for at in range(count)] * lanes, lanes, wanted)
            walls_s.append(time.monotonic() - begun)
            jobs = count * lanes
            section.table("lanes", "jobs", "wall time, s", "jobs a minute", "verdicts as expected").add(
                lanes, jobs, f"{walls_s[-1]:.1f}", f"{60 * jobs / walls_s[-1]:.1f}", f"{right} of {jobs}"
            )
            assert right == jobs
    section.raw["wall_s"] = walls_s
    show_flow_only(device)
    assert walls_s[1] / walls_s[0] <= RATIO_LIMIT


async def _warm(grading: Grading, mix: Sequence[Example], device: str) -> None:
    """Let the lane's judge compile each problem's baselines."""
    for example in {one.problem.problem_id: one for one in mix if one.expected == "ACCEPTED"}.values():
        await grading.grade(example.problem, example.source, language=example.language, device=device, conditions=CONDITIONS)


async def _right_count(grading: Grading, jobs: Sequence[Example], lanes: int, device: str) -> int:
    """Grade them all; how many had the verdict that they should have."""
    free = asyncio.Semaphore(lanes * (1 + AHEAD))

    async def one(example: Example) -> bool:
        async with free:
            graded = await grading.grade(
                example.problem,
                example.source,
                language=example.language,
                mode=wire.Mode.BENCHMARK,
                device=device,
                conditions=CONDITIONS,
            )
        return graded.is_one_of((example.expected,))

    return sum(await asyncio.gather(*map(one, jobs)))
