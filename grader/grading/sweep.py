"""Which sizes of a sweep each process gets, and when the sweep ends.  Runs nothing by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

from grader.grading.ports import Profile
from sandbox.protocol import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPart:
    """The sizes that one process gets, the seconds for the times of each, and the seconds after which none of them begins."""

    workloads: tuple[wire.Workload, ...]
    measure_s: float
    sweep_s: float


async def swept(
    workloads: tuple[wire.Workload, ...],
    measure_s: float | None,
    profile: Profile,
    judge: Callable[[SweepPart], AsyncGenerator[wire.Fact, None]],
) -> AsyncGenerator[wire.Fact, None]:
    """The facts of a sweep. The sizes that one process left, such as because one took it down, are run in a fresh one, within the sweep's
    time. judge: runs a part in a fresh process. measure_s: None: the profile's."""
    loop = asyncio.get_running_loop()
    left = tuple(one for one in workloads if not one.hidden)  # there is none in the problem of a sweep
    end_s = loop.time() + profile.sweep_s
    for _ in range(profile.sweep_process_count):
        begun, over = set[str](), False
        part = SweepPart(workloads=left, measure_s=measure_s or profile.sweep_measure_s, sweep_s=max(end_s - loop.time(), 0.0))
        async with aclosing(judge(part)) as facts:
            async for fact in facts:
                if isinstance(fact, wire.Plan):
                    begun |= set(fact.measured)
                over = over or isinstance(fact, wire.Violation)
                over = over or (isinstance(fact, wire.Load) and fact.outcome is not wire.LoadOutcome.LOADED)
                yield fact
        left = tuple(one for one in left if one.workload_id not in begun)
        if over or not left or not begun or loop.time() > end_s:
            return
