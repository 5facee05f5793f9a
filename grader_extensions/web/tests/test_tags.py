"""Tags and lineage of a submission to a competition are shown to those who may read it."""

import aiohttp
import pytest

from grader.api import messages, stable_json
from grader.rules.disclosure import Redactor
from grader.v1 import grader_service_pb2 as api
from grader_extensions.web.tests.site import END, site
from grader_extensions.web.tests.test_access import VIEWERS

NOTE = "note4711"
LABELS = {"tags": ("tag4711",), "annotations": {"why": NOTE}}
OWNERS = {"owner", "administrator", "no keys"}


@pytest.fixture
async def ended(tmp_path):
    """A submission of ann with all of them, to a competition that everybody may read by now."""
    async with site(tmp_path, open_server=True, visibility="after_end") as here:
        parent_id = await here.enter("ann", 1.0)
        here.made = await here.enter("ann", 2.0, labels={**LABELS, "parent_id": parent_id})
        here.clock.now = END
        yield here


async def answers(here, viewer):
    """All that the API says to this viewer about the submission."""
    service = here.servicer(viewer)
    name, competition = f"submissions/{here.made}", "competitions/spring"
    events = service.WatchSubmission(api.WatchSubmissionRequest(name=name), None)
    return [
        await service.GetSubmission(api.GetSubmissionRequest(name=name, view="REPORT_VIEW_FULL"), None),
        await service.ListSubmissions(api.ListSubmissionsRequest(competition=competition), None),
        await service.GetLeaderboard(api.GetLeaderboardRequest(competition=competition), None),
        *[event async for event in events],
    ]


async def test_only_the_owner_and_administrators_see_them(ended):
    """Although everybody sees sources and report. The control: those who may see all three do."""
    for name, viewer in VIEWERS.items():
        got = await answers(ended, viewer)
        assert got[0].sources and got[0].report.verdict and got[1].submissions
        text = "\n".join(map(str, got))
        seen = {one for one in ("tag4711", "parent: ", NOTE) if one in text}
        assert seen == ({"tag4711", "parent: ", NOTE} if name in OWNERS else set()), name


async def test_a_board_and_events_never_have_them(ended):
    """For nobody: the board is everybody's."""
    for viewer in VIEWERS.values():
        assert "4711" not in "\n".join(map(str, (await answers(ended, viewer))[2:]))


async def test_others_do_not_learn_a_tag_by_asking_for_it(ended):
    """A list by tag has the caller's own, also where all submissions of the competition may be seen."""
    found = {}
    for name, viewer in VIEWERS.items():
        service = ended.servicer(viewer)
        for user in ("", "ann"):
            request = api.ListSubmissionsRequest(tag="tag4711", competition="competitions/spring", user=user)
            found[name, user] = len((await service.ListSubmissions(request, None)).submissions)
    assert {name for (name, _), count in found.items() if count} == OWNERS and set(found.values()) == {0, 1}


async def test_pages_do_not_show_them(ended):
    """Neither as text nor in the raw data, to anybody who can open a page."""
    async with aiohttp.ClientSession() as session:
        for path in (f"/submissions/{ended.made}", f"/submissions/{ended.made}/sources", "/competitions/spring"):
            async with session.get(ended.url(path)) as answer:
                assert answer.status == 200 and "4711" not in await answer.text()


async def test_what_is_not_asked_for_as_the_owners_does_not_have_them(ended):
    """The message of a submission leaves them out by default, so that a new caller of it shows nothing."""
    submission = await ended.ledger.get(ended.made)
    redactor = Redactor.for_problem(await ended.ledger.problem(submission.problem_digest))
    assert "4711" not in stable_json.to_text(stable_json.to_data(messages.submission_to_proto(submission, redactor, full=True)))
    assert "4711" in stable_json.to_text(stable_json.to_data(messages.submission_to_proto(submission, redactor, owned=True)))
