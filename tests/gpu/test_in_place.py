"""A rotary embedding in place on a GPU: right in every run of a train, refused where it is not, and as fast as one that is not in place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.model import Problem
from tests.gpu.conftest import measure_s, show_flow_only
from tests.gpu.figures import shown_samples, shown_speedup
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading
from tests.honest.kernel_files import HERE, Kernel, read

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

RIGHT = ("rotary_in_place", "torch_rotary_in_place")
LONG, SHORT = "8192x32x64", "1024x16x64"  # of 268 MB, and of 17 MB, which has trains
MEASURE_S = 2.0
LEAST_RATIO = 1.5  # of PyTorch eager, which runs seven kernels and makes a new tensor
COLUMNS = ("kernel", "workload", "verdict", "do_bench, us", "certified, us", "against eager", "against compile", "flags")
NOTHING = 'extern "C" void solve(float* query, const float* cosine, const float* sine) {}\n'


def problem_on(device: str, kernel: Kernel) -> Problem:
    """The kernel's problem at the sizes for this device alone."""
    problem = kernel.read_problem()
    large = device != "emulated"
    workloads = tuple(size for size in problem.spec.workloads if bool(size.device_kind) is large and not size.hidden)
    spec = replace(problem.spec, workloads=workloads, digest=f"{problem.spec.digest[:56]}{'0' * 8}")
    return replace(problem, spec=spec)


async def grade(request: pytest.FixtureRequest, grading: Grading, kernel: Kernel, source: str = "") -> Graded:
    """Grade it, or a source for its problem, in benchmark mode."""
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))
    text = source or kernel.path.read_text("utf-8")
    return await grading.grade(problem_on(grading.device, kernel), text, language=kernel.language, conditions=conditions)


@pytest.mark.parametrize("name", RIGHT)
async def test_a_rotary_embedding_in_place_is_timed(request: pytest.FixtureRequest, grading: Grading, section: Section, name: str) -> None:
    """Raw and as an extension that returns nothing. A second launch does as much as the first, so the claim of do_bench is confirmed."""
    graded = await grade(request, grading, read(HERE / "kernels" / f"{name}.cu"))
    for measured in graded.report.measurements:
        speedups = {speedup.baseline: shown_speedup(speedup) for speedup in measured.speedups}
        times = (shown_samples(measured.reported), shown_samples(measured.certified))
        ratios = (speedups.get("eager", ""), speedups.get("compile", ""))
        section.table(*COLUMNS).add(name, measured.workload_id, graded.verdict, *times, *ratios, ", ".join(graded.report.flags))
    assert graded.verdict == "ACCEPTED", graded.explanation
    show_flow_only(grading.device)
    runs = {trial.workload_id: trial.run_count for trial in graded.report.trials if trial.phase == "certify"}
    assert runs[SHORT] > 2, "each turn is a train there and one back, of several runs each"
    for measured in graded.report.measurements:
        assert measured.reported_confirmed, measured
        assert next(speedup.ratio_low for speedup in measured.speedups if speedup.baseline == "eager") > LEAST_RATIO, measured


async def test_a_wrong_rotation_in_place_is_refused(request: pytest.FixtureRequest, grading: Grading) -> None:
    """The controls: one that reads what it has written, and one that does nothing, which is told so."""
    graded = await grade(request, grading, read(HERE / "controls" / "rotary_of_what_was_changed.cu"))
    assert graded.is_one_of(("WRONG_ANSWER MISMATCH",)), graded.explanation
    graded = await grade(request, grading, read(HERE / "kernels" / f"{RIGHT[0]}.cu"), NOTHING)
    assert graded.is_one_of(("WRONG_ANSWER MISMATCH",)) and "is as it was, bit by bit" in graded.report.summary, graded.explanation
