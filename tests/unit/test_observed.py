"""Reports of the fleet and its boxes about themselves."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

from grader.isolation import BoxSpec, IsolationBroken, Purpose, probe
from grader.isolation.select import ObservedIsolation
from grader.observability.observer import Observer
from tests import fakes

RUN = BoxSpec(box_id="b", purpose=Purpose.RUN, argv=("true",), limits=probe.LIMITS, slot=0)


class Boxes(Observer):
    """Keep what is reported of boxes."""

    def __init__(self):
        self.reports = []

    def box_started(self, purpose, duration_s, failed):
        assert duration_s >= 0
        self.reports.append((purpose, failed))


class NoBoxes(fakes.FakeBoxes):
    """An isolation whose engine is away."""

    @asynccontextmanager
    async def start(self, spec):
        raise IsolationBroken("no engine")
        yield


def observed(isolation):
    boxes, observing = Boxes(), ObservedIsolation(isolation)
    observing.observe(boxes)
    return observing, boxes


async def test_a_box_is_told_of_once_when_it_is_there():
    """While it is still open, and not again when it ends; before anybody observes, nothing breaks."""
    isolation, boxes = observed(fakes.FakeBoxes())
    async with isolation.start(RUN):
        assert boxes.reports == [("run", False)]
    assert boxes.reports == [("run", False)] and (isolation.NAME, isolation.SAFE) == ("fake", True)
    async with ObservedIsolation(fakes.FakeBoxes()).start(RUN):
        pass


async def test_a_box_that_could_not_be_had_is_told_of_as_failed():
    isolation, boxes = observed(NoBoxes())
    with pytest.raises(IsolationBroken, match="no engine"):
        async with isolation.start(RUN):
            pass
    assert boxes.reports == [("run", True)]


async def test_what_goes_wrong_in_a_box_is_no_failed_start():
    isolation, boxes = observed(fakes.FakeBoxes())
    with pytest.raises(ZeroDivisionError):
        async with isolation.start(RUN):
            raise ZeroDivisionError
    assert boxes.reports == [("run", False)]
