"""A kernel that does what PyTorch does, by PyTorch's own functions, against PyTorch: who wins, wins by the clock's fault."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sandbox.protocol import wire
from tests.gpu.conftest import GradedAhead, cases_of, count_of, graded_ahead, measure_s, show_flow_only
from tests.gpu.families import SAME
from tests.gpu.figures import HALF_WIDTH, LOSER, SAME_COLUMNS, WINNER, same_against_same
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

GRADING_COUNT = 30
BASELINE = "eager"
NARROW_FROM_US = 100.0
AHEAD = 2  # the next box is made ready while one is timed, as on a server

Speedups = dict[str, list[wire.Speedup | None]]  # by size; None: a grading without an interval


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """As many gradings as --gpu-count says."""
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(1, 1 + count_of(metafunc.config, GRADING_COUNT)))


@pytest.fixture(scope="module")
def by_size() -> Speedups:
    """The speedups of all gradings, by the size of the problem."""
    return {size.name: [] for size in SAME.sizes}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ahead(request: pytest.FixtureRequest, grading: Grading) -> AsyncIterator[GradedAhead]:
    """The gradings; each measures all sizes, as long as a server does."""
    problem = SAME.problem(tiny=grading.device == "emulated")
    conditions = Conditions(measure_s=measure_s(request.config, grading.fleet.profile.measure_s))

    async def grade(number: int) -> Graded:
        return await grading.grade(problem, SAME.source, language=SAME.language, conditions=conditions)

    async with graded_ahead(cases_of(request, test_a_kernel_neither_wins_nor_loses_against_itself.__name__), grade, AHEAD) as tasks:
        yield tasks


async def test_a_kernel_neither_wins_nor_loses_against_itself(
    ahead: GradedAhead, request: pytest.FixtureRequest, section: Section, by_size: Speedups, device: str, number: int
) -> None:
    """No interval lies beyond 1 %, and none is missing."""
    graded = await ahead[request.node.nodeid]
    measured = {measurement.workload_id: measurement for measurement in graded.report.measurements}
    for size in SAME.sizes:
        speedups = measured[size.name].speedups if size.name in measured else ()
        by_size[size.name].append(next((speedup for speedup in speedups if speedup.baseline == BASELINE), None))
    table = section.table(*SAME_COLUMNS)
    table.rows[:] = [same_against_same(by_size[size.name]).row(size.name, size.about_us) for size in SAME.sizes]
    section.raw["intervals"] = {
        name: [None if speedup is None else [speedup.ratio, speedup.ratio_low, speedup.ratio_high] for speedup in entries]
        for name, entries in by_size.items()
    }
    assert graded.verdict == "ACCEPTED", graded.explanation
    show_flow_only(device)
    for name, pairs in by_size.items():
        assert pairs[-1] is not None, f"no interval at {name}: {graded.report.flags}"
        assert pairs[-1].ratio_low <= WINNER, name
        assert pairs[-1].ratio_high >= LOSER, name


async def test_intervals_are_narrow_from_100_us(by_size: Speedups, device: str) -> None:
    """Half of the interval is at most 1 %, in the mean of the gradings."""
    if not any(by_size.values()):
        pytest.skip("nothing was graded")
    show_flow_only(device)
    widths = {size.name: same_against_same(by_size[size.name]).half_width_mean for size in SAME.sizes if size.about_us >= NARROW_FROM_US}
    assert all(0 < width <= HALF_WIDTH for width in widths.values()), widths
