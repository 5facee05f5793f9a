"""Every file of kernels_examples/: the verdict of its first line, and on a GPU its speed beside PyTorch's."""

from __future__ import annotations

import statistics
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from grader.intake.gate import detect
from grader.model import SourceFile
from sandbox.protocol import wire
from tests.gpu.conftest import GradedAhead, cases_of, graded_ahead, measure_s
from tests.gpu.figures import shown_us
from tests.gpu.kernels.files import Example
from tests.gpu.report import Section
from tests.harness.grading import ROOT, Conditions, Graded, Grading, load_problem
from tests.harness.kernel_words import kernel_paths, words_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 2.0
AHEAD = 3
BASELINES = ("eager", "compile")
VERDICT_COLUMNS = ("kernel", "language", "expected", "verdict", "seconds")
TIME_COLUMNS = ("kernel", "workload", "certified, us", "of eager", "of torch.compile", "of bandwidth", "of peak", "flags")


def all_examples() -> list[Example]:
    """In the order of their names."""
    examples = []
    for root in sorted(path.parent for path in (ROOT / "kernels_examples").glob("*/problem.toml")):
        problem = load_problem(root.name)
        for path in kernel_paths(root):
            if path.name == "reference.py":
                continue
            source = path.read_text("utf-8")
            language = detect((SourceFile(path=path.name, content=source),)) or "cuda"
            name, expected = f"{root.name}/{path.name}", (words_of(path)["expect"],)
            examples.append(Example(name=name, problem=problem, source=source, language=language, expected=expected))
    return examples


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ahead(request: pytest.FixtureRequest, grading: Grading) -> AsyncIterator[GradedAhead]:
    """All gradings; on the emulated device without times, which would say nothing."""
    mode = wire.Mode.TEST if grading.device == "emulated" else wire.Mode.BENCHMARK
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))

    async def grade(kernel: Example) -> Graded:
        return await kernel.grade(grading, mode=mode, conditions=conditions)

    async with graded_ahead(cases_of(request, test_an_example_has_the_verdict_of_its_first_line.__name__), grade, AHEAD) as tasks:
        yield tasks


@pytest.mark.parametrize("kernel", all_examples(), ids=lambda kernel: kernel.name)
async def test_an_example_has_the_verdict_of_its_first_line(
    grading: Grading, ahead: GradedAhead, request: pytest.FixtureRequest, section: Section, kernel: Example
) -> None:
    """Verdict and reason."""
    graded = await ahead[request.node.nodeid]
    section.table(*VERDICT_COLUMNS).add(kernel.name, kernel.language, *kernel.expected, graded.verdict, f"{graded.seconds:.1f}")
    ceilings = (await grading.environment()).ceilings if graded.report.measurements else {}
    for measured in graded.report.measurements:
        section.table(*TIME_COLUMNS).add(*_times(kernel, measured, ceilings, graded))
    assert graded.is_one_of(kernel.expected), graded.explanation


def _times(example: Example, measured: wire.Measurement, ceilings: dict[str, float], graded: Graded) -> tuple[str, ...]:
    """Shares in percent: of PyTorch's speed, of the measured bandwidth, of the peak in the first output's type."""
    certified_ns = statistics.median(measured.certified.durations_ns)
    speedups = {speedup.baseline: f"{100 * speedup.ratio:.0f} %" for speedup in measured.speedups}
    dtype = example.problem.spec.outputs[0].dtype if example.problem.spec.outputs else "float32"
    shares = [
        f"{100 * amount / certified_ns * 1e9 / ceiling:.0f} %" if amount and ceiling and certified_ns > 0 else ""
        for amount, ceiling in (
            (measured.moved_bytes, ceilings.get("bytes_per_s")),
            (measured.flops, ceilings.get(f"flops_per_s:{dtype}")),
        )
    ]
    of_pytorch = [speedups.get(baseline, "") for baseline in BASELINES]
    return (example.name, measured.workload_id, shown_us(certified_ns / 1000), *of_pytorch, *shares, ", ".join(graded.report.flags))
