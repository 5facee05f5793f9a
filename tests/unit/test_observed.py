"""What the fleet and its boxes tell of themselves."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from grader import devices
from grader.dispatch.gpus import Gpu
from grader.dispatch.lanes import DeviceLane, Lanes
from grader.isolation import BoxSpec, GpuAccess, IsolationBroken, Limits, Purpose
from grader.isolation.select import ObservedIsolation
from grader.observability.observer import LaneState, Observer, Observers
from tests import fakes

LIMITS = Limits(wall_s=1, cpu_s=1, memory_bytes=1, process_count=1, output_bytes=1, file_bytes=1, tmp_bytes=1, open_file_count=1)
RUN = BoxSpec(box_id="b", purpose=Purpose.RUN, argv=("true",), limits=LIMITS, slot=0)


class Boxes(Observer):
    """Keeps what it is told of boxes."""

    def __init__(self):
        self.told = []

    def box_started(self, purpose, duration_s, failed):
        assert duration_s >= 0
        self.told.append((purpose, failed))


class NoBoxes(fakes.FakeBoxes):
    """An isolation whose engine is away."""

    @asynccontextmanager
    async def start(self, spec):
        raise IsolationBroken("no engine")
        yield


@pytest.fixture
def boxes():
    return Boxes()


def observed(isolation, boxes):
    made = ObservedIsolation(isolation)
    made.observe(boxes)
    return made


async def test_a_box_is_told_of_once_when_it_is_there(boxes):
    """While it is still open, and not again when it ends; before anybody observes, nothing breaks."""
    isolation = observed(fakes.FakeBoxes(), boxes)
    async with isolation.start(RUN):
        assert boxes.told == [("run", False)]
    assert boxes.told == [("run", False)] and (isolation.NAME, isolation.SAFE) == ("fake", True)
    async with ObservedIsolation(fakes.FakeBoxes()).start(RUN):
        pass


async def test_a_box_that_could_not_be_had_is_told_of_as_failed(boxes):
    """The exception is what it was."""
    with pytest.raises(IsolationBroken, match="no engine"):
        async with observed(NoBoxes(), boxes).start(RUN):
            pass
    assert boxes.told == [("run", True)]


async def test_what_goes_wrong_in_a_box_is_no_failed_start(boxes):
    """It was there."""
    with pytest.raises(ZeroDivisionError):
        async with observed(fakes.FakeBoxes(), boxes).start(RUN):
            raise ZeroDivisionError
    assert boxes.told == [("run", False)]


def test_several_observers_are_all_told(boxes):
    """Metrics and traces, side by side."""
    Observers([Observer(), boxes, boxes]).box_started("build", 1.0, failed=True)
    assert boxes.told == [("build", True)] * 2


def access(gpu: Gpu) -> GpuAccess:
    return GpuAccess(index=gpu.index, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor, triton_dir=Path("/none"))


def test_lanes_have_names_that_stay_and_say_what_they_do(tmp_path):
    """A GPU by its index, emulated ones in their order; every status has its state."""
    judges = fakes.Judges(tmp_path)
    made = [DeviceLane(devices.EMULATED, judges("emulated", None, None)) for _ in range(2)]
    made += [DeviceLane(devices.CUDA, judges("cuda", access(fakes.gpu(3)), None), access(fakes.gpu(3)))]
    lanes = Lanes(made, devices.CUDA)
    assert [lane.name for lane in lanes.now] == ["emulated:0", "emulated:1", "cuda:3"]
    for status in (LaneState.FREE, LaneState.TAKEN, LaneState.CHECKING, LaneState.QUARANTINED):
        made[2].status = status
        assert lanes.now[2].state == status
