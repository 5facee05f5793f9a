"""Grades many submissions on one lane, several under way at a time, so that some build while another is on the device."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from grader.errors import GraderError
from grader.model import Problem, Verdict
from sandbox.protocol import wire
from tests.harness.grading import BUILDER_COUNT, Graded, Grading, Sources
from tools.gpu.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """What is graded."""

    name: str
    problem: Problem
    sources: Sources
    language: str
    mode: wire.Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """What came of one. graded: None where the grader failed, and failure says how. seconds: of the lane, not of waiting for it."""

    graded: Graded | None
    seconds: float
    failure: str = ""

    @property
    def verdict(self) -> str:
        """For a table."""
        return "no verdict" if self.graded is None else self.graded.report.verdict.value

    @property
    def reason(self) -> str:
        """For a table; where it was accepted, the flags."""
        if self.graded is None:
            return self.failure
        return self.graded.report.reason or ", ".join(self.graded.report.flags)


class Lane:
    """One lane. It takes one at a time, so that what is between two ends is the later one's."""

    def __init__(self, run: Run, grading: Grading) -> None:
        self._run, self._grading = run, grading
        self._last_end = 0.0

    async def grade(self, one: Submitted) -> Came:
        """Grade, and go on where the grader itself failed."""
        begun = time.monotonic()
        graded, failure = None, ""
        try:
            graded = await self._grading.grade(
                one.problem, one.sources, language=one.language, mode=one.mode, device=self._run.choices.device
            )
        except GraderError as error:
            failure = f"{type(error).__name__}: {error}"
        end = time.monotonic()
        if graded is not None and graded.report.verdict is Verdict.COMPILE_ERROR:  # it was never on the lane
            return Came(graded=graded, seconds=end - begun)
        seconds, self._last_end = end - max(begun, self._last_end), end
        return Came(graded=graded, seconds=seconds, failure=failure)

    async def grade_all(
        self, submitted: Sequence[Submitted], came: Callable[[int, Came], Awaitable[None]], *, at_a_time: int = BUILDER_COUNT
    ) -> None:
        """Grade these in this order, and hand each on by its number, until the section's time is up."""
        free = asyncio.Semaphore(at_a_time)

        async def one(number: int) -> None:
            async with free:
                if not self._run.time_is_up:
                    await came(number, await self.grade(submitted[number]))

        async with asyncio.TaskGroup() as group:
            for number in range(len(submitted)):
                group.create_task(one(number))


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """Its name."""


Item = TypeVar("Item", bound=Named)


def chosen(items: Sequence[Item], run: Run) -> list[Item]:
    """This run's share of those with one of the wanted parts in their names."""
    part, count = run.choices.share
    wanted = [item for item in items if any(word in item.name for word in run.choices.kernels)]
    return wanted[part - 1 :: count]
