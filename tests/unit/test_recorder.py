"""Facts are written in their order, together where they come quickly, and never lost silently."""

import asyncio

import pytest

from grader.dispatch.dispatcher import WAITING_FACT_LIMIT, Recorder
from grader.errors import LeaseLost
from sandbox.protocol import wire

FACTS = [wire.Finished(job_id=str(index)) for index in range(500)]


class Disk:
    """A disk that takes batches, waits for `go`, and breaks at the batch with that number."""

    def __init__(self, breaks_at=None):
        self.batches, self.breaks_at = [], breaks_at
        self.go, self.called, self.written = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def __call__(self, facts):
        self.called.set()
        await self.go.wait()
        if len(self.batches) == self.breaks_at:
            raise LeaseLost("s", 1)
        self.batches.append(list(facts))
        self.written.set()


async def test_what_comes_meanwhile_goes_together():
    disk = Disk()
    async with Recorder(disk, lambda: 0.0) as recorder:
        await recorder.add(FACTS[0])
        await disk.called.wait()
        for fact in FACTS[1:30]:
            await recorder.add(fact)
        disk.go.set()
    assert disk.batches == [FACTS[:1], FACTS[1:30]]


async def test_facts_of_a_short_attempt_are_left_for_its_end():
    """They wait for others, and the end does not wait for the pause. The control, without a pause, writes them at once."""
    for pause_s, written in ((3600.0, []), (0.0, [FACTS[:1]])):
        disk = Disk()
        disk.go.set()
        async with Recorder(disk, lambda pause_s=pause_s: pause_s) as recorder:
            await recorder.add(FACTS[0])
            if written:
                await disk.called.wait()
            await recorder.add(FACTS[1])
            rest = await recorder.drain()
        assert (disk.batches, list(rest)) == (written, FACTS[len(written) : 2])


async def test_many_facts_do_not_wait_for_the_pause():
    disk = Disk()
    disk.go.set()
    async with Recorder(disk, lambda: 3600.0) as recorder:
        for fact in FACTS[:WAITING_FACT_LIMIT]:
            await recorder.add(fact)
        await disk.called.wait()
    assert disk.batches == [FACTS[:WAITING_FACT_LIMIT]]


async def test_a_slow_disk_holds_the_facts_up():
    """Memory is bounded: the one who adds waits."""
    disk = Disk()
    added = 0

    async def add():
        nonlocal added
        async with Recorder(disk, lambda: 0.0) as recorder:
            for fact in FACTS:
                await recorder.add(fact)
                added += 1

    adding = asyncio.create_task(add())
    for _ in range(10 * len(FACTS)):
        await asyncio.sleep(0)
    assert added <= WAITING_FACT_LIMIT + 1
    disk.go.set()
    await adding
    assert [fact for batch in disk.batches for fact in batch] == FACTS


@pytest.mark.parametrize("count", [1, 3, 300])
async def test_a_lost_lease_is_told(count):
    disk = Disk(breaks_at=0)
    disk.go.set()
    with pytest.raises(LeaseLost):
        async with Recorder(disk, lambda: 0.0) as recorder:
            for fact in FACTS[:count]:
                await recorder.add(fact)
                await asyncio.sleep(0)


async def test_after_a_fault_what_came_before_is_there():
    disk = Disk()
    disk.go.set()
    with pytest.raises(KeyError):
        async with Recorder(disk, lambda: 0.0) as recorder:
            for fact in FACTS[:3]:
                await recorder.add(fact)
            raise KeyError("broken")
    assert [fact for batch in disk.batches for fact in batch] == FACTS[:3]


async def test_a_cancelled_attempt_leaves_no_writing_behind():
    disk = Disk()

    async def attempt():
        async with Recorder(disk, lambda: 0.0) as recorder:
            await recorder.add(FACTS[0])
            await asyncio.Event().wait()

    running = asyncio.create_task(attempt())
    await asyncio.sleep(0.01)
    running.cancel()
    disk.go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert disk.batches == [FACTS[:1]]
    assert len(asyncio.all_tasks()) == 1


async def test_a_cancellation_while_the_last_facts_are_written_stays_one():
    """As anything else it would count as a fault of ours, and against the submission."""
    disk = Disk()

    async def attempt():
        async with Recorder(disk, lambda: 3600.0) as recorder:
            await recorder.add(FACTS[0])

    running = asyncio.create_task(attempt())
    await disk.called.wait()
    running.cancel()
    asyncio.get_running_loop().call_later(0.01, disk.go.set)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert disk.batches == [FACTS[:1]]


async def test_a_flush_waits_for_what_a_pause_began():
    """A write that has just ended begins a pause, which is over before the flush goes on."""
    disk = Disk()
    disk.go.set()
    async with Recorder(disk, lambda: 0.0) as recorder:
        await recorder.add(FACTS[0])
        await disk.written.wait()
        await recorder.add(FACTS[1])
        await recorder.flush()
        assert disk.batches == [FACTS[:1], FACTS[1:2]]
