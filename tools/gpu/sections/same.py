"""A/A: a kernel that does what PyTorch does, by PyTorch's own functions, against PyTorch.  Whoever wins, wins by the clock's fault."""

from __future__ import annotations

import asyncio

from tests.harness.grading import Grading, grader
from tools.gpu.figures import HALF_WIDTH, Interval, SameAgainstSame, same_against_same
from tools.gpu.page import Table
from tools.gpu.problems import SAME
from tools.gpu.run import FIRST_GPU, Run
from tools.gpu.sections.attempt import attempt
from tools.gpu.sections.six import interval

BASELINE = "eager"
COLUMNS = (
    "size",
    "about, us",
    "gradings",
    "median ratio",
    "spread",
    "mean half-width",
    "largest",
    "winners",
    "losers",
    "contain 1",
    "no interval",
)
NARROW_FROM_US = 100.0
REJECTED_LIMIT = 3  # gradings without a verdict of ACCEPTED, then it is not worth going on
AHEAD = 2  # the next box is made ready while one is timed, as on a server


async def run(run: Run) -> None:
    """Grade it again and again; each grading measures all sizes."""
    found: dict[str, list[Interval | None]] = {size.name: [] for size in SAME.sizes}
    table = run.section.table(*COLUMNS)
    problem = SAME.problem(tiny=run.choices.emulated)
    rejected: list[str] = []
    free = asyncio.Semaphore(AHEAD)

    async def one(number: int, grading: Grading) -> None:
        async with free:
            if run.time_is_up or len(rejected) >= REJECTED_LIMIT:
                return
            graded = await attempt(run, grading, f"grading {number + 1}", problem, SAME.source, SAME.language)
        if graded is None or graded.report.verdict.value != "ACCEPTED":
            rejected.append("" if graded is None else graded.explanation[:600])
        if graded is None:
            return
        measured = {one.workload_id: one for one in graded.report.measurements}
        for size in SAME.sizes:
            speedups = measured[size.name].speedups if size.name in measured else ()
            found[size.name].append(next((interval(one) for one in speedups if one.baseline == BASELINE), None))
        _show(found, table)
        last = ", ".join(f"{name} {known[-1].shown if known[-1] else 'no interval'}" for name, known in found.items())
        done = len(found[SAME.sizes[0].name])
        run.say(f"{done} of {run.choices.aa_count}, {graded.seconds:.1f} s, {graded.verdict} {' '.join(graded.report.flags)}: {last}")

    async with grader(isolation=run.choices.isolation, lanes=FIRST_GPU) as grading:
        run.environment = await grading.environment(run.choices.device)
        run.say(f"the judge is up: {run.environment.device}")
        with grading.profile(measure_s=run.choices.measure_s or grading.fleet.profile.measure_s):  # as a server measures
            await asyncio.gather(*(one(number, grading) for number in range(run.choices.aa_count)))
    run.section.notes += rejected
    run.section.raw["intervals"] = {
        name: [None if one is None else [one.ratio, one.low, one.high] for one in known] for name, known in found.items()
    }
    _conclude(run, {name: same_against_same(known) for name, known in found.items()})


def _show(found: dict[str, list[Interval | None]], table: Table) -> None:
    table.rows[:] = [row(size.name, size.about_us, same_against_same(found[size.name])) for size in SAME.sizes]


def row(name: str, about_us: float, one: SameAgainstSame) -> tuple[str, ...]:
    """For the table."""
    known = one.count - one.unresolved
    return (
        name,
        f"{about_us:.0f}",
        str(one.count),
        f"{one.ratio:.4f}",
        f"{100 * one.spread:.2f} %",
        f"{100 * one.half_width_mean:.2f} %",
        f"{100 * one.half_width_most:.2f} %",
        str(one.winners),
        str(one.losers),
        f"{100 * one.containing / known:.0f} %" if known else "",
        str(one.unresolved),
    )


def _conclude(run: Run, found: dict[str, SameAgainstSame]) -> None:
    count = min(one.count for one in found.values())
    if count < run.choices.aa_count:
        run.section.notes.append(f"{count} of {run.choices.aa_count} gradings were made before the time was up.")
    false = sum(one.winners + one.losers for one in found.values())
    resolved = sum(one.count - one.unresolved for one in found.values())
    run.claim(
        f"a kernel against itself, {count} gradings at {len(found)} sizes: no false winner or loser beyond 1 %",
        false == 0 and resolved > 0 and all(one.unresolved == 0 for one in found.values()),
        f"{false} of {resolved} intervals, {sum(one.unresolved for one in found.values())} missing",
    )
    about = {size.name: size.about_us for size in SAME.sizes}
    wide = {name: one.half_width_mean for name, one in found.items() if about[name] >= NARROW_FROM_US}
    run.claim(
        "the interval's half-width is at most 1 % from 100 us, in the mean of the gradings",
        resolved > 0 and all(width <= HALF_WIDTH for width in wide.values()),
        ", ".join(f"{name} {100 * width:.2f} %" for name, width in wide.items()),
    )
