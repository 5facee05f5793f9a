"""The kernel that a host grades before it takes submissions, on lanes that are fakes."""

import pytest

from grader.dispatch.host_breaker import grade_own
from grader.errors import DeviceQuarantined, SandboxBroken
from grader.observability.observer import LaneNow, LaneState
from sandbox.protocol import wire
from tests import fakes

MISSING = "the builder failed: ModuleNotFoundError: No module named 'tree_sitter'"


class Host:
    """Lanes by name; broken: those on which the builder lacks a package, wrong: those whose answers are."""

    def __init__(self, *names, broken=(), wrong=(), states=None):
        self.names, self.broken, self.wrong, self.states = names, broken, wrong, states or {}
        self.graded, self.quarantined = [], []
        self._grade = fakes.FakeGrade()

    def lanes(self):
        return [LaneNow(name=name, state=self.states.get(name, LaneState.FREE)) for name in self.names]

    async def quarantine(self, name, illness):
        self.quarantined.append((name, illness))

    async def grade(self, lease):
        name = lease.submission.new.device_kind
        self.graded.append(name)
        if name in self.broken:
            raise SandboxBroken(MISSING)
        async for fact in self._grade(lease):
            if name in self.wrong and isinstance(fact, wire.Trial):
                fact = fakes.trial(fact.workload_id, outcome=wire.TrialOutcome.MISMATCHED)
            yield fact


async def test_it_is_graded_on_every_lane():
    """Each GPU by its name; of emulated lanes, which are alike, as many times as there are."""
    host = Host("cuda:0", "cuda:1", "emulated:0", "emulated:1")
    assert await grade_own(host) == "" and host.quarantined == []
    assert sorted(host.graded) == ["cuda:0", "cuda:1", "emulated", "emulated"]


@pytest.mark.parametrize("faults", [{"broken": ("emulated",)}, {"wrong": ("emulated",)}])
async def test_where_it_fails_on_every_lane_the_host_says_why(faults):
    fault = await grade_own(Host("emulated:0", "emulated:1", **faults))
    assert fault.startswith("a kernel of the grader's own can't be graded on emulated:0: ")
    assert MISSING in fault if "broken" in faults else "WRONG_ANSWER" in fault


async def test_a_gpu_on_which_alone_it_fails_is_quarantined_and_the_others_go_on():
    host = Host("cuda:0", "cuda:1", broken=("cuda:1",))
    assert await grade_own(host) == ""
    assert [name for name, _ in host.quarantined] == ["cuda:1"] and MISSING in host.quarantined[0][1]


async def test_a_lane_that_is_out_of_service_is_left_alone():
    """Also a lane that goes out of service meanwhile."""

    class Going(Host):
        async def grade(self, lease):
            raise DeviceQuarantined("GPU 0 does not come back: the canary is unwell; restart the host or the driver, then the server")
            yield

    host = Host("cuda:0", "cuda:1", states={"cuda:0": LaneState.QUARANTINED, "cuda:1": LaneState.CORDONED})
    assert await grade_own(host) == "" and host.graded == []
    assert await grade_own(Going("cuda:0")) == ""
