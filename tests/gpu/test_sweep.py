"""The sweeps of the lecture's square and of softmax (seed 003) over their sizes: kernels, PyTorch eager and torch.compile."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from grader.api import messages
from grader.cli.sweep import draw
from grader.intake.languages import detect
from grader.model import NewSubmission, Problem, SourceFile, Submission, SubmissionState
from grader.problems.sweep import SweepRequest, sweep_problem
from grader.rules.disclosure import Redactor
from grader.v1 import submission_pb2
from grader.views.sweeps import RIGHT, SweepMetric, SweepTable, collate, to_csv
from sandbox.protocol import wire
from tests.gpu.conftest import count_of, measure_s, show_flow_only
from tests.gpu.report import Section
from tests.harness.grading import ROOT, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(1800)]

KERNELS = {
    "elementwise_square": ("triton_row.py", "triton_fixed_block.py", "float4_with_tail.cu"),
    "row_softmax": ("triton_row.py", "warp_per_row.cu", "online_thread_per_row.cu"),
}
COLUMNS_OF_ALL, STEP, MEASURE_S = 12672 - 256, 512, 2.0  # of the problems' sweeps on a GPU; the seconds of each size
FIXED_BLOCK = 1024  # columns that triton_fixed_block.py computes
CEILING_SLACK = 1.1
COLUMNS = ("problem", "provider", "columns", "result", "GB/s", "95 % interval", "speedup over eager")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tables(request: pytest.FixtureRequest, grading: Grading, gpu_report: object) -> Mapping[str, SweepTable]:
    """Each problem's sweep, kernel after kernel; plots and CSV files lie next to the report."""
    del gpu_report
    place = request.config.getoption("gpu_report")
    found = {}
    for name, files in KERNELS.items():
        problem = sweep_problem(load_problem(name), asked(request.config, grading.device), (grading.device.partition(":")[0],))
        ended = [(file.partition(".")[0], await swept(grading, problem, file)) for file in files]
        found[name] = table = collate(ended)
        if place:
            Path(place).mkdir(parents=True, exist_ok=True)
            (Path(place) / f"{name}.svg").write_text(draw(table, SweepMetric.BANDWIDTH))
            (Path(place) / f"{name}.csv").write_text(to_csv(table))
    return found


def asked(config: pytest.Config, device: str) -> SweepRequest:
    """On a GPU the problem's own sweep, with as many sizes as --gpu-count says and --gpu-measure-s seconds for each; else a short one."""
    if device == "emulated":
        return SweepRequest(stop=2048)
    every = COLUMNS_OF_ALL // STEP // (count_of(config, COLUMNS_OF_ALL // STEP + 1) - 1)
    return SweepRequest(step=STEP * max(1, every), measure_s=measure_s(config, MEASURE_S))


async def swept(grading: Grading, problem: Problem, file: str) -> submission_pb2.Submission:
    """One kernel's sweep, as the API shows it."""
    source = SourceFile(path=file, content=(ROOT / "kernels_examples" / problem.problem_id / file).read_text("utf-8"))
    language = detect((source,))
    assert language is not None
    graded = await grading.grade(problem, (source,), language=language, mode=wire.Mode.SWEEP)
    made = Submission(
        submission_id=Path(file).stem,
        new=NewSubmission(problem_id=problem.problem_id, language=language, sources=(), mode=wire.Mode.SWEEP),
        problem_digest=problem.digest,
        state=SubmissionState.SUCCEEDED,
        create_time=datetime.now(UTC),
        report=graded.report,
    )
    return messages.submission_to_proto(made, Redactor.for_problem(problem), full=True)


@pytest.mark.parametrize("name", KERNELS)
async def test_right_kernels_are_right_at_every_size(tables: Mapping[str, SweepTable], section: Section, name: str) -> None:
    """Each is verified at each size before it is timed there."""
    table = tables[name]
    for point in table.points:
        value, low, high = point.figure(SweepMetric.BANDWIDTH)
        speedup = f"{point.speedups['eager'].ratio:.3g}" if "eager" in point.speedups else ""
        cells = (f"{value:.4g}", f"{low:.4g} to {high:.4g}") if point.certified_ns else ("", "")
        section.table(*COLUMNS).add(name, point.provider, str(point.size), point.outcome, *cells, speedup)
    kernels = {file.partition(".")[0] for file in KERNELS[name]} - {"triton_fixed_block"}
    wrong = [
        (one.provider, one.size, one.outcome)
        for one in table.points
        if one.provider in kernels and one.outcome not in (RIGHT, "not resolved")
    ]
    assert wrong == []


async def test_the_fixed_block_of_the_lecture_is_wrong_beyond_its_width(tables: Mapping[str, SweepTable], section: Section) -> None:
    """It has no point there: a plot that is not verified shows it as the fastest."""
    points = tables["elementwise_square"].of("triton_fixed_block")
    section.notes.append(f"triton_fixed_block: {', '.join(f'{size}: {point.outcome}' for size, point in points.items())}")
    for size, point in points.items():
        if size > FIXED_BLOCK:
            assert (point.outcome, point.certified_ns) == ("unwritten", None)
        else:
            assert point.outcome in (RIGHT, "not resolved")


@pytest.mark.parametrize("name", KERNELS)
async def test_no_provider_is_faster_than_the_memory(grading: Grading, tables: Mapping[str, SweepTable], name: str) -> None:
    """By the bandwidth that was measured on the device; torch.compile is one of the providers."""
    show_flow_only(grading.device)
    ceiling = (await grading.environment()).ceilings["bytes_per_s"] / 1e9
    table = tables[name]
    assert {"PyTorch eager", "torch.compile"} <= set(table.providers)
    too_fast = [
        (one.provider, one.size, one.figure(SweepMetric.BANDWIDTH)[0])
        for one in table.points
        if one.certified_ns and one.figure(SweepMetric.BANDWIDTH)[0] > CEILING_SLACK * ceiling
    ]
    assert too_fast == []
