"""How many lanes there should be, and the follower that places and removes them, with neither a server nor Ray."""

from __future__ import annotations

import http.server
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.errors import SettingsInvalid
from grader.model import DeviceDemand
from grader.observability.metrics import Metrics
from grader.observability.observer import LaneNow, LaneState
from grader.worker import place
from grader.worker.lane_demand import KindDemand, LaneRange, LaneTarget, demand_of_kinds, lane_target
from grader.worker.lane_follower import FollowerBlocked, LaneFollower, MetricsReader, PlaceCommands, chosen_to_leave, queue_reading
from grader.worker.ray_placement import LaneCount, numbers

QUIET_S = 120.0
H200, H100, EMULATED = LaneRange.parsed("H200=1:8"), LaneRange.parsed("H100=0:4"), LaneRange.parsed("emulated=0:4")
MODEL = "cuda:NVIDIA H200"


def demand(device, queued, running=0):
    return DeviceDemand(device_kind=device, queued_count=queued, running_count=running)


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        ([], {}),
        ([demand(MODEL, 3, 2)], {"H200": (5, 3)}),
        ([demand("emulated", 2)], {"emulated": (2, 2)}),
        ([demand("cuda", 2)], {"H200": (2, 2), "H100": (0, 2)}),  # both could, the first does
        ([demand("cuda", 9, 1)], {"H200": (8, 9), "H100": (2, 9)}),  # what is more than its maximum goes to the next
        ([demand("any", 1), demand(MODEL, 8)], {"H200": (8, 9), "H100": (1, 1), "emulated": (0, 1)}),
        ([demand("other", 1)], {"H200": (1, 1), "H100": (0, 1), "emulated": (0, 1)}),
        ([demand("cuda:NVIDIA A100", 5)], {}),  # no lanes of this kind are followed
        ([demand("cuda:NVIDIA H100 80GB HBM3", 0, 3)], {"H100": (3, 0)}),
    ],
)
def test_demand_goes_to_kinds_that_fit(demands, expected):
    """What only one kind can grade goes first, and what several can goes to them in their order."""
    found = demand_of_kinds([H200, H100, EMULATED], demands)
    assert {kind: (one.lanes, one.waiting) for kind, one in found.items() if one != KindDemand()} == expected


@pytest.mark.parametrize(
    ("count", "lanes", "waiting", "quiet_for_s", "expected"),
    [
        (0, 0, 0, None, (1, False)),  # the minimum
        (1, 5, 4, None, (5, False)),  # up at once
        (1, 50, 50, None, (8, False)),  # the maximum
        (5, 5, 0, 500.0, (5, False)),  # enough, which ends the quiet
        (5, 2, 1, 500.0, (5, False)),  # something waits
        (5, 2, 0, None, (5, True)),  # quiet begins
        (5, 2, 0, 119.0, (5, True)),
        (5, 2, 0, 120.0, (4, True)),  # one, and the next after as long again
        (1, 0, 0, 500.0, (1, False)),
        (9, 0, 0, 500.0, (8, True)),  # placed by somebody else
    ],
)
def test_lanes_go_up_at_once_and_down_one_by_one(count, lanes, waiting, quiet_for_s, expected):
    """Between the minimum and the maximum."""
    now_s = 1000.0
    before = None if quiet_for_s is None else LaneTarget(count=count, quiet_since_s=now_s - quiet_for_s)
    found = lane_target(H200, count, KindDemand(lanes=lanes, waiting=waiting), before, now_s, QUIET_S)
    assert (found.count, found.quiet_since_s is not None) == expected
    if found.count < count:
        assert found.quiet_since_s == now_s


@given(
    minimum=st.integers(0, 5),
    more=st.integers(0, 5),
    start=st.integers(0, 12),
    steps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.floats(0, 300)), max_size=30),
)
def test_lanes_stay_within_bounds_and_none_goes_while_work_waits(minimum, more, start, steps):
    """Whatever the queue does; and between two that go there is a quiet time."""
    lane_range = LaneRange(kind="H200", minimum=minimum, maximum=minimum + more)
    count, target, now_s, last_s = start, None, 0.0, 0.0
    for queued, running, passed_s in steps:
        now_s += passed_s
        found = demand_of_kinds([lane_range], [demand(MODEL, queued, running)])["H200"]
        target = lane_target(lane_range, count, found, target, now_s, QUIET_S)
        assert min(minimum, count) <= target.count <= max(lane_range.maximum, count)
        assert target.count >= minimum and target.count >= count - 1
        if target.count < count:
            assert not queued and now_s - last_s >= QUIET_S
            last_s = now_s
        count = target.count


class FakePlacement:
    """Lanes without Ray. away: it does not answer."""

    def __init__(self):
        self.lanes, self.away, self.fails_to_remove, self.done = {}, False, False, []

    def _answer(self):
        if self.away:
            raise FollowerBlocked("no Ray cluster answers")

    async def running(self):
        self._answer()
        return dict(self.lanes)

    async def place(self, kind, count):
        self._answer()
        self.done.append((kind, count))
        wanted = LaneCount(kind=kind, count=count)
        self.lanes |= {f"grader-lane-{kind}-{number}": True for number in numbers(wanted, list(self.lanes))}

    async def remove(self, name):
        self._answer()
        self.done.append(name)
        if self.fails_to_remove:
            raise FollowerBlocked("it took too long")
        self.lanes.pop(name, None)


class Queue:
    """A server's metrics, and a clock."""

    def __init__(self):
        self.now_s, self.demands, self.lanes, self.away = 0.0, [], [], False

    def clock(self):
        return self.now_s

    async def read(self):
        if self.away:
            raise FollowerBlocked("the server does not answer")
        metrics = Metrics()
        metrics.set_device_demand(self.demands, ("emulated", "cuda", MODEL))
        metrics.set_lanes(self.lanes)
        return metrics.exposed().decode()


@pytest.fixture
def queue():
    return Queue()


@pytest.fixture
def placement():
    return FakePlacement()


@pytest.fixture
def follower(queue, placement):
    return LaneFollower([EMULATED], queue.read, placement, quiet_s=QUIET_S, clock=queue.clock)


async def test_lanes_follow_the_queue(follower, queue, placement):
    """Up with what waits; after it has been quiet the one that is idle leaves, and a gap is filled first."""
    queue.demands = [demand("emulated", 3)]
    await follower.step()
    assert placement.done == [("emulated", 3)] and len(placement.lanes) == 3
    states = {0: LaneState.TAKEN, 1: LaneState.FREE, 2: LaneState.TAKEN}
    queue.lanes = [LaneNow(name=f"node/emulated-{number}/emulated:0", state=state) for number, state in states.items()]
    queue.demands = [demand("emulated", 0, 2)]
    await follower.step()
    queue.now_s += QUIET_S - 1
    await follower.step()
    assert len(placement.lanes) == 3
    queue.now_s += 1
    await follower.step()
    await follower.step()
    assert set(placement.lanes) == {"grader-lane-emulated-0", "grader-lane-emulated-2"}
    queue.demands = [demand("emulated", 1, 2)]
    await follower.step()
    assert set(placement.lanes) == {f"grader-lane-emulated-{number}" for number in range(3)}


@pytest.mark.parametrize("who", ["queue", "placement"])
async def test_lanes_stay_while_something_does_not_answer(who, request, follower, queue, placement):
    """And it has to be quiet again for the whole time afterwards."""
    queue.demands = [demand("emulated", 2)]
    await follower.step()
    queue.demands = []
    await follower.step()
    broken = request.getfixturevalue(who)
    broken.away = True
    queue.now_s += QUIET_S
    await follower.step()
    broken.away = False
    await follower.step()
    queue.now_s += QUIET_S - 1
    await follower.step()
    assert len(placement.lanes) == 2
    queue.now_s += 1
    await follower.step()
    assert len(placement.lanes) == 1


async def test_a_lane_that_could_not_be_removed_is_removed_first(follower, queue, placement):
    """It may have drained: nobody would grade there."""
    queue.demands = [demand("emulated", 1)]
    await follower.step()
    queue.demands, placement.fails_to_remove = [], True
    await follower.step()
    queue.now_s += QUIET_S
    await follower.step()
    assert len(placement.lanes) == 1
    queue.demands, placement.fails_to_remove = [demand("emulated", 2)], False
    await follower.step()
    assert placement.done[-2:] == ["grader-lane-emulated-0", ("emulated", 2)]


def test_who_waits_for_a_node_leaves_first():
    """Then who has nothing to do, then the highest number."""
    placed = {f"grader-lane-H200-{number}": True for number in (0, 9, 10)}
    idle = ["a/h200-0/cuda:3", "b/h200-1/cuda:0"]
    assert chosen_to_leave(placed, []) == "grader-lane-H200-10"
    assert chosen_to_leave(placed, idle) == "grader-lane-H200-0"
    assert chosen_to_leave(placed | {"grader-lane-H200-3": False}, idle) == "grader-lane-H200-3"


@pytest.mark.parametrize("text", ["", "<html>", "grader_queue_depth 3", 'grader_device_submissions{device="any",state="queued"} 1', "a{ 1"])
def test_what_is_no_such_page_of_metrics_blocks(text):
    """An older server, a proxy's page, a part of a page."""
    with pytest.raises(FollowerBlocked):
        queue_reading(text)


@pytest.fixture
def page():
    """A web server, its address, and what it answers."""
    answer = {"status": 200, "content": b"metrics"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(answer["content"])

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/metrics", answer
        server.shutdown()


async def test_metrics_come_over_http(page):
    """An error and what is no text block, as a port that nobody listens at does."""
    address, answer = page
    assert await MetricsReader(address)() == "metrics"
    for change in ({"content": b"\xff"}, {"status": 503}):
        answer.update(change)
        with pytest.raises(FollowerBlocked):
            await MetricsReader(address)()
    with pytest.raises(FollowerBlocked):
        await MetricsReader("http://127.0.0.1:1/metrics")()


async def test_a_command_that_fails_blocks_with_its_last_words():
    """Here: no server is named, which is found before Ray is asked."""
    with pytest.raises(FollowerBlocked, match=r"ended with 2: .*name the lanes and the server"):
        await PlaceCommands("nowhere", [], []).place("emulated", 1)


@pytest.mark.parametrize("text", ["H200", "H200=4", "=1:2", "H200=2:1", "H200=0:0", "H200=a:2", "H200=0:9999", "H200=-1:2"])
def test_a_range_that_is_none_is_refused(text, capsys):
    """Before anybody is asked."""
    with pytest.raises(SettingsInvalid):
        LaneRange.parsed(text)
    assert place.main(["--follow", "http://h/metrics", "--lanes", text, "--join", "h:1"]) == 2 and "MIN:MAX" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--follow", "ftp://h/metrics", "--lanes", "H200=0:1"],
        ["--follow", "http://[", "--lanes", "H200=0:1"],
        ["--follow", "http://h", "--lanes", "H200=0:1", "H200=0:2"],
        ["--follow", "http://h", "--lanes", "H200=0:1", "--poll-s", "0"],
        ["--follow", "http://h"],
        ["--follow", "http://h", "--lanes", "H200=0:1", "--builders", "2"],
        ["--builders", "-1"],
    ],
)
def test_settings_of_the_follower_that_make_no_sense_are_refused(words):
    """With the exit code of a wrong command line."""
    assert place.main([*words, "--join", "h:1"]) == 2


def test_to_place_fills_gaps_and_keeps_what_there_is():
    """COUNT is how many there are afterwards, unless there are more."""
    existing = ["grader-lane-H200-1", "grader-lane-H200-x", "grader-lane-H100-0", "grader-lane-A100-40G-2"]
    assert numbers(LaneCount(kind="H200", count=3), existing) == [0, 1, 2]
    assert numbers(LaneCount(kind="A100-40G", count=2), existing) == [0, 2]
    assert numbers(LaneCount(kind="H100", count=1), [*existing, "grader-lane-H100-7"]) == [0, 7]
