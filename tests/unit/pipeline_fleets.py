"""Attempts at fleets whose boxes and judges are fakes. The fixtures `make`, `judges` and `boxes` are in conftest.py."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

from grader.dispatch.local_fleet import LocalFleet
from grader.model import Lease
from sandbox.protocol import wire
from tests import fakes


def lease(name: str = "s1", *, workloads: tuple[wire.Workload, ...] = (), **fields: object) -> Lease:
    """A first attempt. fields: of the submission."""
    submission = replace(fakes.new_submission(), **fields)  # type: ignore[arg-type]
    problem = fakes.problem()
    problem = replace(problem, spec=replace(problem.spec, workloads=workloads or problem.spec.workloads))
    return fakes.lease(submission, problem, submission_id=name, attempt_count=1)


def workloads_of(*sizes: tuple[str, int, bool]) -> tuple[wire.Workload, ...]:
    """Workloads by name, size, and whether they are hidden."""
    return tuple(wire.Workload(workload_id=name, axes={"n": size}, hidden=hidden) for name, size, hidden in sizes)


async def graded(fleet: LocalFleet, wanted: Lease) -> list[wire.Fact]:
    async with asyncio.timeout(300), aclosing(fleet.grade(wanted)) as facts:  # type: ignore[type-var]
        return [fact async for fact in facts]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(300):
        while not condition():
            await asyncio.sleep(0.01)
