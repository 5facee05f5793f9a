"""The attacks' honest twins: what looks like a trick and is none is accepted, by the same clock."""

from __future__ import annotations

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from tests.gpu.kernels.files import Kernel, all_in
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Grading
from tests.harness.kernel_words import words_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

HONEST = all_in("honest")
CONDITIONS = Conditions(measure_s=1.0)
COLUMNS = ("kernel", "twin of", "problem", "verdict", "reason", "reported us", "certified us")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built(gpu: Gpu, grading: Grading) -> None:
    """Build everything first."""
    await grading.prebuild(kernel.example().build for kernel in HONEST)


@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=kernel.name) for kernel in HONEST])
async def test_an_honest_kernel_is_accepted(grading: Grading, built: None, section: Section, kernel: Kernel) -> None:
    """Graphs, streams, threads, atomics, tables, workspaces, large shared memory, persistent and cooperative grids are no offence."""
    example = kernel.example()
    graded = await example.grade(grading, conditions=CONDITIONS)
    workload = example.problem.spec.workloads[0].workload_id
    times = ("" if time is None else f"{time / 1e3:.1f}" for time in (graded.reported_ns(workload), graded.certified_ns(workload)))
    twin = words_of(kernel.path)["twin of"]
    section.table(*COLUMNS).add(kernel.path.stem, twin, kernel.problem, graded.report.verdict.value, graded.report.reason, *times)
    assert graded.is_one_of(kernel.expect), graded.explanation
