"""Ranked mode on the emulated device, with real boxes and a real judge."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from grader.model import Ranking
from sandbox.protocol import wire
from tests.e2e.conftest import emulated_grader
from tests.harness.grading import Graded, Grading, load_problem

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

# Right in the first process that finds no mark in the directory, and wrong in every later one.
KERNEL = """
#include <cerrno>
#include <fcntl.h>
__global__ void add(const float* a, const float* b, float* c, long n, float sign) {{
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + sign * b[i];
}}
static bool seen_before() {{
    const char* place = "{mark}";
    return place[0] && open(place, O_CREAT | O_EXCL | O_WRONLY, 0666) < 0 && errno == EEXIST;
}}
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {{
    static const float sign = seen_before() ? -1.0f : 1.0f;
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n, sign);
}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_boxes() -> AsyncIterator[Grading]:
    """The emulated device, in boxes that see the host's files: a kernel can leave a mark for its next process."""
    async with emulated_grader("process") as grading:
        grading.fleet.profile = replace(grading.fleet.profile, measure_s=0.5)
        yield grading


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def closed_boxes() -> AsyncIterator[Grading]:
    """The same, in boxes that see nothing of each other."""
    async with emulated_grader("bubblewrap") as grading:
        grading.fleet.profile = replace(grading.fleet.profile, measure_s=0.5)
        yield grading


@pytest.fixture
def mark() -> Iterator[Path]:
    """A file that a kernel may make, whatever its uid."""
    directory = Path(tempfile.mkdtemp(prefix="grader-mark-"))
    directory.chmod(0o777)
    yield directory / "seen"
    shutil.rmtree(directory)


async def graded(grading: Grading, mark: Path, names: tuple[str, ...] = ("n4099",), mode: wire.Mode = wire.Mode.RANKED) -> Graded:
    """Graded on these workloads, once each."""
    example = load_problem("vector_add")
    workloads = tuple(workload for workload in example.spec.workloads if workload.workload_id in names)
    problem = replace(example, spec=replace(example.spec, workloads=workloads, trial_count=1), ranking=Ranking(process_count=3))
    return await grading.grade(problem, KERNEL.format(mark=mark), language="cuda", mode=mode, device="emulated")


async def test_an_honest_kernel_has_a_score_of_three_processes(closed_boxes: Grading, mark: Path) -> None:
    """Each is loaded, verified and timed on all workloads, the hidden one too; the box keeps nothing for the next process."""
    result = await graded(closed_boxes, mark, ("n1048576", "n4099"))
    assert result.verdict == "ACCEPTED" and not mark.exists(), result.explanation
    report = result.report
    assert report.process_count == 3 and [type(fact) for fact in result.facts].count(wire.Load) == 3
    assert len([trial for trial in report.trials if trial.phase is wire.TrialPhase.VERIFY]) == 3 * 2
    assert sorted(row.workload_id for row in report.measurements) == ["n1048576", "n4099"]
    for_practice = "PRACTICE_SCORE" in report.flags  # on a machine too busy for the host's clock
    assert (report.score is None) is ("NOT_SCORED" in report.flags)
    if report.score is None or for_practice:
        return
    assert report.score is not None and 0 < report.score.low <= report.score.value <= report.score.high
    (eager,) = [speedup for speedup in report.speedups if speedup.baseline == "eager"]
    assert report.score.value == pytest.approx(eager.ratio)


async def test_a_kernel_that_is_right_in_the_first_process_only_is_wrong(open_boxes: Grading, mark: Path) -> None:
    """Memory from one process to the next does not help it: the second is verified like the first."""
    result = await graded(open_boxes, mark)
    assert result.verdict == "WRONG_ANSWER MISMATCH", result.explanation
    assert mark.exists() and result.report.process_count == 2 and result.report.score is None
    outcomes = [trial.outcome for trial in result.report.trials if trial.phase is wire.TrialPhase.VERIFY]
    assert outcomes == [wire.TrialOutcome.PASSED, wire.TrialOutcome.MISMATCHED]


async def test_one_process_would_not_have_found_out(open_boxes: Grading, mark: Path) -> None:
    """The control: the same kernel in a mode with one process gets through."""
    assert (await graded(open_boxes, mark, mode=wire.Mode.TEST)).verdict == "ACCEPTED" and mark.exists()
