"""How often the queue is read for those who want to know where they are in it."""

import asyncio

from grader.ledger.queue import Snapshot
from grader.model import Position
from grader.server.submission_watch import REST_MOST_S, Positions, differs


class Queue:
    """A ledger that has nothing but a queue, which takes took_s to read."""

    def __init__(self, took_s=0.01, waiting=("a", "b")):
        self.took_s, self.waiting, self.read_count = took_s, list(waiting), 0

    async def queue(self):
        self.read_count += 1
        waiting = tuple((submission_id, "test", "") for submission_id in self.waiting)
        await asyncio.sleep(self.took_s)
        return Snapshot(waiting=waiting, running=(), recent=(("test", "", 2.0),))


async def test_a_thousand_watches_read_the_queue_once():
    """And each is told its own place. Once more where the machine stands still for as long as an answer is good."""
    queue = Queue(waiting=[str(number) for number in range(1000)])
    shared = Positions(queue, lane_count=lambda: 1)
    positions = await asyncio.gather(*(shared.cached(str(number)) for number in range(1000)))
    assert [position.ahead_count for position in positions] == list(range(1000)) and queue.read_count <= 2


async def test_the_queue_is_read_a_share_of_the_time_only():
    """A thousand questions within less time than it rests: one answer for all; what came since is not known yet."""
    queue = Queue(took_s=0.2)
    positions = Positions(queue, lane_count=lambda: 1)
    assert (await positions.position("b")).ahead_count == 1
    queue.waiting.append("c")
    assert {await positions.position("c") for _ in range(1000)} == {None} and queue.read_count == 1


async def test_who_is_patient_is_told_of_what_just_came():
    """As soon as the queue may be read again, if that is within its patience."""
    queue = Queue(took_s=0.002)
    positions = Positions(queue, lane_count=lambda: 1)
    await positions.position("b")
    queue.waiting.append("c")
    assert (await positions.position("c", patience_s=REST_MOST_S)).ahead_count == 2


async def test_who_is_not_patient_does_not_wait_for_another_reader():
    """A submission is answered at once while the queue is read for one before it; who is patient waits."""
    queue = Queue(took_s=60.0)
    positions = Positions(queue, lane_count=lambda: 1)
    reader, patient = (asyncio.create_task(positions.position("a", patience_s=patience_s)) for patience_s in (0.0, 1.0))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        assert await positions.position("b") is None and queue.read_count == 1
    assert not reader.done() and not patient.done()
    reader.cancel()
    patient.cancel()


def test_a_small_change_of_an_estimate_is_no_news():
    here = Position(ahead_count=2, estimated_s=100.0)
    assert not differs(Position(ahead_count=2, estimated_s=120.0), here)
    news = [Position(ahead_count=count, estimated_s=seconds) for count, seconds in ((1, 100.0), (2, 70.0), (2, None))]
    assert all(differs(position, here) for position in news) and differs(here, None)
