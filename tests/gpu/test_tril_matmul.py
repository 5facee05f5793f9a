"""The six kernels of the triangular matmul story on a GPU at N = 4096: why a kernel is not judged in its own process."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from grader.model import Verdict
from grader_extensions.authoring.demo import PROBLEM, STORY
from sandbox.protocol import wire
from tests.gpu.conftest import measure_s, show_flow_only
from tests.gpu.figures import shown_samples, shown_speedup
from tests.gpu.report import Section
from tests.harness.grading import ROOT, Conditions, Graded, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

WORKLOAD = "n4096"
MEASURE_S = 5.0
VERDICTS = ("ACCEPTED", "ACCEPTED", "WRONG_ANSWER", "WRONG_ANSWER", "WRONG_ANSWER UNWRITTEN_OUTPUT", "COMPILE_ERROR")
BASELINES = ("eager", "compile")
VERDICT_COLUMNS = ("kernel", "verdict", "expected", "unwritten", "seconds", "summary")
TIME_COLUMNS = (
    "kernel",
    "workload",
    "do_bench, us",
    "certified, us",
    *(f"{baseline} do_bench, us" for baseline in BASELINES),
    *(f"against {baseline}" for baseline in BASELINES),
    "flags",
)


def source_of(name: str) -> str:
    """Return a kernel of the story."""
    return (ROOT / "kernels_examples" / PROBLEM / f"{name}.cu").read_text("utf-8")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built(grading: Grading) -> None:
    """Build everything first."""
    problem = load_problem(PROBLEM)
    assert [workload.device_kind for workload in problem.spec.workloads if workload.workload_id == WORKLOAD] == ["cuda"]
    await grading.prebuild((problem, source_of(name), "torch_extension") for name in STORY)


@pytest.mark.parametrize(("name", "expected"), list(zip(STORY, VERDICTS, strict=True)))
async def test_the_story_has_its_verdicts_on_a_gpu(
    request: pytest.FixtureRequest, grading: Grading, built: None, section: Section, name: str, expected: str
) -> None:
    """Two right kernels are accepted and timed, three wrong ones are not accepted, and one does not compile."""
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))
    graded = await grading.grade(load_problem(PROBLEM), source_of(name), language="torch_extension", conditions=conditions)
    section.table(*VERDICT_COLUMNS).add(name, graded.verdict, expected, _unwritten(graded), f"{graded.seconds:.1f}", graded.report.summary)
    for measured in graded.report.measurements:
        section.table(*TIME_COLUMNS).add(*_times(name, measured, graded))
    section.raw[name] = [json.loads(wire.encode(fact)) for fact in graded.facts]
    assert graded.is_one_of((expected,)), graded.explanation
    if graded.report.verdict is Verdict.ACCEPTED:
        show_flow_only(grading.device)
        assert graded.reported_ns(WORKLOAD) is not None
        assert (graded.certified_ns(WORKLOAD) or 0) > 0


def _unwritten(graded: Graded) -> str:
    share = max((trial.unwritten_count / max(trial.element_count, 1) for trial in graded.report.trials), default=0.0)
    return f"{100 * share:.4g} %" if share else ""


def _times(name: str, measured: wire.Measurement, graded: Graded) -> tuple[str, ...]:
    """Medians, with what lies between 20 % and 80 %, and speedups with their intervals."""
    speedups = {speedup.baseline: shown_speedup(speedup) for speedup in measured.speedups}
    return (
        name,
        measured.workload_id,
        shown_samples(measured.reported),
        shown_samples(measured.certified),
        *(shown_samples(measured.reported_baselines.get(baseline)) for baseline in BASELINES),
        *(speedups.get(baseline, "") for baseline in BASELINES),
        ", ".join(graded.report.flags),
    )
