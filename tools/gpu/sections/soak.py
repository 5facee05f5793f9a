"""Many good and bad submissions in a row on one lane: every verdict right, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass

from grader.errors import GraderError
from grader.model import Problem
from sandbox.protocol import wire
from tests.gpu.kernels import files
from tests.harness.grading import BUILDER_COUNT, ROOT, Graded, Grading, grader, load_problem
from tools.gpu import host
from tools.gpu.page import Table
from tools.gpu.run import FIRST_GPU, Run
from tools.gpu.sections.lanes import language_of

# These wait for a limit, fill a memory, or leave 20 s of work behind; `faults` has them.
SLOW = {"zero_stride", "endless", "endless_everywhere", "left_running", "pinned_flood", "hoards_memory", "torch_takes_all_memory"}
BENCHMARK_EVERY = 5  # of those that may be
MEASURE_S = 0.5
AHEAD = BUILDER_COUNT  # under way at a time, so that some build while another is on the lane
TIMED = ("vector_add", "row_softmax", "tril_matmul")  # problems whose baselines are compiled beforehand
MEMORY_SLACK_MIB = 64.0  # the judge's own allocator may keep some
FAILURES_LIMIT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A kernel of the mix and what it must get."""

    name: str
    problem: Problem
    source: str
    language: str
    expected: tuple[str, ...]


async def run(run: Run) -> None:
    """Grade the mix in a random order, and compare what is in use before and after."""
    items = mixed(emulated=run.choices.emulated)
    idle = host.look("")
    wrong = run.section.table("number", "kernel", "mode", "verdict", "expected", "what it says", title="Verdicts that were not right.")
    counts: Counter[str] = Counter()
    async with grader(isolation=run.choices.isolation, lanes=FIRST_GPU) as grading:
        run.environment = await grading.environment(run.choices.device)
        run.say(f"the judge is up; {len(items)} different kernels; warming it with one of each problem that is timed")
        with grading.profile(measure_s=MEASURE_S):
            right = [item for item in items if _is_timed(item) and item.expected == ("ACCEPTED",)]
            for item in {item.problem.problem_id: item for item in reversed(right)}.values():
                await _graded(run, grading, item, wire.Mode.BENCHMARK)
            before = await _looked(run, grading)
            done = await _soak(run, grading, items, wrong, counts)
            after = await _looked(run, grading)
    left = host.look(grading.state_id)
    _show(run, (idle, before, after, left))
    verdicts = run.section.table("verdict", "count", title="All verdicts.")
    verdicts.rows += [(verdict, count) for verdict, count in sorted(counts.items())]
    if not wrong.rows:
        run.section.tables.remove(wrong)
    _conclude(run, done, len(wrong.rows), (idle, before, after, left))


def mixed(*, emulated: bool) -> list[Item]:
    """Every kernel of the examples, and where there is a GPU the faults and the honest ones of the tests too."""
    items = []
    for path in sorted((ROOT / "kernels_examples").glob("*/*.cu")):
        source = path.read_text("utf-8")
        expected = source.split("\n", 1)[0].removeprefix("// expect:").strip()
        if path.stem not in SLOW:
            problem = load_problem(path.parent.name)
            items.append(Item(name=path.stem, problem=problem, source=source, language=language_of(path, source), expected=(expected,)))
    for directory in () if emulated else ("faults", "honest"):
        for kernel in files.all_in(directory):
            if kernel.path.stem not in SLOW:
                problem = load_problem(kernel.problem)
                source = kernel.source(problem.spec.trial_count)
                items.append(Item(name=kernel.name, problem=problem, source=source, language=kernel.language, expected=kernel.expect))
    return items


async def _soak(run: Run, grading: Grading, items: list[Item], wrong: Table, counts: Counter[str]) -> int:
    """How many were graded before the time was up."""
    count = run.choices.soak_count
    order = ordered(items, count, run.choices.seed)
    timed = set([number for number, item in enumerate(order) if _is_timed(item)][::BENCHMARK_EVERY])
    free = asyncio.Semaphore(AHEAD)
    done = 0

    async def one(number: int, item: Item) -> None:
        nonlocal done
        async with free:
            if run.time_is_up or len(wrong.rows) >= FAILURES_LIMIT:
                return
            mode = wire.Mode.BENCHMARK if number in timed else wire.Mode.TEST
            verdict, said, right = await _graded(run, grading, item, mode)
        done += 1
        counts[verdict] += 1
        if not right:
            wrong.rows.append((number, item.name, mode.value, verdict, " or ".join(item.expected), said))
        if done % 10 == 0 or not right:
            run.say(f"{done} of {count}, {len(wrong.rows)} wrong; {item.name}: {verdict}")

    await asyncio.gather(*(one(number, item) for number, item in enumerate(order)))
    return done


def _is_timed(item: Item) -> bool:
    return item.problem.problem_id in TIMED


async def _looked(run: Run, grading: Grading) -> host.Left:
    """What is in use when the check that follows the last job is over, and its box's processes are reaped."""
    await grading.environment(run.choices.device)
    await asyncio.sleep(1)
    return host.look(grading.state_id)


def ordered(items: list[Item], count: int, seed: int) -> list[Item]:
    """The whole mix again and again, shuffled anew each time."""
    shuffled = random.Random(seed)
    order: list[Item] = []
    while len(order) < count:
        order += shuffled.sample(items, len(items))
    return order[:count]


async def _graded(run: Run, grading: Grading, item: Item, mode: wire.Mode) -> tuple[str, str, bool]:
    try:
        graded: Graded = await grading.grade(item.problem, item.source, language=item.language, mode=mode, device=run.choices.device)
    except GraderError as failure:  # ours, and no verdict: counted as a wrong one
        return "no verdict", f"{type(failure).__name__}: {failure}", False
    return graded.verdict, graded.report.summary, graded.is_one_of(item.expected)


def _show(run: Run, looks: tuple[host.Left, host.Left, host.Left, host.Left]) -> None:
    table = run.section.table("when", "GPU memory in use, MiB", "containers", "processes of boxes", title="What is in use.")
    names = ("before the judge was started", "judge warm, before the first", "judge warm, after the last", "judge ended")
    for name, one in zip(names, looks, strict=True):
        containers = "no engine" if one.containers is None else str(one.containers)
        table.rows.append((name, ", ".join(f"{mib:.0f}" for mib in one.memory_mib), containers, one.box_processes))


def _conclude(run: Run, done: int, wrong: int, looks: tuple[host.Left, host.Left, host.Left, host.Left]) -> None:
    idle, before, after, left = looks
    count = run.choices.soak_count
    if done < count:
        run.section.notes.append(f"{done} of the {count} submissions were graded before the time was up, or too many were wrong.")
    run.claim(
        f"{done} mixed submissions in a row on one lane: every verdict is right", wrong == 0 and done > 0, f"{done - wrong} of {done}"
    )
    run.claim(f"all {count} of them were graded", None if done < count and not wrong else done == count, f"{done}")
    grown = [most_grown(before, after), most_grown(idle, left)]
    run.claim(
        f"GPU memory is back to the baseline, within {MEMORY_SLACK_MIB:.0f} MiB",
        max(grown) <= MEMORY_SLACK_MIB,
        f"{grown[0]:+.0f} MiB with the judge, {grown[1]:+.0f} MiB without",
    )
    run.claim("no box is left", after.boxes <= before.boxes and left.boxes <= idle.boxes, f"{after.boxes}, before {before.boxes}")


def most_grown(before: host.Left, after: host.Left) -> float:
    """By how many MiB the GPU whose memory grew most did."""
    return max((late - early for early, late in zip(before.memory_mib, after.memory_mib, strict=True)), default=0.0)
