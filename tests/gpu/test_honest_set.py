"""Every kernel of tests/honest, three times: all are accepted each time, and their wrong twins never are."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from grader.model import Verdict
from tests.gpu.conftest import GradedAhead, cases_of, count_of, graded_ahead
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading
from tests.honest.kernel_files import Kernel, all_in

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 1.0
ROUND_COUNT = 3
COLUMNS = ("kernel", "language", "mode", "verdict", "reason", "seconds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All kernels in each round, so that an interrupted run has graded each of them about as often."""
    if "number" in metafunc.fixturenames:
        cases = [(kernel, number) for number in range(count_of(metafunc.config, ROUND_COUNT)) for kernel in all_in("kernels")]
        metafunc.parametrize(("kernel", "number"), cases, ids=[f"{kernel.name}-{number + 1}" for kernel, number in cases])


async def grade(grading: Grading, kernel: Kernel) -> Graded:
    """Grade in the mode that the kernel's file names."""
    problem = kernel.read_problem()
    draft, conditions = kernel.submission(problem.problem_id), Conditions(measure_s=MEASURE_S)
    return await grading.grade(problem, draft.sources, language=draft.language, mode=draft.mode, conditions=conditions)


@pytest.mark.parametrize("kernel", all_in("controls"), ids=lambda kernel: kernel.name)
async def test_a_wrong_twin_is_refused(grading: Grading, section: Section, kernel: Kernel) -> None:
    """The control: by the same way, and on the same problems."""
    graded = await grade(grading, kernel)
    show(section, kernel, graded, Verdict.WRONG_ANSWER)
    assert graded.report.verdict is Verdict.WRONG_ANSWER, f"{kernel.why}\n{graded.explanation}"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ahead(request: pytest.FixtureRequest, grading: Grading) -> AsyncIterator[GradedAhead]:
    """The gradings of all rounds."""
    async with graded_ahead(
        cases_of(request, test_an_honest_kernel_is_accepted.__name__), lambda kernel, number: grade(grading, kernel)
    ) as tasks:
        yield tasks


async def test_an_honest_kernel_is_accepted(
    ahead: GradedAhead, request: pytest.FixtureRequest, section: Section, kernel: Kernel, number: int
) -> None:
    """On every workload, hidden ones too, every time."""
    graded = await ahead[request.node.nodeid]
    show(section, kernel, graded, Verdict.ACCEPTED)
    assert graded.report.verdict is Verdict.ACCEPTED, f"{kernel.why}\n{graded.explanation}"


def show(section: Section, kernel: Kernel, graded: Graded, expected: Verdict) -> None:
    """Add a row."""
    row = {
        "kernel": kernel.name,
        "language": kernel.language,
        "mode": kernel.mode.value,
        "verdict": graded.report.verdict.value,
        "reason": graded.report.reason or ", ".join(graded.report.flags),
        "seconds": f"{graded.seconds:.1f}",
    }
    section.table(*COLUMNS).add(*row.values())
    section.raw.setdefault("rows", []).append({**row, "wanted": expected.value})
