"""One grading of a section, which goes on where the grader itself failed."""

from __future__ import annotations

from grader.errors import GraderError
from grader.model import Problem
from sandbox.protocol import wire
from tests.harness.grading import Graded, Grading
from tools.gpu.run import Run


async def attempt(
    run: Run, grading: Grading, name: str, problem: Problem, source: str, language: str, mode: wire.Mode = wire.Mode.BENCHMARK
) -> Graded | None:
    """Grade; None where there is no verdict, which is a claim that fails."""
    try:
        return await grading.grade(problem, source, language=language, mode=mode, device=run.choices.device)
    except GraderError as failure:
        run.say(f"{name}: no verdict: {type(failure).__name__}: {failure}")
        run.claim(f"{name} gets a verdict", False, f"{type(failure).__name__}: {failure}")
        return None
