"""Two lanes on two GPUs: the same jobs twice in about the same time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from grader.dispatch.gpus import discover
from grader.intake.languages import detect
from grader.model import Problem, SourceFile
from sandbox.protocol import wire
from tests.harness.grading import ROOT, Grading, grader, load_problem
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
AHEAD = 2  # jobs a lane that build, or have a box made ready, while it is taken


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
    async with grader(isolation=run.choices.isolation, lanes=(0, 1)) as grading:
        run.environment = run.environment or await grading.environment(run.choices.device)
        with grading.profile(measure_s=MEASURE_S):
            run.say("warming builds, judges and baselines")
            await grading.prebuild(((work.problem, work.source, work.language) for work in mix), device=run.choices.device)
            devices = [run.choices.device] * 2 if run.choices.emulated else [f"cuda:{gpu.index}" for gpu in gpus[:2]]
            await asyncio.gather(*(_warm(grading, mix, device) for device in devices[: len(gpus) or 1]))
            for lanes, device in ((1, devices[0]), (2, run.choices.device)):
                begun = time.monotonic()
                good = await _all(run, grading, [mix[at % len(mix)] for at in range(n)] * lanes, lanes, device)
                walls[lanes] = time.monotonic() - begun
                right &= good == n * lanes
                row = (f"{walls[lanes]:.1f}", f"{60 * n * lanes / walls[lanes]:.1f}", f"{good} of {n * lanes}")
                table.rows.append((lanes, n * lanes, *row))
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


async def _warm(grading: Grading, mix: list[Work], device: str) -> None:
    """Let the lane's judge compile each problem's baselines."""
    for work in {work.problem.problem_id: work for work in mix if work.expected == "ACCEPTED"}.values():
        await grading.grade(work.problem, work.source, language=work.language, mode=wire.Mode.BENCHMARK, device=device)


async def _all(run: Run, grading: Grading, jobs: list[Work], lanes: int, device: str) -> int:
    """How many had the verdict that they should have."""
    free = asyncio.Semaphore(lanes * (1 + AHEAD))
    done = 0

    async def one(work: Work) -> bool:
        nonlocal done
        async with free:
            graded = await grading.grade(work.problem, work.source, language=work.language, mode=wire.Mode.BENCHMARK, device=device)
        done += 1
        run.say(f"{lanes} lane(s), {done} of {len(jobs)}: {work.name} {graded.verdict}, {graded.seconds:.1f} s")
        return graded.is_one_of((work.expected,))

    return sum(await asyncio.gather(*(one(work) for work in jobs)))
