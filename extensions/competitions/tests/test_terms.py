"""The window in which a competition takes submissions, whatever database is under it; and what it opens afterwards."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from extensions.competitions.model import Competition
from extensions.competitions.store import Competitions, check_admission, for_competition
from grader.errors import CompetitionClosed
from grader.problems.store import Problems
from grader.rules.quotas import AdmissionPolicy
from tests import fakes
from tests.clock import Clock
from tests.server.competition_files import NOW, toml

START = datetime(2026, 5, 1, 16, tzinfo=UTC)
COMPETITION = Competition(
    competition_id="spring", title="Spring", problem_ids=("sum",), start_time=START, end_time=START + timedelta(days=2), hourly_limit=2
)
POLICY = AdmissionPolicy(admit=partial(check_admission, COMPETITION), quotas=for_competition(COMPETITION))


@pytest.fixture
def clock():
    return Clock(START)


async def submit(ledger, **options):
    new = replace(fakes.new_submission(user="a"), competition_id="spring")
    return await ledger.submit(new, fakes.problem(), policy=POLICY, **options)


@pytest.mark.parametrize(("seconds", "phase"), [(-1, "upcoming"), (0, None), (2 * 86400 - 0.001, None), (2 * 86400, "ended")])
async def test_the_window_opens_and_closes_to_the_moment(ledger, clock, seconds, phase):
    """The start is in it, the end is not; the time that decides is the one that is kept."""
    clock.pass_s(seconds)
    if phase is None:
        assert (await submit(ledger)).create_time == clock.now
    else:
        with pytest.raises(CompetitionClosed) as caught:
            await submit(ledger)
        assert caught.value.phase == phase and caught.value.time.endswith("16:00:00 UTC")


async def test_what_came_in_time_is_graded_after_the_end(ledger, clock):
    """And a retry of its call finds it."""
    clock.pass_s(2 * 86400 - 1)
    made = await submit(ledger, request_id="r1")
    clock.pass_s(3600)
    assert (await submit(ledger, request_id="r1")).submission_id == made.submission_id
    held = await ledger.lease("w", ttl_s=30)
    assert (await ledger.settle(held, fakes.report())).submission_id == made.submission_id


def test_what_has_ended_is_open_to_readers_where_its_file_says_so(place):
    """From the very end on, and not before; and its sources are kept as long after its end as those of others."""
    fakes.write_problem(place / "problems", "sum")
    for name, end_h, visibility in (("over", 1, "after_end"), ("running", 2, "after_end"), ("private", 1, "private")):
        (place / name).mkdir()
        (place / name / "competition.toml").write_text(toml(name, -1, end_h, f'visibility = "{visibility}"\n'))
    competitions = Competitions.load([place], Problems.load([place / "problems"]))
    end, moment = NOW + timedelta(hours=1), timedelta(microseconds=1)
    assert competitions.readable(end) == {"over"} and not competitions.readable(end - moment)
    assert competitions.ended(end + moment) == ("over", "private") and not competitions.ended(end)
