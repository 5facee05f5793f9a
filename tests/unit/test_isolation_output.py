"""Output of a box, and the times at which it came."""

import asyncio
import os
import time

from grader.isolation import BoxExit
from grader.isolation.supervision import OutputReader
from sandbox.protocol.wire import BoxCause


def test_what_came_by_a_time_is_cut_where_the_next_began() -> None:
    """A chunk that came at that time or later is not from before."""
    end = BoxExit(cause=BoxCause.KILLED, output=b"public hidden", arrivals=((0, 100), (7, 200)))
    assert [end.output_before(time_ns) for time_ns in (50, 100, 101, 200, 201)] == [b"", b"", b"public ", b"public ", b"public hidden"]
    assert BoxExit(cause=BoxCause.KILLED, output=b"all").output_before(0) == b"all"


async def test_the_reader_remembers_when_a_part_came() -> None:
    """To a millisecond, so that a box that writes byte by byte does not make a long list."""
    reading, writing = os.pipe()
    reader = OutputReader(reading, cap_bytes=1 << 20, on_full=lambda: None)
    os.write(writing, b"public ")
    await asyncio.sleep(0.02)
    since_ns = time.monotonic_ns()
    for letter in b"hidden":
        os.write(writing, bytes([letter]))
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)
    os.close(writing)
    reader.drain()
    end = BoxExit(cause=BoxCause.EXITED, output=reader.head, arrivals=tuple(reader.arrivals))
    assert (end.output, end.output_before(since_ns)) == (b"public hidden", b"public ")
    assert len(end.arrivals) <= 7
    os.close(reading)


async def test_a_reader_that_has_ended_does_not_stop_the_next_one_with_its_descriptor() -> None:
    """Once a box has hung up its descriptor is closed, and the next box's may get the same number before the first box is cleared away."""
    reading, writing = os.pipe()
    first = OutputReader(reading, cap_bytes=1 << 20, on_full=lambda: None)
    os.close(writing)
    async with asyncio.timeout(300):
        await first.ended.wait()
    os.close(reading)
    again, writing = os.pipe()
    assert again == reading
    second = OutputReader(again, cap_bytes=1 << 20, on_full=lambda: None)
    first.close()
    os.write(writing, b"heard")
    os.close(writing)
    async with asyncio.timeout(300):
        await second.ended.wait()
    assert second.head == b"heard"
    os.close(again)
