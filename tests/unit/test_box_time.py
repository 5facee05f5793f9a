"""A box's wall time: from its start, or from when it is given its job."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from grader.isolation import BoxSpec, Purpose
from grader.isolation.supervision import SupervisedBox
from sandbox.protocol.wire import BoxCause
from tests import fakes


class Nothing(SupervisedBox):
    """A box without processes, which ends only at a limit."""

    def __init__(self, wall_s: float) -> None:
        spec = BoxSpec(box_id="b", purpose=Purpose.RUN, argv=(), limits=replace(fakes.LIMITS, wall_s=wall_s), slot=0)
        super().__init__(spec, 1, watch_memory=False)

    async def start(self) -> None:
        self.begin(self._wall_s)

    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return ()

    def _members(self) -> set[int]:
        return set()

    async def _stop(self) -> None:
        pass

    async def _settle(self) -> int | None:
        return None

    async def _clear(self) -> None:
        pass


async def supervised(box: Nothing) -> asyncio.Task[None]:
    await box.start()
    return asyncio.create_task(box.supervise())


async def test_the_time_of_a_box_ends_it() -> None:
    """The control."""
    box = Nothing(0.01)
    task = await supervised(box)
    assert (await asyncio.wait_for(box.wait(), 300)).cause is BoxCause.WALL_LIMIT
    await task


async def test_a_box_that_waited_has_all_of_its_time() -> None:
    """Also where the job came before it was watched; its limit comes with the job, and counts from there."""
    box = Nothing(0.01)
    await box.start()
    box.begin(60.0)
    task = asyncio.create_task(box.supervise())
    await asyncio.sleep(0.1)
    assert box._cause is None
    waited_ns = box._begin_ns
    box.begin(0.01)
    end = await asyncio.wait_for(box.wait(), 300)
    assert end.cause is BoxCause.WALL_LIMIT and box._begin_ns > waited_ns
    await task


async def test_a_time_that_comes_later_may_be_shorter() -> None:
    box = Nothing(60.0)
    task = await supervised(box)
    await asyncio.sleep(0)
    box.begin(0.01)
    assert (await asyncio.wait_for(box.wait(), 300)).cause is BoxCause.WALL_LIMIT
    await task
