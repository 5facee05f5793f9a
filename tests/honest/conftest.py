"""Grades the kernels of this directory by the grading service of the test run: on bubblewrap where it is, else on Docker."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace

import pytest

from tests.harness.client import GradingClient
from tests.harness.grading import Conditions, Graded
from tests.harness.messages import GradingRequest
from tests.honest.kernel_files import Kernel

REPEATS = int(os.environ.get("HONEST_REPEATS", "1"))
TRIALS = int(os.environ.get("HONEST_TRIALS", "0"))  # so many for each workload, where that is more than the problem asks for
MEASURE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestGrading:
    """Grades kernels as a server does, with its own limits; only the time for measuring is short."""

    isolation: str
    client: GradingClient

    def grade(self, kernel: Kernel) -> list[Graded]:
        """Grade a kernel as often as is asked for."""
        problem = kernel.read_problem()
        problem = replace(problem, spec=replace(problem.spec, trial_count=max(TRIALS, problem.spec.trial_count)))
        submission = kernel.submission(problem.problem_id)
        request = GradingRequest(
            isolation=self.isolation,
            problem=problem,
            sources=submission.sources,
            language=submission.language,
            mode=submission.mode,
            conditions=Conditions(measure_s=MEASURE_S),
        )
        return [self.client.grade(request) for _ in range(REPEATS)]


@pytest.fixture(scope="session")
def grading() -> HonestGrading:
    """The service, with the isolation of $HONEST_ISOLATION or the quickest one here."""
    isolation = os.environ.get("HONEST_ISOLATION") or ("bubblewrap" if shutil.which("bwrap") else "docker")
    return HonestGrading(isolation=isolation, client=GradingClient.of_this_run())
