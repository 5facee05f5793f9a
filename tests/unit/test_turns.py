"""Work that meets secrets and work that is shown take turns."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from grader.dispatch.local_fleet import Turns


class Work:
    """Tasks that hold a turn until they are told to leave it; `under_way` has the names of those that do."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns, self.under_way = Turns(lambda: self.now_s), list[str]()
        self._tasks: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    async def come(self, *names: str) -> None:
        for name in names:
            leaves = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._hold(name, leaves)), leaves
        await self.settle()

    async def leave(self, *names: str) -> None:
        for name in names:
            self._tasks[name][1].set()
        await self.settle()

    async def cancel(self, name: str) -> None:
        self._tasks[name][0].cancel()
        await self.settle()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    async def _hold(self, name: str, leaves: asyncio.Event) -> None:
        async with self._turn(name):
            await leaves.wait()

    @asynccontextmanager
    async def _turn(self, name: str):
        async with self.turns.take(secret=name.startswith("secret")):
            self.under_way.append(name)
            try:
                yield
            finally:
                self.under_way.remove(name)


@pytest.fixture
async def work():
    return Work()


async def test_work_of_one_kind_is_under_way_together_and_the_other_kind_waits(work):
    await work.come("secret 1", "secret 2", "build 1")
    assert work.under_way == ["secret 1", "secret 2"]
    await work.leave("secret 1")
    assert work.under_way == ["secret 2"]
    await work.leave("secret 2")
    assert work.under_way == ["build 1"]


async def test_neither_kind_is_kept_from_its_turn(work):
    """Work does not go before work that waits for longer; then all that wait of a kind go together."""
    await work.come("build 1", "secret 1", "build 2", "secret 2")
    assert work.under_way == ["build 1"]
    await work.leave("build 1")
    assert work.under_way == ["secret 1", "secret 2"]
    await work.leave("secret 1", "secret 2")
    assert work.under_way == ["build 2"]


async def test_one_that_gives_up_holds_nobody_off(work):
    await work.come("build 1", "secret 1", "build 2")
    await work.cancel("secret 1")
    assert work.under_way == ["build 1", "build 2"]
    await work.come("secret 2")
    await work.cancel("build 1")
    await work.cancel("build 2")
    assert work.under_way == ["secret 2"]


async def test_one_that_gives_up_in_the_moment_of_its_turn_leaves_it(work):
    await work.come("build 1", "secret 1")
    work._tasks["build 1"][1].set()
    work._tasks["secret 1"][0].cancel()
    await work.settle()
    await work.come("build 2")
    assert work.under_way == ["build 2"]


async def test_a_secret_turn_is_followed_by_as_much_time_for_the_others(work):
    """A slow kernel keeps no build and no run of others waiting twice. The control is the end of that time."""
    await work.come("secret 1", "build 1")
    work.now_s = 300.0
    await work.leave("secret 1")
    await work.come("secret 2", "build 2")
    assert work.under_way == ["build 1", "build 2"]
    work.now_s = 601.0
    await work.come("build 3")
    await work.leave("build 1", "build 2")
    assert work.under_way == ["secret 2"]


async def test_a_run_goes_before_secret_work_that_waited_for_its_build(work):
    """For a moment, since nobody knows whether there is a run."""
    await work.come("secret 1", "build 1")
    work.now_s = 300.0
    await work.leave("secret 1")
    await work.come("secret 2")
    await work.leave("build 1")
    assert work.under_way == []
    await work.come("run 1")
    assert work.under_way == ["run 1"]
    await work.leave("run 1")
    work.now_s += 2.0
    await work.come("secret 3")
    assert sorted(work.under_way) == ["secret 2", "secret 3"]
