"""The mode `profile` without a profiler: the report says how long the source is."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from grader.grading.attempt import Attempt, OpenRunBox
from grader.grading.pipeline import judged
from grader.model import Problem
from grader.v1 import submission_pb2
from grader.verdict.fold import fold
from sandbox.protocol import wire

__all__ = ["DISCLOSED", "fold", "plan", "run"]
DISCLOSED = {wire.KernelProfile: ("remarks",)}


def plan(submission: submission_pb2.Submission, problem: Problem, device_kinds: Sequence[str]) -> Problem:
    """Grade by the problem as it is."""
    return problem


async def run(attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge the kernel, then count its lines."""
    async with aclosing(judged(attempt, build, open_run_box)) as facts:
        async for fact in facts:
            yield fact
    count = sum(len(source.content.splitlines()) for source in attempt.submission.sources)
    yield wire.KernelProfile(tools=(), remarks=(f"{count} lines",))
