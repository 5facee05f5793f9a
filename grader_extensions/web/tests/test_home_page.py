"""The first page: competitions with their times, the queue, problems."""

from datetime import timedelta
from functools import partial

import pytest

from grader_extensions.web import views
from grader_extensions.web.tests.site import END, START, read_site
from tests import fakes


@pytest.fixture
def open_site(tmp_path):
    return partial(read_site, tmp_path)


@pytest.mark.parametrize(("now", "heading", "words"), [
    (START - timedelta(days=1, hours=2), "Upcoming competitions", 'begins <span data-until="2026-05-01T00:00:00+00:00">in 1 d 2 h</span>'),
    (START + timedelta(hours=1), "Running competitions", 'ends <span data-until="2026-05-03T00:00:00+00:00">in 1 d 23 h</span>'),
    (END - timedelta(minutes=30), "Running competitions", "in 30 min</span>"),
])  # fmt: skip
async def test_competitions_have_a_countdown_and_a_date(open_site, now, heading, words):
    """The date is there without a script; the countdown is of the time when the page was made."""
    async with open_site() as here:
        here.clock.now = now
        _, text = await here.get("/")
        assert heading in text and words in text and "Spring sprint" in text
        assert '<time datetime="2026-05-03T00:00:00+00:00">2026-05-03 00:00 UTC</time>' in text


async def test_a_competition_that_has_ended_is_in_the_list_only(open_site):
    """The first page links to the list of all."""
    async with open_site() as here:
        here.clock.now = END
        _, text = await here.get("/")
        assert "Spring sprint" not in text and "No competition is running." in text and 'href="/competitions"' in text
        assert "Spring sprint" in (await here.get("/competitions"))[1]


@pytest.mark.parametrize(("open_server", "headers", "shown"), [
    (True, {}, True), (False, {}, False), (True, {"X-Forwarded-For": "192.0.2.1"}, False), (True, {"Host": "grader.example"}, False),
])  # fmt: skip
async def test_the_queue_is_shown_to_those_who_may_list_it(open_site, open_server, headers, shown):
    """As the API lists submissions; to others not even how many there are."""
    async with open_site(open_server=open_server) as here:
        for _ in range(3):
            await here.ledger.submit(fakes.new_submission(user="ann"), fakes.problem())
        await here.ledger.lease("w", ttl_s=30)
        _, text = await here.get("/", **headers)
        assert ("Queue: 2 waiting, 1 running." in text) is shown and ("Queue" in text) is shown


async def test_problems_of_competitions_come_first(open_site):
    """In the order of the newest competition, and then by name."""
    async with open_site() as here:
        _, text = await here.get("/")
        assert text.index("/problems/sum") < text.index("/problems/other") and "All problems" in text


@pytest.mark.parametrize(("time", "words"), [
    (timedelta(seconds=-5), "0 min"), (timedelta(seconds=59), "0 min"),
    (timedelta(minutes=61), "1 h 1 min"), (timedelta(days=3, hours=5), "3 d 5 h"),
])  # fmt: skip
def test_a_remaining_time_is_rounded_down(time, words):
    """To the hour where it is days, else to the minute; never below none."""
    assert views.remaining(time) == words
