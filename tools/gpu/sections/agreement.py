"""Three clocks on the same kernels: do_bench in an ordinary process, do_bench in the box, and the judge's."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from grader.dispatch.gpus import discover
from sandbox.protocol import wire
from tests.harness.grading import Grading, grader
from tools.gpu import host
from tools.gpu.builds import Built, build_all
from tools.gpu.figures import certified_limit_us, quantile, reported_limit_us, shown_us
from tools.gpu.page import Table
from tools.gpu.plain import Plain, time_family
from tools.gpu.problems import FAMILIES, Family
from tools.gpu.run import FIRST_GPU, Run
from tools.gpu.sections.attempt import attempt

MEASURE_S = 2.0
LEAST_KERNELS = 12
FROM_US, TO_US = 5.0, 5000.0
NAMED = 8  # kernels that a claim names


async def run(run: Run) -> None:
    """Family by family: the plain do_bench of all its sizes, then at once the grading."""
    run.say(f"building {len(FAMILIES)} kernels for the ordinary process")
    sources = {family.name: (family.source, family.language) for family in FAMILIES}
    built = await asyncio.to_thread(build_all, sources, run.place, run.choices.device)
    reported = run.section.table(
        "kernel",
        "plain do_bench, us",
        "between repetitions",
        "reported, us",
        "difference",
        "limit",
        "ok",
        title="Reported against plain do_bench.",
    )
    certified = run.section.table(
        "kernel",
        "reported, us",
        "certified, us",
        "p20..p80",
        "difference",
        "limit",
        "ok",
        "batch, us",
        "of",
        "floor, us",
        title="Certified against reported.",
    )
    found: list[dict[str, Any]] = []
    async with grader(isolation=run.choices.isolation, lanes=FIRST_GPU) as grading:
        run.environment = await grading.environment(run.choices.device)
        run.say(f"the judge is up: {run.environment.device}")
        with grading.profile(measure_s=run.choices.measure_s or MEASURE_S):
            for number, family in enumerate(FAMILIES):
                if run.time_is_up:
                    run.section.notes.append(f"Time was up before {', '.join(one.name for one in FAMILIES[number:])}.")
                    break
                found += await _family(run, grading, family, built[family.name], number)
                _show(found, reported, certified)
    run.section.raw["kernels"] = found
    _conclude(run, found)


async def _family(run: Run, grading: Grading, family: Family, built: Built, number: int) -> list[dict[str, Any]]:
    """Everything about one family's sizes, as plain data."""
    gpus = discover()
    chosen = next(
        (gpu for gpu in gpus if run.environment is not None and gpu.uuid == run.environment.device_uuid), gpus[0] if gpus else None
    )
    # This waits for the check that follows every job, which takes whoever else is on the device for a leftover of that job.
    await grading.environment(run.choices.device)
    plain = await asyncio.to_thread(
        time_family,
        family,
        built.artifact,
        run.place,
        device=run.choices.device,
        repetitions=run.choices.repetitions,
        seed=run.choices.seed + number,
        environment=host.gpu_environment(chosen),
    )
    problem = family.problem(tiny=run.choices.emulated)
    graded = await attempt(run, grading, family.name, problem, family.source, family.language)
    if graded is None:
        return [comparison(family.name, size.name, plain, "no verdict", ()) for size in family.sizes]
    run.say(f"{family.name}: {graded.verdict}, {graded.seconds:.1f} s")
    if graded.report.verdict.value != "ACCEPTED":
        run.section.notes.append(f"{family.name}: {graded.explanation[:800]}")
    return [comparison(family.name, size.name, plain, graded.verdict, graded.report.measurements) for size in family.sizes]


def comparison(family: str, size: str, plain: Plain, verdict: str, measurements: Sequence[wire.Measurement]) -> dict[str, Any]:
    """One kernel's figures, in microseconds; reported, certified: None where there are none."""
    measured = next((one for one in measurements if one.workload_id == size), None)
    medians = [statistics.median(times) for times in plain.times_us[size]]
    result: dict[str, Any] = {
        "kernel": f"{family} {size}",
        "verdict": verdict,
        "plain_us": statistics.median(medians),
        "plain_medians_us": medians,
        "plain_settling_us": statistics.median(plain.settling_us[size]),
        "reported_us": None,
        "certified_us": None,
    }
    if measured is None:
        return result
    certified = [one / 1000 for one in measured.certified.durations_ns]
    result |= {
        "reported_us": None if measured.reported is None else statistics.median(measured.reported.durations_ns) / 1000,
        "certified_us": statistics.median(measured.certified.durations_ns) / 1000,
        "certified_p20_us": quantile(certified, 0.2),
        "certified_p80_us": quantile(certified, 0.8),
        "certified_all_us": certified,
        "bound_us": measured.bound_ns / 1000,
        "batch_us": None if measured.batch is None else statistics.median(measured.batch.durations_ns) / 1000,
        "batch_size": measured.batch_size,
        "physical_floor_us": None if measured.physical_floor_ns is None else measured.physical_floor_ns / 1000,
        "confirmed": measured.reported_confirmed,
        "conditions": dict(measured.conditions),
    }
    return result


def reported_agrees(one: dict[str, Any]) -> bool | None:
    """Whether the reported time is as near to the plain one as it must be; None where there is none."""
    if one["reported_us"] is None:
        return None
    return bool(abs(one["reported_us"] - one["plain_us"]) <= reported_limit_us(one["plain_us"]))


def certified_agrees(one: dict[str, Any]) -> bool | None:
    """The same of the certified time and the reported one."""
    if one["reported_us"] is None or one["certified_us"] is None:
        return None
    return bool(abs(one["certified_us"] - one["reported_us"]) <= certified_limit_us(one["reported_us"]))


def _show(found: list[dict[str, Any]], reported: Table, certified: Table) -> None:
    """Fill the tables anew, shortest kernel first."""
    ordered = sorted(found, key=lambda one: float(one["plain_us"]))
    reported.rows[:] = [_reported_row(one) for one in ordered]
    certified.rows[:] = [_certified_row(one) for one in ordered]


def _reported_row(one: dict[str, Any]) -> tuple[str, ...]:
    spread = (max(one["plain_medians_us"]) - min(one["plain_medians_us"])) / one["plain_us"]
    start = (one["kernel"], shown_us(one["plain_us"]), f"{100 * spread:.2f} %")
    if one["reported_us"] is None:
        return (*start, one["verdict"], "", "", "no")
    difference = one["reported_us"] - one["plain_us"]
    return (
        *start,
        shown_us(one["reported_us"]),
        f"{difference:+.2f} us ({100 * difference / one['plain_us']:+.2f} %)",
        f"{reported_limit_us(one['plain_us']):.2f} us",
        "yes" if reported_agrees(one) else "no",
    )


def _certified_row(one: dict[str, Any]) -> tuple[str, ...]:
    if one["reported_us"] is None or one["certified_us"] is None:
        return (one["kernel"], shown_us(one["reported_us"]), shown_us(one["certified_us"]), "", "", "", "no", "", "", "")
    difference = one["certified_us"] - one["reported_us"]
    return (
        one["kernel"],
        shown_us(one["reported_us"]),
        shown_us(one["certified_us"]),
        f"{shown_us(one['certified_p20_us'])}..{shown_us(one['certified_p80_us'])}",
        f"{difference:+.2f} us ({100 * difference / one['reported_us']:+.2f} %)",
        f"{certified_limit_us(one['reported_us']):.2f} us",
        "yes" if certified_agrees(one) else "no",
        shown_us(one["batch_us"]),
        str(one["batch_size"] or ""),
        shown_us(one["physical_floor_us"]),
    )


def _conclude(run: Run, found: list[dict[str, Any]]) -> None:
    shortest, longest = (pick((one["plain_us"] for one in found), default=0.0) for pick in (min, max))
    range_found = f"{len(found)} kernels, {shown_us(shortest)} us to {shown_us(longest)} us"
    run.claim(
        f"at least {LEAST_KERNELS} kernels, from about {FROM_US:.0f} us to {TO_US / 1000:.0f} ms",
        len(found) >= LEAST_KERNELS and shortest <= 2 * FROM_US and longest >= TO_US / 2,
        range_found,
    )
    for text, agrees in (
        ("reported is within 2 % of plain do_bench from 50 us, within max(1 us, 5 %) below", reported_agrees),
        ("certified is within max(10 us, 3 %) of reported", certified_agrees),
    ):
        failing = [one["kernel"] for one in found if not agrees(one)]
        detail = f"{len(found) - len(failing)} of {len(found)}" + (f"; not {', '.join(failing[:NAMED])}" if failing else "")
        run.claim(text, bool(found) and not failing, detail)
