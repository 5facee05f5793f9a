"""Who sees a submission, asked of the pages and of the API: both give the same answer to the same viewer."""

import contextlib

import pytest
import sqlalchemy as sa

from grader import errors
from grader.access import ANYBODY
from grader.ledger.tables import submissions
from grader.model import Caller, Scope
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
EVERYBODY, OWN, ADMINISTRATORS = set(VIEWERS), {"owner", "administrator", "no keys"}, {"administrator", "no keys"}
# What was made, whether the competition has ended, who sees it.
TABLE = [
    ("submission", False, OWN),
    ("submission", True, EVERYBODY),
    ("of no competition", False, OWN),
    ("of no competition", True, OWN),
    ("of no user", False, ADMINISTRATORS),
    ("rejudge run", False, ADMINISTRATORS),
    ("rejudge run", True, ADMINISTRATORS),
    ("rejudge run of no competition", True, ADMINISTRATORS),
]


@contextlib.asynccontextmanager
async def made(place, what, ended, *, viewer="anonymous", visibility="after_end"):
    """A site with one such submission, before or after the competition's end, and its pages as this viewer opens them."""
    async with site(place, open_server=viewer == "no keys", visibility=visibility) as here, reader(here.url()) as browser:
        user = "" if what == "of no user" else "ann"
        here.made = await here.enter(user, 2.0, competition_id="" if what.endswith(("competition", "user")) else "spring")
        if what.startswith("rejudge run"):
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
    """Whether GetSubmission and WatchSubmission answer this viewer; they agree."""
    service = here.servicer(viewer)
    name, shown = f"submissions/{here.made}", []
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


@pytest.mark.parametrize(("what", "ended", "seen_by"), TABLE)
async def test_each_kind_of_viewer_sees_the_same_by_the_api(tmp_path, what, ended, seen_by):
    """The table of who sees what."""
    async with made(tmp_path, what, ended) as here:
        assert {name for name, viewer in VIEWERS.items() if await api_shows(here, viewer)} == seen_by


@pytest.mark.parametrize("viewer", VIEWERS)
@pytest.mark.parametrize(("what", "ended", "seen_by"), TABLE)
async def test_each_kind_of_viewer_sees_the_same_by_the_pages(tmp_path, what, ended, seen_by, viewer):
    """The same table, for those who have signed in and those who have not: report, sources and stream, and boards link to what is there.
    Else it is the page of an id that does not exist."""
    async with made(tmp_path, what, ended, viewer=viewer) as here:
        pages = [await here.browser.get(f"/submissions/{here.made}{path}") for path in ("", "/sources", "/events")]
        assert [answer.status for answer, _ in pages] == [200 if viewer in seen_by else 404] * 3
        _, absent = await here.browser.get("/submissions/0000000000000000")
        assert viewer in seen_by or {text for _, text in pages} == {absent}
        _, board = await here.browser.get("/competitions/spring?problem=sum")
        assert (here.made in board) is (what == "submission" and viewer in seen_by)


@pytest.mark.parametrize("viewer", VIEWERS)
async def test_what_a_private_competition_has_stays_its_owners(tmp_path, viewer):
    """After the end too."""
    async with made(tmp_path, "submission", True, viewer=viewer, visibility="private") as here:
        assert {name for name, one in VIEWERS.items() if await api_shows(here, one)} == OWN
        assert await here.get(f"/submissions/{here.made}") == (200 if viewer in OWN else 404)


async def test_a_run_is_hidden_for_being_a_run(tmp_path):
    """The control: the same row without the rejudge's id is shown to everybody, by the pages and by the API."""
    async with made(tmp_path, "rejudge run", True) as here:
        assert (await here.get(f"/submissions/{here.made}"), await api_shows(here, ANYBODY)) == (404, False)
        await mark(here, None)
        assert (await here.get(f"/submissions/{here.made}"), await api_shows(here, ANYBODY)) == (200, True)
