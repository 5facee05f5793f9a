"""Visibility of a submission, asked of the pages and of the API: both give the same answer to the same viewer."""

import contextlib

import aiohttp
import pytest
import sqlalchemy as sa

from grader import errors
from grader.access import ANYBODY
from grader.api import conversion, messages
from grader.ledger.tables import submissions
from grader.model import Caller, Scope
from grader.rules.disclosure import Redactor
from grader.v1 import grader_service_pb2 as api
from grader_extensions.web.tests.signed_in import key_of, reader
from grader_extensions.web.tests.site import END, START, site

USUAL = frozenset({Scope.SUBMIT, Scope.READ})
VIEWERS = {
    "anonymous": ANYBODY,
    "owner": Caller(user="ann", scopes=USUAL, key_id="ann"),
    "other": Caller(user="bob", scopes=USUAL, key_id="bob"),
    "administrator": Caller(user="root", key_id="root"),
    "no keys": Caller(),
}
EVERYBODY, OWNERS_ALONE, ADMINISTRATORS = set(VIEWERS), {"owner", "administrator", "no keys"}, {"administrator", "no keys"}
# What was made, whether the competition has ended, who sees it.
TABLE = [
    ("submission", False, OWNERS_ALONE),
    ("submission", True, EVERYBODY),
    ("of no competition", False, OWNERS_ALONE),
    ("of no competition", True, OWNERS_ALONE),
    ("of no user", False, ADMINISTRATORS),
    ("rejudge run", False, ADMINISTRATORS),
    ("rejudge run", True, ADMINISTRATORS),
    ("rejudge run of no competition", True, ADMINISTRATORS),
]


@contextlib.asynccontextmanager
async def entered_site(place, kind, ended, *, viewer="anonymous", visibility="after_end"):
    """A site with one such submission, before or after the competition's end, and its pages as this viewer opens them."""
    async with site(place, open_server=viewer == "no keys", visibility=visibility) as here, reader(here.url()) as browser:
        user = "" if kind == "of no user" else "ann"
        here.submission_id = await here.enter(user, 2.0, competition_id="" if kind.endswith(("competition", "user")) else "spring")
        if kind.startswith("rejudge run"):
            await mark(here, "rejudge")
        here.clock.now = END if ended else START
        here.browser, here.get = browser, lambda path: status(browser, path)
        if VIEWERS[viewer].user:
            await browser.sign_in(await key_of(here.ledger, VIEWERS[viewer].user, VIEWERS[viewer].scopes))
        yield here


async def mark(here, rejudge_id):
    """Make it a run of this rejudge; None: a submission of its user."""
    change = sa.update(submissions).values(rejudge_id=rejudge_id)
    await here.ledger.database.write(lambda connection: connection.execute(change))


async def status(browser, path):
    return (await browser.get(path))[0].status


async def api_shows(here, viewer):
    """Return whether GetSubmission and WatchSubmission answer this viewer; they agree."""
    service = here.servicer(viewer)
    name, shown = f"submissions/{here.submission_id}", []
    for ask in (lambda: service.GetSubmission(api.GetSubmissionRequest(name=name), None), lambda: watched(service, name)):
        try:
            await ask()
            shown.append(True)
        except errors.SubmissionNotFound:
            shown.append(False)
    assert len(set(shown)) == 1
    return shown[0]


async def watched(service, name):
    return [event async for event in service.WatchSubmission(api.WatchSubmissionRequest(name=name), None)]


@pytest.mark.parametrize(("kind", "ended", "seen_by"), TABLE)
async def test_each_kind_of_viewer_sees_the_same_by_the_api(tmp_path, kind, ended, seen_by):
    """The table of who sees what."""
    async with entered_site(tmp_path, kind, ended) as here:
        assert {name for name, viewer in VIEWERS.items() if await api_shows(here, viewer)} == seen_by


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize(("kind", "ended", "seen_by"), TABLE)
async def test_each_kind_of_viewer_sees_the_same_by_the_pages(tmp_path, kind, ended, seen_by, viewer):
    """The same table, for those who have signed in and those who have not: report, sources and stream, and boards link to what is there.
    Else it is the page of an id that does not exist."""
    async with entered_site(tmp_path, kind, ended, viewer=viewer) as here:
        pages = [await here.browser.get(f"/submissions/{here.submission_id}{path}") for path in ("", "/sources", "/events")]
        assert [answer.status for answer, _ in pages] == [200 if viewer in seen_by else 404] * 3
        _, absent = await here.browser.get("/submissions/0000000000000000")
        assert viewer in seen_by or {text for _, text in pages} == {absent}
        _, board = await here.browser.get("/competitions/spring?problem=sum")
        assert (here.submission_id in board) is (kind == "submission" and viewer in seen_by)


@pytest.mark.parametrize("viewer", VIEWERS)
async def test_what_a_private_competition_has_stays_its_owners(tmp_path, viewer):
    """After the end too."""
    async with entered_site(tmp_path, "submission", True, viewer=viewer, visibility="private") as here:
        assert {name for name, caller in VIEWERS.items() if await api_shows(here, caller)} == OWNERS_ALONE
        assert await here.get(f"/submissions/{here.submission_id}") == (200 if viewer in OWNERS_ALONE else 404)


async def test_a_run_is_hidden_for_being_a_run(tmp_path):
    """The control: the same row without the rejudge's id is shown to everybody, by the pages and by the API."""
    async with entered_site(tmp_path, "rejudge run", True) as here:
        assert (await here.get(f"/submissions/{here.submission_id}"), await api_shows(here, ANYBODY)) == (404, False)
        await mark(here, None)
        assert (await here.get(f"/submissions/{here.submission_id}"), await api_shows(here, ANYBODY)) == (200, True)


NOTE = "note4711"
LABELS = {"tags": ("tag4711",), "annotations": {"why": NOTE}}
OWNERS = {"owner", "administrator", "no keys"}


@pytest.fixture
async def tagged(tmp_path):
    """A submission of ann with all of them, to a competition that everybody may read by now."""
    async with site(tmp_path, open_server=True, visibility="after_end") as here:
        parent_id = await here.enter("ann", 1.0)
        here.submission_id = await here.enter("ann", 2.0, labels={**LABELS, "parent_id": parent_id})
        here.clock.now = END
        yield here


async def answers(here, viewer):
    """All that the API says to this viewer about the submission."""
    service = here.servicer(viewer)
    name, competition = f"submissions/{here.submission_id}", "competitions/spring"
    events = service.WatchSubmission(api.WatchSubmissionRequest(name=name), None)
    return [
        await service.GetSubmission(api.GetSubmissionRequest(name=name, view="REPORT_VIEW_FULL"), None),
        await service.ListSubmissions(api.ListSubmissionsRequest(competition=competition), None),
        await service.GetLeaderboard(api.GetLeaderboardRequest(competition=competition), None),
        *[event async for event in events],
    ]


async def test_only_the_owner_and_administrators_see_them(tagged):
    """Although everybody sees sources and report; on the board and in events nobody does. The control: those who may see all three do."""
    for name, viewer in VIEWERS.items():
        got = await answers(tagged, viewer)
        assert got[0].sources and got[0].report.verdict and got[1].submissions
        text = "\n".join(map(str, got))
        shown = {text_part for text_part in ("tag4711", "parent: ", NOTE) if text_part in text}
        assert shown == ({"tag4711", "parent: ", NOTE} if name in OWNERS else set()), name
        assert "4711" not in "\n".join(map(str, got[2:]))


async def test_others_do_not_learn_a_tag_by_asking_for_it(tagged):
    """A list by tag has the caller's own, also where all submissions of the competition may be seen."""
    counts = {}
    for name, viewer in VIEWERS.items():
        service = tagged.servicer(viewer)
        for user in ("", "ann"):
            request = api.ListSubmissionsRequest(tag="tag4711", competition="competitions/spring", user=user)
            counts[name, user] = len((await service.ListSubmissions(request, None)).submissions)
    assert {name for (name, _), count in counts.items() if count} == OWNERS and set(counts.values()) == {0, 1}


async def test_pages_do_not_show_them(tagged):
    """Neither as text nor in the raw data, to anybody who can open a page."""
    async with aiohttp.ClientSession() as session:
        for path in (f"/submissions/{tagged.submission_id}", f"/submissions/{tagged.submission_id}/sources", "/competitions/spring"):
            async with session.get(tagged.url(path)) as answer:
                assert answer.status == 200 and "4711" not in await answer.text()


async def test_what_is_not_asked_for_as_the_owners_does_not_have_them(tagged):
    """The message of a submission leaves them out by default, so that a new caller of it shows nothing."""
    submission = await tagged.ledger.get(tagged.submission_id)
    redactor = Redactor.for_problem(await tagged.ledger.problem(submission.problem_digest))
    assert "4711" not in conversion.to_text(conversion.to_data(messages.submission_to_proto(submission, redactor, full=True)))
    assert "4711" in conversion.to_text(conversion.to_data(messages.submission_to_proto(submission, redactor, owned=True)))
