"""What a box printed, and when it came: nothing that is printed once hidden workloads are run is shown."""

import asyncio
import os
import time

from grader.grading.pipeline import LEFT_OUT, run_end
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
    async with asyncio.timeout(60):
        await first.ended.wait()
    os.close(reading)
    again, writing = os.pipe()
    assert again == reading
    second = OutputReader(again, cap_bytes=1 << 20, on_full=lambda: None)
    first.close()
    os.write(writing, b"heard")
    os.close(writing)
    async with asyncio.timeout(60):
        await second.ended.wait()
    assert second.head == b"heard"
    os.close(again)


def test_the_report_says_that_something_is_left_out() -> None:
    """Where nothing came later, and where nothing is hidden, all is shown and nothing is said."""
    end = BoxExit(cause=BoxCause.KILLED, output=b"n is 1000\nn is 1537\n", arrivals=((0, 100), (10, 200)))
    assert run_end(end, 150).output == f"n is 1000\n{LEFT_OUT}"
    assert run_end(end, 250).output == run_end(end, None).output == "n is 1000\nn is 1537\n"
