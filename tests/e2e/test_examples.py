"""Every example kernel gets the verdict that its first line says, on the strongest isolation that is here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from grader.formats import native
from grader.model import Report, Verdict
from sandbox.protocol import wire
from tests import local_grading
from tests.local_grading import local_fleet
from tests.run_files import artifact_cache, cache_directory

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
# The six of the story are graded by `make demo` and by the demo's own test.
STORY = {"correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float"}
KERNELS = sorted(path for path in EXAMPLES.glob("*/*.cu") if path.parent.name != "tril_matmul" or path.stem not in STORY)
ADD = """#include <cuda_runtime.h>
__global__ void add(const float* a, const float* b, float* c, long n) {{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}}
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {{
    {before}
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}}
"""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fleet() -> AsyncIterator[LocalFleet]:
    """A judge for all tests of this module."""
    async with local_fleet("auto", hidden=(EXAMPLES, cache_directory()), cache=artifact_cache()) as started:
        yield started


async def graded(fleet: LocalFleet, problem: str, content: str, path: str = "kernel.cu") -> tuple[Report, list[wire.Fact]]:
    """The report and the facts of one kernel, verified and not timed."""
    return await local_grading.graded(fleet, native.load(EXAMPLES / problem), {path: content})


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_a_kernel_gets_the_verdict_of_its_first_line(fleet: LocalFleet, path: Path) -> None:
    """Accepted ones are accepted, and each lesson fails for its own reason."""
    text = path.read_text("utf-8")
    verdict, *reason = text.splitlines()[0].removeprefix("// expect:").split()
    report, _ = await graded(fleet, path.parent.name, text, path.name)
    assert report.verdict.value == verdict, report.summary
    assert not reason or report.reason == reason[0], report.summary


async def test_a_failure_at_the_third_workload_shows_the_first_two_as_passed(fleet: LocalFleet) -> None:
    """Workloads that were right before are in the report, and what comes after is not run."""
    workloads = [workload.workload_id for workload in native.load(EXAMPLES / "vector_add").spec.workloads]
    report, _ = await graded(fleet, "vector_add", ADD.format(before="static int calls = 0; if (++calls > 6) return;"))
    assert (report.verdict, report.reason) == (Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT")
    passed = {trial.workload_id for trial in report.trials if trial.outcome is wire.TrialOutcome.PASSED}
    assert passed == set(workloads[:2])
    assert [trial.workload_id for trial in report.trials][-1] == workloads[2] and len(report.trials) == 7
