"""The six kernels of the triangular matmul story on a GPU at N = 4096: why a kernel is not judged in its own process."""

from __future__ import annotations

import pytest
import pytest_asyncio

from grader.cli.demo import PROBLEM, STORY
from grader.model import Verdict
from tests.gpu.conftest import Tell
from tests.harness.grading import ROOT, Graded, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

WORKLOAD = "n4096"
MEASURE_S = 5.0
VERDICTS = ("ACCEPTED", "ACCEPTED", "WRONG_ANSWER", "WRONG_ANSWER", "WRONG_ANSWER UNWRITTEN_OUTPUT", "COMPILE_ERROR")
HEADING = ("kernel", "verdict", "reason", "unwritten", "do_bench ms", "certified ms", "eager ms", "compile ms", "isolation")


def source_of(name: str) -> str:
    """One kernel of the story."""
    return (ROOT / "kernels_examples" / PROBLEM / f"{name}.cu").read_text("utf-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built(grading: Grading, tell: Tell) -> None:
    """Build everything first."""
    tell(PROBLEM, *HEADING)
    problem = load_problem(PROBLEM)
    assert [one.device_kind for one in problem.spec.workloads if one.workload_id == WORKLOAD] == ["cuda"]
    await grading.prebuild((problem, source_of(name), "torch_extension") for name in STORY)


@pytest.mark.parametrize(("name", "expected"), list(zip(STORY, VERDICTS, strict=True)))
async def test_the_story_has_its_verdicts_on_a_gpu(grading: Grading, built: None, tell: Tell, name: str, expected: str) -> None:
    """Two right kernels are accepted and timed, three wrong ones are not accepted, and one does not compile."""
    with grading.profile(measure_s=MEASURE_S):
        graded = await grading.grade(load_problem(PROBLEM), source_of(name), language="torch_extension")
    tell(PROBLEM, name, graded.report.verdict.value, graded.report.reason, *_figures(graded), grading.isolation_name)
    assert graded.is_one_of((expected,)), graded.explanation
    if graded.report.verdict is Verdict.ACCEPTED:
        assert graded.reported_ns(WORKLOAD) is not None
        assert (graded.certified_ns(WORKLOAD) or 0) > 0


def _figures(graded: Graded) -> list[str]:
    unwritten = max((one.unwritten_count / max(one.element_count, 1) for one in graded.report.trials), default=0.0)
    times = [
        graded.reported_ns(WORKLOAD),
        graded.certified_ns(WORKLOAD),
        graded.baseline_ns(WORKLOAD, "eager"),
        graded.baseline_ns(WORKLOAD, "compile"),
    ]
    return [f"{100 * unwritten:.4g} %", *("" if time is None else f"{time / 1e6:.3f}" for time in times)]
