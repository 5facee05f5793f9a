"""Answers that are made once for all who ask."""

import asyncio
from itertools import count

import pytest

from grader_extensions.competitions.recent import LIMIT, Recent


@pytest.fixture
def make():
    numbers = count()

    async def make_value():
        await asyncio.sleep(0)
        return next(numbers)

    return make_value


async def test_all_who_ask_meanwhile_get_the_same_answer(make):
    """Also one that comes later, until it is cleared; who asks for another thing has another answer."""
    recent = Recent(3600)
    assert await asyncio.gather(*(recent.get(("a",), make) for _ in range(3))) == [0, 0, 0]
    assert (await recent.get(("b",), make), await recent.get(("a",), make)) == (1, 0)
    recent.clear()
    assert await recent.get(("a",), make) == 2


async def test_an_answer_is_good_for_its_time_only(make):
    recent = Recent(0)
    assert [await recent.get(("a",), make) for _ in range(3)] == [0, 1, 2]


async def test_an_answer_that_takes_longer_than_it_is_good_is_made_once(make):
    """And one that could not be made is made again for the next who asks."""
    recent, go = Recent(0.0), asyncio.Event()

    async def slow():
        await go.wait()
        raise OSError("no")

    tasks = [asyncio.create_task(recent.get(("a",), slow)) for _ in range(3)]
    await asyncio.sleep(0.01)
    assert len(recent._answers) == 1
    tasks.append(asyncio.create_task(recent.get(("a",), make)))
    await asyncio.sleep(0.01)
    go.set()
    assert [type(answer) for answer in await asyncio.gather(*tasks, return_exceptions=True)] == [OSError] * 4
    assert await recent.get(("a",), make) == 0


async def test_memory_is_bounded_by_the_newest_keys(make):
    """The oldest is made again; the newest is still there."""
    recent = Recent(3600)
    for key in range(LIMIT + 1):
        await recent.get((key,), make)
    assert (await recent.get((LIMIT,), make), await recent.get((0,), make)) == (LIMIT, LIMIT + 1)
    assert len(recent._answers) == LIMIT
