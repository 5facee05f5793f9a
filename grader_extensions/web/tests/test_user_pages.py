"""Pages of users, the search and the feeds: what boards show to everybody, and nothing of anybody else."""

import html
import json
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from grader.model import Caller, Verdict
from grader_extensions.competitions.tests.ledger_actions import LedgerActions
from grader_extensions.web.tests.browser import EVIL
from grader_extensions.web.tests.signed_in import key_of
from grader_extensions.web.tests.site import END, FREEZE, START
from grader_extensions.web.tests.test_pages import rows
from grader_extensions.web.user_pages import MATCHES

ATOM = "{http://www.w3.org/2005/Atom}"
PUBLIC_URL = "https://grader.example.org"


async def test_a_name_on_a_board_leads_to_the_users_history(open_site):
    """The user's bests when they were made, newest first, with the rank of the board now; no submission of a private competition."""
    async with open_site(visibility="private") as here:
        await here.enter("bob", 3.0)
        ids = [await here.enter("ann", score, at=START + timedelta(hours=hour)) for hour, score in enumerate((1.0, 2.0, 1.5))]
        await here.enter("ann", 4.0, problem_id="other", device="H100", at=START + timedelta(hours=3))
        _, board = await here.get("/competitions/spring?problem=sum")
        assert '<a href="/users/ann"><bdi>ann</bdi></a>' in board
        answer, text = await here.get("/users/ann")
        assert answer.status == 200 and [row[3:] for row in rows(text)[1:]] == [
            ["H100", "4.00x", "1"], ["H200", "2.00x", "2"], ["H200", "1.00x", "-"],
        ]  # fmt: skip
        assert "bob" not in text and not any(submission_id in text for submission_id in ids)


async def test_submissions_are_linked_for_those_who_may_see_them(open_signed_site):
    """For the user, and for everybody once the competition has opened them."""
    async with open_signed_site() as (here, ann):
        submission_id = await here.enter("ann", 2.0)
        link = f'href="/submissions/{submission_id}"'
        assert link not in (await ann.get("/users/ann"))[1]
        here.clock.now = END
        assert link in (await ann.get("/users/ann"))[1]
        here.clock.now = START
        await ann.sign_in(await key_of(here.ledger, "ann"))
        assert link in (await ann.get("/users/ann"))[1]


async def ban(here, user, submission_id):
    await LedgerActions(here.ledger).ban("spring", user, "root", "a copy")


async def withdraw(here, user, submission_id):
    await LedgerActions(here.ledger).withdraw(submission_id, here.competitions.get("spring"), Caller(user=user), "a mistake")


async def remove_competition(here, user, submission_id):
    here.competitions.replace(type(here.competitions)())


@pytest.mark.parametrize(("options", "action"), [
    ({}, ban), ({}, withdraw), ({}, remove_competition), ({"verdict": Verdict.WRONG_ANSWER, "score": 0.0}, None),
    ({"competition_id": ""}, None), ({"at": FREEZE}, None), ({"at": END}, None),
])  # fmt: skip
async def test_a_user_whom_no_board_shows_has_no_page(open_site, options, action):
    """Banned, withdrawn, of a competition that is gone, wrong, outside of competitions, in a freeze, too late: as if there were no such
    user, also for the search. The control is bob, of whom nothing else differs, and the same page before the action."""
    async with open_site() as here:
        submission_id = await here.enter("ann", **{"score": 2.0, **options})
        await here.enter("bob", 1.0)
        here.clock.now = FREEZE + timedelta(minutes=1)
        if action is not None:
            assert (await here.get("/users/ann"))[0].status == 200 and "/users/ann" in (await here.get("/search?q=AN"))[1]
            await action(here, "ann", submission_id)
        answers = [await here.get(path) for path in ("/users/ann", "/users/nobody")]
        assert [answer.status for answer, _ in answers] == [404, 404] and answers[0][1] == answers[1][1]
        assert "/users/ann" not in (await here.get("/search?q=ann"))[1]
        present = action is not remove_competition
        assert ((await here.get("/users/bob"))[0].status == 200) is present is ("/users/bob" in (await here.get("/search?q=bob"))[1])


async def test_a_freeze_hides_history_until_the_end(open_site):
    """Also the better submission of a user who is on the board already."""
    async with open_site() as here:
        await here.enter("ann", 1.0)
        await here.enter("ann", 2.0, at=FREEZE + timedelta(seconds=1))
        here.clock.now = FREEZE + timedelta(seconds=2)
        assert [row[4:] for row in rows((await here.get("/users/ann"))[1])[1:]] == [["1.00x", "1"]]
        here.clock.now = END
        assert [row[4:] for row in rows((await here.get("/users/ann"))[1])[1:]] == [["2.00x", "1"], ["1.00x", "-"]]


@pytest.mark.parametrize(("query", "links"), [
    ("SPRING", {"/competitions/spring"}), ("a sum", {"/problems/sum", "/problems/other"}), ("oth", {"/problems/other"}),
    ("nn", {"/users/ann", "/users/anna_b"}), ("a_b", {"/users/anna_b"}), ("%25", set()), ("_", {"/users/anna_b"}), ("", set()),
])  # fmt: skip
async def test_the_search_finds_titles_and_names(open_site, query, links):
    """In any case, with every character as itself."""
    async with open_site() as here:
        for user in ("ann", "anna_b"):
            await here.enter(user, 1.0)
        _, text = await here.get(f"/search?q={query}")
        pages = {"/competitions/spring", "/problems/sum", "/problems/other", "/users/ann", "/users/anna_b"}
        assert {page for page in pages if f'href="{page}"' in text} == links


async def test_the_search_finds_a_user_behind_many_who_are_on_no_board(open_site):
    """Outside of competitions, or in a freeze: these don't take the places of those who are shown."""
    async with open_site() as here:
        await here.enter("zoe-a", 1.0)
        for number in range(MATCHES):
            await here.enter(f"a-{number:02}", 1.0, competition_id="", at=START)
            await here.enter(f"b-a-{number:02}", 1.0, at=FREEZE)
        here.clock.now = FREEZE
        assert 'href="/users/zoe-a"' in (await here.get("/search?q=a"))[1]


async def test_what_is_searched_for_is_text(open_site):
    """In its field, as every text of a reader; the form goes here only."""
    async with open_site() as here:
        answer, text = await here.get('/search?q="><script>x</script>')
        assert text.count("<script") == 1 and "&lt;script&gt;" in text and "Nothing has this text" in text
        assert "form-action 'self'" in answer.headers["Content-Security-Policy"]


async def feed(here, path):
    """The feed's root, after what every one of them has."""
    answer, text = await here.get(path)
    assert answer.status == 200 and answer.headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    root = ElementTree.fromstring(text)
    for element in (root, *root.iter(f"{ATOM}entry")):
        assert all(element.findtext(f"{ATOM}{name}") for name in ("id", "title", "updated"))
    addresses = [link.get("href") for link in root.iter(f"{ATOM}link")] + [element.text for element in root.iter(f"{ATOM}id")]
    assert [address for address in addresses if not address.startswith(f"{PUBLIC_URL}/")] == []
    again, body = await here.get(path, **{"If-None-Match": answer.headers["ETag"]})
    assert (again.status, body) == (304, "")
    return root


def titles(root):
    return [entry.findtext(f"{ATOM}title") for entry in root.iter(f"{ATOM}entry")]


async def test_a_board_has_a_feed(open_site):
    """As for everybody: newest first, of one problem or overall, without what a freeze hides; a better entry has another id."""
    async with open_site(public_url=PUBLIC_URL) as here:
        await here.enter("ann", 2.0)
        await here.enter("bob", 3.0, at=START + timedelta(hours=1))
        at = "/competitions/spring/board.atom?problem=sum&device=H200"
        assert f'href="{html.escape(at)}"' in (await here.get("/competitions/spring?problem=sum"))[1]
        before = await feed(here, at)
        assert titles(before) == ["bob: 3.00x, rank 1", "ann: 2.00x, rank 2"]
        await here.enter("ann", 4.0, at=START + timedelta(hours=2))
        await here.enter("cyd", 9.0, at=FREEZE)
        here.clock.now = FREEZE + timedelta(seconds=1)
        after = await feed(here, at)
        assert titles(after) == ["ann: 4.00x, rank 1", "bob: 3.00x, rank 2"]
        ids = [{entry.findtext(f"{ATOM}id") for entry in root.iter(f"{ATOM}entry")} for root in (before, after)]
        assert len(ids[0] & ids[1]) == 1 and len(ids[0] | ids[1]) == 3
        assert len(titles(await feed(here, "/competitions/spring/board.atom"))) == 2
        assert (await here.get("/competitions/spring/board.atom?problem=none"))[0].status == 404


async def test_feeds_are_well_formed_whatever_they_are_of(open_site):
    """Titles and names full of markup and control characters are text; competitions are there once they have begun."""
    title = EVIL[:190]
    async with open_site(public_url=PUBLIC_URL, title=json.dumps(title)) as here:
        await here.enter(EVIL[:64], 2.0)
        root = await feed(here, "/competitions/spring/board.atom?problem=sum")
        assert root.findtext(f"{ATOM}title").startswith("<script>document.title='ran'</script>") and len(titles(root)) == 1
        assert len(titles(await feed(here, "/competitions.atom"))) == 1
        here.clock.now = END
        assert [entry.rpartition(" ")[2] for entry in titles(await feed(here, "/competitions.atom"))] == ["ended", "begun"]
        here.clock.now = START - timedelta(seconds=1)
        assert titles(await feed(here, "/competitions.atom")) == []


async def test_without_a_public_address_there_are_no_feeds(open_site):
    """Their links would lead nowhere. The control is every test above."""
    async with open_site() as here:
        for path in ("/competitions.atom", "/competitions/spring/board.atom"):
            assert (await here.get(path))[0].status == 404
        assert ".atom" not in "".join([(await here.get(path))[1] for path in ("/competitions", "/competitions/spring")])
