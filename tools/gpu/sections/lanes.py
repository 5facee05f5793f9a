"""Two lanes on two GPUs: twice the jobs in about the same time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from grader.fleet.gpus import discover
from grader.languages import detect
from grader.model import Problem, SourceFile
from sandbox import wire
from tests.gpu.grading import ROOT, Grading, grader, load_problem
from tools.gpu.run import Run

MIX = (
    "vector_add/float4_with_tail",
    "row_softmax/warp_per_row",
    "tril_matmul/shared_tiles",
    "row_softmax/torch_online_block",
    "vector_add/off_by_one",
    "row_softmax/block_tree",
)
RATIO_LIMIT = 1.15
MEASURE_S = 1.0
BUILDS_AHEAD = 2  # jobs that build while all lanes are taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A submission of the mix."""

    name: str
    problem: Problem
    source: str
    language: str
    expected: str


async def run(run: Run) -> None:
    """N jobs on one lane, then 2N on two."""
    gpus = discover()
    if not run.choices.emulated and len(gpus) < 2:
        run.claim(
            "two lanes do 2N jobs in at most 1.15 times the time of N on one",
            None,
            f"this host has {len(gpus)} GPU; two are needed",
        )
        return
    mix = [read(name) for name in MIX]
    n = run.choices.lane_jobs
    table = run.section.table("lanes", "jobs", "wall time, s", "jobs a minute", "verdicts as expected")
    walls: dict[int, float] = {}
    right = True
    for lanes in (1, 2):
        chosen = tuple(range(lanes))
        async with grader(isolation=run.choices.isolation, lanes=chosen) as grading:
            run.environment = run.environment or await grading.environment(run.choices.device)
            with grading.profile(measure_s=MEASURE_S):
                run.say(f"{lanes} lane(s): warming builds, judges and baselines")
                await asyncio.gather(*(_warm(grading, mix, device) for device in _devices(run, chosen)))
                begun = time.monotonic()
                good = await _all(run, grading, [mix[at % len(mix)] for at in range(n * lanes)], lanes)
                walls[lanes] = time.monotonic() - begun
        right &= good == n * lanes
        table.rows.append((lanes, n * lanes, f"{walls[lanes]:.1f}", f"{60 * n * lanes / walls[lanes]:.1f}", f"{good} of {n * lanes}"))
    ratio = walls[2] / walls[1]
    run.section.raw |= {"wall_s": walls, "ratio": ratio}
    run.claim(
        f"two lanes do {2 * n} jobs in at most {RATIO_LIMIT} times the time of {n} on one",
        ratio <= RATIO_LIMIT and right,
        f"{ratio:.3f} times",
    )


def read(name: str) -> Work:
    """One of the example kernels."""
    path = (ROOT / "kernels_examples" / name).with_suffix(".cu")
    source = path.read_text("utf-8")
    return Work(
        name=name,
        problem=load_problem(path.parent.name),
        source=source,
        language=language_of(path, source),
        expected=source.split("\n", 1)[0].removeprefix("// expect:").strip(),
    )


def language_of(path: Path, source: str) -> str:
    """The language that the server would take it for."""
    return detect((SourceFile(path=path.name, content=source),)) or "cuda"


def _devices(run: Run, chosen: tuple[int, ...]) -> list[str]:
    return [run.choices.device] if run.choices.emulated else [f"cuda:{index}" for index in chosen]


async def _warm(grading: Grading, mix: list[Work], device: str) -> None:
    """Build everything, and let the lane's judge compile each problem's baselines."""
    timed: set[str] = set()
    for work in mix:
        mode = wire.Mode.TEST if work.problem.problem_id in timed or work.expected != "ACCEPTED" else wire.Mode.BENCHMARK
        timed |= {work.problem.problem_id} if mode is wire.Mode.BENCHMARK else set()
        await grading.grade(work.problem, work.source, language=work.language, mode=mode, device=device)


async def _all(run: Run, grading: Grading, jobs: list[Work], lanes: int) -> int:
    """How many had the verdict that they should have."""
    free = asyncio.Semaphore(lanes + BUILDS_AHEAD)
    done = 0

    async def one(work: Work) -> bool:
        nonlocal done
        async with free:
            graded = await grading.grade(
                work.problem, work.source, language=work.language, mode=wire.Mode.BENCHMARK, device=run.choices.device
            )
        done += 1
        run.say(f"{lanes} lane(s), {done} of {len(jobs)}: {work.name} {graded.verdict}, {graded.seconds:.1f} s")
        return graded.is_one_of((work.expected,))

    return sum(await asyncio.gather(*(one(work) for work in jobs)))
