"""Grades every kernel of this directory once for the whole session, several at a time: a fleet has two lanes and builds beside them."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from grader.fleet.local import LocalFleet
from grader.isolation.select import ISOLATIONS
from grader.isolation.settings import BoxSettings
from grader.model import Lease, Report, Submission, SubmissionState
from grader.verdict import fold
from tests.honest.kernel_files import Kernel

REPEATS = int(os.environ.get("HONEST_REPEATS", "1"))
TRIALS = int(os.environ.get("HONEST_TRIALS", "0"))  # as many for each workload, where that is more than the problem asks for
LANE_COUNT = 2
MEASURE_S = 1.0


class Grading:
    """Grades kernels as a server does, with its own limits; only the time for measuring is short."""

    def __init__(self, fleet: LocalFleet) -> None:
        self._fleet = fleet
        self._room = asyncio.Semaphore(fleet.capacity)
        self._tasks: dict[str, asyncio.Task[list[Report]]] = {}

    def begin(self, kernels: list[Kernel]) -> None:
        """Grade all of these, in this order, while their tests wait for them one by one."""
        for kernel in kernels:
            if kernel.name not in self._tasks:
                self._tasks[kernel.name] = asyncio.create_task(self._repeat(kernel))

    async def reports(self, kernel: Kernel) -> list[Report]:
        """A report for every repetition."""
        self.begin([kernel])
        return await self._tasks[kernel.name]

    async def stop(self) -> None:
        """End what nobody waited for: a test that failed, or was not run."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _repeat(self, kernel: Kernel) -> list[Report]:
        return [await self._grade(kernel, number) for number in range(REPEATS)]

    async def _grade(self, kernel: Kernel, number: int) -> Report:
        problem = kernel.read_problem()
        problem = replace(problem, spec=replace(problem.spec, trial_count=max(TRIALS, problem.spec.trial_count)))
        submission = Submission(
            submission_id=f"honest{os.getpid()}n{number}{kernel.name.replace('_', '').replace('-', '')}",
            new=kernel.submission(problem.problem_id),
            problem_digest=problem.spec.digest,
            state=SubmissionState.RUNNING,
            create_time=datetime.now(UTC),
        )
        async with self._room:
            lease = Lease(submission=submission, problem=problem, attempt=1, worker_id="test")
            return fold([fact async for fact in self._fleet.grade(lease)], lease.ranking)


@pytest.fixture(scope="session")
def runtime_dir() -> Iterator[Path]:
    """A short directory that another uid may pass."""
    directory = Path(tempfile.mkdtemp(prefix="grader-honest-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def grading(runtime_dir: Path, request: pytest.FixtureRequest) -> AsyncIterator[Grading]:
    """Grade everything that was collected, with bubblewrap where it is, which is the quicker, and with Docker elsewhere."""
    name = os.environ.get("HONEST_ISOLATION") or ("bubblewrap" if shutil.which("bwrap") else "docker")
    settings = BoxSettings(state_id=f"honest{os.getpid()}{name}", runtime_dir=runtime_dir)
    isolation = ISOLATIONS[name](settings)
    found = await isolation.check()
    if not found.usable:
        await isolation.close()
        if os.environ.get(f"GRADER_REQUIRE_{name.upper()}") == "1":
            pytest.fail(found.detail)
        pytest.skip(found.detail)
    async with LocalFleet(isolation=isolation, settings=settings, lane_count=LANE_COUNT) as fleet:
        fleet.profile = replace(fleet.profile, measure_s=MEASURE_S)
        grading = Grading(fleet)
        asked = (getattr(item, "callspec", None) for item in request.session.items)
        grading.begin([one.params["kernel"] for one in asked if one and isinstance(one.params.get("kernel"), Kernel)])
        yield grading
        await grading.stop()
    await isolation.sweep()
    await isolation.close()
