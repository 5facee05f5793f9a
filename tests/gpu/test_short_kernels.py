"""Kernels of 14 to 25 us in benchmark mode: how soon their verdict is there, how many variants a lane judges, and what their speedup is."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import replace

import pytest

from grader.model import Problem
from tests.gpu.conftest import count_of, measure_s, show_flow_only
from tests.gpu.families import FAMILIES, Family, Size
from tests.gpu.figures import half_width, saturated_rate
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

SIZE = Size(name="rows24mb", axes={"rows": 1536, "cols": 4096}, about_us=14, tiny={"rows": 5, "cols": 64})
ROW_SUM = replace(next(family for family in FAMILIES if family.name == "row_sum"), sizes=(SIZE,))
MEASURE_S, GRADING_COUNT = 1.0, 5
VERDICT_S, RATIO_SHARE = 2.0, 0.02
VARIANT_COUNT, AHEAD, VARIANTS_A_MINUTE = 50, 3, 40
COLUMNS = (
    "grading",
    "seconds",
    "certified, us",
    "do_bench, us",
    "eager, us",
    "its do_bench, us",
    "ratio",
    "of do_bench",
    "half-width",
    "turns",
    "end",
    "flags",
)


async def test_a_cached_row_sum_of_24_mb_has_its_verdict_soon(
    request: pytest.FixtureRequest, grading: Grading, section: Section, device: str
) -> None:
    """In 2 s, from submit to verdict, with a box that waits and baselines that were timed before; its speedup is that of do_bench."""
    seconds, apart = list[float](), list[float]()
    for number in range(1 + count_of(request.config, GRADING_COUNT)):
        graded = await grade(grading, ROW_SUM, ROW_SUM.source, measure_s(request.config, MEASURE_S))
        assert graded.verdict == "ACCEPTED", graded.explanation
        section.table(*COLUMNS).add(number or "first", *row(graded))
        await asyncio.sleep(1.0)  # the next box imports
        if number and device != "emulated":
            seconds.append(graded.seconds)
            apart.append(ratio_of(graded) / bench_ratio_of(graded) - 1)
    show_flow_only(device)
    assert statistics.median(seconds) <= VERDICT_S
    assert abs(statistics.median(apart)) <= RATIO_SHARE, apart


async def test_variants_of_a_short_kernel_a_minute(request: pytest.FixtureRequest, grading: Grading, section: Section, device: str) -> None:
    """Fifty sources, built before, on one lane: at least 40 a minute."""
    count = count_of(request.config, VARIANT_COUNT)
    sources = [f"{ROW_SUM.source}// variant {number}\n" for number in range(count)]
    problem = problem_on(grading)
    await grading.prebuild((problem, source, ROW_SUM.language) for source in sources)
    free, ends = asyncio.Semaphore(AHEAD), list[float]()

    async def grade_one(source: str) -> Graded:
        async with free:
            graded = await grade(grading, ROW_SUM, source, measure_s(request.config, MEASURE_S))
            ends.append(time.monotonic())
            return graded

    verdicts = [graded.verdict for graded in await asyncio.gather(*map(grade_one, sources))]
    rate = saturated_rate(ends, 1) if count > 3 else 0.0
    section.notes.append(f"{count} variants of one kernel, built before: {rate:.1f} a minute on one lane.")
    assert set(verdicts) == {"ACCEPTED"}, verdicts
    show_flow_only(device)
    assert rate >= VARIANTS_A_MINUTE


def problem_on(grading: Grading) -> Problem:
    """The row sum's problem on the device of these gradings."""
    return ROW_SUM.problem(tiny=grading.device == "emulated")


async def grade(grading: Grading, family: Family, source: str, seconds: float) -> Graded:
    """Grade a source of the family in benchmark mode."""
    problem = family.problem(tiny=grading.device == "emulated")
    return await grading.grade(problem, source, language=family.language, conditions=Conditions(measure_s=seconds))


def ratio_of(graded: Graded) -> float:
    """The speedup over eager by the judge's clock; NaN without one."""
    return next((speedup.ratio for speedup in graded.report.measurements[0].speedups if speedup.baseline == "eager"), float("nan"))


def bench_ratio_of(graded: Graded) -> float:
    """The same by do_bench in both processes."""
    measurement = graded.report.measurements[0]
    assert measurement.reported is not None
    eager_ns = statistics.median(measurement.reported_baselines["eager"].durations_ns)
    return eager_ns / statistics.median(measurement.reported.durations_ns)


def row(graded: Graded) -> tuple[str, ...]:
    """A row under COLUMNS, without its first cell."""
    measurement = graded.report.measurements[0]
    samples = (measurement.certified, measurement.reported, measurement.baselines.get("eager"), measurement.reported_baselines.get("eager"))
    times = (f"{statistics.median(sample.durations_ns) / 1e3:.2f}" if sample is not None else "" for sample in samples)
    speedup = next((entry for entry in measurement.speedups if entry.baseline == "eager"), None)
    return (
        f"{graded.seconds:.2f}",
        *times,
        "" if speedup is None else f"{speedup.ratio:.3f}",
        f"{bench_ratio_of(graded):.3f}",
        "" if speedup is None else f"{100 * half_width(speedup):.2f} %",
        str(measurement.turn_count),
        "" if measurement.end is None else measurement.end.value,
        ", ".join(graded.report.flags),
    )
