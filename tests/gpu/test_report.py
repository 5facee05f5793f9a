"""The report on a GPU: each ceiling is of the unit that it names, and a kernel's rates stand next to the right one."""

from __future__ import annotations

import pytest

from grader import extensions
from grader.api import messages
from grader.model import Problem
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.views import figures
from sandbox.protocol import wire
from tests.gpu.conftest import measure_s, show_flow_only
from tests.gpu.report import Report, Section
from tests.harness.grading import ROOT, Conditions, Graded, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 2.0
KERNELS = (("vector_add", "grid_stride.cu"), ("matmul_fp32", "register_tiles.cu"))
NOISE = 1.05
COLUMNS = ("kernel", "workload", "bytes/s", "FLOP/s", "FLOP/byte", "shares", "nearest ceiling")


async def test_each_ceiling_is_of_the_unit_that_it_names(grading: Grading, section: Section, device: str) -> None:
    """FP32 not above TF32, TF32 below FP16; FP8, where there is any, above FP16."""
    ceilings = (await grading.environment()).ceilings
    show_flow_only(device)
    rates = {name: ceilings.get(figures.FLOPS_PER_S + name) for name in figures.UNITS}
    for name, rate in rates.items():
        if rate:
            section.table("unit", "TFLOP/s").add(figures.UNITS[name], f"{rate / 1e12:.1f}")
    exact, tf32, half, eighth = (rates[name] for name in ("float32_ieee", "float32", "float16", "float8_e4m3fn"))
    assert exact and tf32 and half and exact < tf32 * NOISE and tf32 < half
    assert eighth is None or eighth > half


@pytest.mark.parametrize(("problem_id", "file"), KERNELS)
async def test_a_kernels_rates_are_next_to_the_ceiling_of_its_unit(
    grading: Grading, request: pytest.FixtureRequest, section: Section, gpu_report: Report, device: str, problem_id: str, file: str
) -> None:
    """No share is above what was measured; the HTML has rates, and is written next to the page of this run."""
    problem = load_problem(problem_id)
    source = (ROOT / "kernels_examples" / problem_id / file).read_text("utf-8")
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))
    graded = await grading.grade(problem, source, language="cuda", mode=wire.Mode.BENCHMARK, conditions=conditions)
    submission = _message(problem, graded, file, source)
    report_file = extensions.report_files().get("html")
    if report_file is None:
        pytest.skip("no installed package writes HTML reports")
    text = report_file(submission)
    if gpu_report.directory is not None:
        gpu_report.directory.mkdir(parents=True, exist_ok=True)
        (gpu_report.directory / f"report-{problem_id}.html").write_text(text, "utf-8")
    assert submission.report.verdict == report_pb2.VERDICT_ACCEPTED, graded.explanation
    show_flow_only(device)
    ceilings = submission.report.environment.ceilings
    by_id = {entry.workload_id: figures.throughput(entry, ceilings) for entry in submission.report.measurements if not entry.hidden}
    for workload_id, rates in by_id.items():
        assert rates is not None and rates.bandwidth is not None and rates.shares
        shares = ", ".join(f"{100 * rate.share:.1f} % of {rate.unit}" for rate in (rates.bandwidth, *rates.shares))
        section.table(*COLUMNS).add(
            f"{problem_id}/{file}", workload_id, f"{rates.bytes_per_s:.3g}", f"{rates.flops_per_s:.3g}", f"{rates.intensity:.3g}",
            shares, rates.limit,
        )  # fmt: skip
        assert all(rate.share < 1.1 for rate in rates.shares)  # the kernel does not use the tensor cores
    assert "FP32 units" in text


def _message(problem: Problem, graded: Graded, file: str, source: str) -> submission_pb2.Submission:
    """As the API shows a submission in the full view."""
    return submission_pb2.Submission(
        name="submissions/gpu", problem=f"problems/{problem.problem_id}", language="cuda", state=submission_pb2.SUBMISSION_STATE_SUCCEEDED,
        report=messages.report_to_proto(graded.report, Redactor.for_problem(problem), full=True),
        sources=[submission_pb2.SourceFile(path=file, content=source)],
    )  # fmt: skip
