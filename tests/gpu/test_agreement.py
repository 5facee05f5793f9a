"""Three clocks on the same kernels: do_bench in an ordinary process, do_bench in the box, and the judge's."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from sandbox.protocol import wire
from tests.gpu.conftest import count_of, measure_s, show_flow_only
from tests.gpu.families import FAMILIES, Family
from tests.gpu.figures import certified_limit_us, quantile, reported_limit_us, shown_us
from tests.gpu.plain_bench import plan_of
from tests.gpu.report import Section
from tests.gpu.unboxed import build, run_program
from tests.harness.grading import BUILDER_COUNT, Conditions, Graded, Grading

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 2.0
REPETITION_COUNT = 3
LEAST_KERNELS = 12
FROM_US, TO_US = 5.0, 5000.0
REPORTED_COLUMNS = ("kernel", "plain do_bench, us", "between repetitions", "as allocated, us", "reported, us", "difference", "limit")
CERTIFIED_COLUMNS = ("kernel", "reported, us", "certified, us", "p20..p80", "difference", "limit", "floor, us")
CASES = {f"{family.name}-{size.name}": (family, size.name) for family in FAMILIES for size in family.sizes}

Figures = dict[str, Any]
Compare = Callable[[Family, str], Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def artifacts(device: str, maybe_gpu: Gpu | None, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Every kernel, built for the ordinary process before anything is timed."""
    place, free = tmp_path_factory.mktemp("built"), asyncio.Semaphore(BUILDER_COUNT)

    async def build_family(family: Family) -> Path:
        async with free:
            return await asyncio.to_thread(build, family.source, family.language, place / family.name, device)

    return dict(zip((family.name for family in FAMILIES), await asyncio.gather(*map(build_family, FAMILIES)), strict=True))


@pytest.fixture(scope="module")
def compared(
    request: pytest.FixtureRequest,
    grading: Grading,
    artifacts: Mapping[str, Path],
    maybe_gpu: Gpu | None,
    section: Section,
    tmp_path_factory: pytest.TempPathFactory,
) -> Compare:
    """Gives one kernel's figures at one size: of a family first the plain do_bench of all sizes, then at once the grading."""
    by_family: dict[str, dict[str, Figures]] = {}
    repetitions = count_of(request.config, REPETITION_COUNT)

    async def figures(family: Family, size: str) -> Figures:
        if family.name not in by_family:
            # This waits for the check that follows every job, which takes whoever else is on the device for a leftover of that job.
            await grading.environment()
            seed = 1 + len(by_family)
            plan = plan_of(family, artifacts[family.name], device=grading.device, repetitions=repetitions, seed=seed)
            place = tmp_path_factory.mktemp(family.name)
            plain = await asyncio.to_thread(run_program, "tests.gpu.plain_bench", plan, place, maybe_gpu)
            graded = await _grade(grading, family, measure_s(request.config, MEASURE_S))
            measurements = graded.report.measurements
            by_family[family.name] = {shape.name: comparison(family.name, shape.name, plain, measurements) for shape in family.sizes}
            _show(section, [kernel for sizes in by_family.values() for kernel in sizes.values()])
            assert graded.verdict == "ACCEPTED", graded.explanation
        return by_family[family.name][size]

    return figures


async def _grade(grading: Grading, family: Family, seconds: float) -> Graded:
    problem = family.problem(tiny=grading.device == "emulated")
    return await grading.grade(problem, family.source, language=family.language, conditions=Conditions(measure_s=seconds))


@pytest.mark.parametrize(("family", "size"), CASES.values(), ids=CASES)
async def test_the_reported_time_is_that_of_a_plain_do_bench(compared: Compare, device: str, family: Family, size: str) -> None:
    """Within 2 % from 50 us, within max(1 us, 5 %) below."""
    figures = await compared(family, size)
    show_flow_only(device)
    assert reported_agrees(figures)


@pytest.mark.parametrize(("family", "size"), CASES.values(), ids=CASES)
async def test_the_certified_time_is_the_reported_one(compared: Compare, device: str, family: Family, size: str) -> None:
    """Within max(2 us, 1.5 %)."""
    figures = await compared(family, size)
    show_flow_only(device)
    assert certified_agrees(figures)


async def test_kernels_of_all_lengths_were_compared(compared: Compare, device: str) -> None:
    """At least 12, from about 5 us to 5 ms."""
    plain_us = [(await compared(family, size))["plain_us"] for family, size in CASES.values()]
    show_flow_only(device)
    assert len(plain_us) >= LEAST_KERNELS
    assert min(plain_us) <= 2 * FROM_US
    assert max(plain_us) >= TO_US / 2


def comparison(family: str, size: str, plain: Mapping[str, Any], measurements: Sequence[wire.Measurement]) -> Figures:
    """Return a kernel's figures, in microseconds; reported_us, certified_us: None where there are none."""
    medians = [statistics.median(times) for times in plain["times_us"][size]]
    result: Figures = {
        "kernel": f"{family} {size}",
        "plain_us": statistics.median(medians),
        "plain_medians_us": medians,
        "as_allocated_us": statistics.median(statistics.median(times) for times in plain["as_allocated_us"][size]),
        "plain_settling_us": statistics.median(plain["settling_us"][size]),
        "reported_us": None,
        "certified_us": None,
    }
    measured = next((measurement for measurement in measurements if measurement.workload_id == size), None)
    if measured is None or measured.reported is None:
        return result
    certified = [duration_ns / 1000 for duration_ns in measured.certified.durations_ns]
    return result | {
        "reported_us": statistics.median(measured.reported.durations_ns) / 1000,
        "certified_us": statistics.median(certified),
        "certified_p20_us": quantile(certified, 0.2),
        "certified_p80_us": quantile(certified, 0.8),
        "certified_all_us": certified,
        "bound_us": measured.bound_ns / 1000,
        "physical_floor_us": None if measured.physical_floor_ns is None else measured.physical_floor_ns / 1000,
        "confirmed": measured.reported_confirmed,
        "conditions": dict(measured.conditions),
    }


def reported_agrees(row: Figures) -> bool:
    """Return whether the reported time is as near to the plain one as it must be; a time that is missing is not."""
    return row["reported_us"] is not None and abs(row["reported_us"] - row["plain_us"]) <= reported_limit_us(row["plain_us"])


def certified_agrees(row: Figures) -> bool:
    """The same of the certified time and the reported one."""
    return row["reported_us"] is not None and abs(row["certified_us"] - row["reported_us"]) <= certified_limit_us(row["reported_us"])


def _show(section: Section, rows: Sequence[Figures]) -> None:
    """Fill the tables again, shortest kernel first."""
    section.raw["kernels"] = rows
    ordered = sorted(rows, key=lambda row: float(row["plain_us"]))
    section.table(*REPORTED_COLUMNS, title="Reported against plain do_bench.").rows[:] = map(_reported_row, ordered)
    section.table(*CERTIFIED_COLUMNS, title="Certified against reported.").rows[:] = map(_certified_row, ordered)


def _reported_row(row: Figures) -> tuple[str, ...]:
    spread = (max(row["plain_medians_us"]) - min(row["plain_medians_us"])) / row["plain_us"]
    plain = (shown_us(row["plain_us"]), f"{100 * spread:.2f} %", shown_us(row["as_allocated_us"]))
    start = (row["kernel"], *plain, shown_us(row["reported_us"]))
    if row["reported_us"] is None:
        return (*start, "", "")
    return (*start, _difference(row["reported_us"], row["plain_us"]), f"{reported_limit_us(row['plain_us']):.2f} us")


def _certified_row(row: Figures) -> tuple[str, ...]:
    start = (row["kernel"], shown_us(row["reported_us"]), shown_us(row["certified_us"]))
    if row["reported_us"] is None:
        return (*start, "", "", "", "")
    return (
        *start,
        f"{shown_us(row['certified_p20_us'])}..{shown_us(row['certified_p80_us'])}",
        _difference(row["certified_us"], row["reported_us"]),
        f"{certified_limit_us(row['reported_us']):.2f} us",
        shown_us(row["physical_floor_us"]),
    )


def _difference(one_us: float, other_us: float) -> str:
    return f"{one_us - other_us:+.2f} us ({100 * (one_us - other_us) / other_us:+.2f} %)"
