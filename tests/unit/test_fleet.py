"""Whose turn it is on a device."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from grader.errors import NoSuchDevice
from grader.fleet.judge_process import JudgeProcess
from grader.fleet.local import LocalFleet
from grader.isolation.process import ProcessIsolation
from grader.isolation.settings import BoxSettings
from sandbox import wire

HERE = wire.Environment(device="d", device_kind="emulated", clock=wire.Clock.HOST)


class IdleJudge(JudgeProcess):
    """A judge that is never started."""

    async def environment(self) -> wire.Environment:
        return HERE


@pytest_asyncio.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[LocalFleet]:
    """Two lanes whose judges need not be started."""
    settings = BoxSettings(state_id="fleet", runtime_dir=tmp_path)
    async with LocalFleet(isolation=ProcessIsolation(settings), settings=settings, lane_count=2, make_judge=IdleJudge) as made:
        yield made


async def test_as_many_jobs_as_lanes_are_on_the_device(fleet: LocalFleet) -> None:
    """Two go at once, on judges of their own; the third waits for its turn."""
    async with fleet.lane("emulated") as first:
        assert fleet.idle("")
        async with fleet.lane("") as second:
            assert first is not second and not fleet.idle("emulated")
            third = asyncio.ensure_future(fleet.lane("emulated").__aenter__())
            await asyncio.sleep(0)
            assert not third.done()
        await asyncio.wait_for(third, 1)


async def test_a_device_that_is_not_here_is_named(fleet: LocalFleet) -> None:
    """And so are those that are."""
    with pytest.raises(NoSuchDevice) as refused:
        async with fleet.lane("cuda"):
            pass
    assert refused.value.available == ("emulated",)
