"""The list of one's own submissions, and the pages of each, for who has signed in."""

import asyncio
import re
from datetime import timedelta

import aiohttp
import pytest

from grader.errors import SubmissionNotFound
from grader.model import Scope
from grader_extensions.web.tests.signed_in import key_of, reader
from grader_extensions.web.tests.site import END, FREEZE
from grader_extensions.web.views import PAGE_SIZE
from tests import fakes

LIMIT_S = 300.0
IDS = re.compile(r'<th scope="row"><a href="/submissions/([^"]+)">')


async def test_the_list_has_ones_own_submissions_newest_first(open_signed_site):
    """With verdict, score, mode and time; not those of others. Filters are by problem and by verdict, and what is strange is no filter."""
    async with open_signed_site() as (here, ann):
        await ann.sign_in(await key_of(here.ledger))
        assert "There are no submissions yet." in (await ann.get("/submissions"))[1]
        ids = [await here.enter("ann", 2.0), await here.enter("ann", 1.5, problem_id="other"), await here.enter("bob", 3.0)]
        waits = (await here.ledger.submit(fakes.new_submission(user="ann"), fakes.problem())).submission_id
        _, text = await ann.get("/submissions")
        assert IDS.findall(text) == [waits, ids[1], ids[0]] and "bob" not in text
        for part in ("ACCEPTED", "QUEUED", "2x (1.96..2.04) over eager", "ranked", "2026-05-01 00:00 UTC"):
            assert part in text
        for query, expected in (
            ("problem=other", [ids[1]]), ("verdict=ACCEPTED", [ids[1], ids[0]]), ("verdict=WRONG_ANSWER", []),
            ("verdict=x", [waits, ids[1], ids[0]]), ("before=x", [waits, ids[1], ids[0]]), ("users=all", [waits, ids[1], ids[0]]),
        ):  # fmt: skip
            assert IDS.findall((await ann.get(f"/submissions?{query}"))[1]) == expected, query
        _, text = await ann.get('/submissions?problem="><script>')
        assert "<script>" not in text and "There are no such submissions." in text


async def test_the_list_has_pages(open_signed_site):
    """With the filter kept; from the last one there is a way to the first."""
    async with open_signed_site() as (here, ann):
        await ann.sign_in(await key_of(here.ledger))
        ids = [(await here.ledger.submit(fakes.new_submission(user="ann"), fakes.problem())).submission_id for _ in range(PAGE_SIZE + 3)]
        _, text = await ann.get("/submissions?problem=sum")
        (older,) = re.findall(r'<a rel="next" href="(\?problem=sum&amp;before=\d+)">Older', text)
        _, rest = await ann.get(f"/submissions{older.replace('&amp;', '&')}")
        assert IDS.findall(text) + IDS.findall(rest) == ids[::-1]
        assert '<a href="?problem=sum">Newest</a>' in rest and "Older" not in rest and "Newest" not in text


async def test_an_administrator_may_ask_for_everybodys(open_signed_site):
    """One's own are first, as for everybody."""
    async with open_signed_site() as (here, root):
        await root.sign_in(await key_of(here.ledger, "root", tuple(Scope)))
        ids = [await here.enter("root", 2.0), await here.enter("bob", 1.5)]
        assert IDS.findall((await root.get("/submissions"))[1]) == ids[:1]
        _, text = await root.get("/submissions?users=all")
        assert IDS.findall(text) == ids[::-1] and "<bdi>bob</bdi>" in text


async def test_who_has_not_signed_in_is_asked_to(open_signed_site):
    """And comes back to the page; without keys everything is listed."""
    async with open_signed_site() as (_, ann):
        answer, _ = await ann.get("/submissions?problem=sum")
        assert answer.status == 303 and answer.headers["Location"] == "/sign-in?next=/submissions%3Fproblem%3Dsum"
        _, text = await ann.get(answer.headers["Location"])
        assert 'name="next" value="/submissions?problem=sum"' in text


async def test_a_server_without_keys_lists_everything(open_signed_site):
    """To this host only, as its other pages."""
    async with open_signed_site(open_server=True) as (here, anybody):
        submission_id = await here.enter("ann", 2.0)
        assert IDS.findall((await anybody.get("/submissions"))[1]) == [submission_id]
        assert (await anybody.get("/submissions", Host="grader.example"))[0].status == 404


async def test_ones_own_files_are_handed_out(open_signed_site):
    """To their owner, as the owner, to save; to nobody else is there such a page."""
    files = Files()
    async with open_signed_site(artifacts=files) as (here, ann), reader(here.url()) as bob:
        for browser, name in ((ann, "ann"), (bob, "bob")):
            await browser.sign_in(await key_of(here.ledger, name))
        submission_id = await here.enter("ann", 2.0)
        answers = [(await browser.get(f"/submissions/{submission_id}/artifacts/trace.json"))[0] for browser in (ann, bob)]
        assert [answer.status for answer in answers] == [200, 404] and files.users == ["ann", "bob"]
        assert "attachment" in answers[0].headers["Content-Disposition"] and answers[0].headers["Cache-Control"] == "private, no-store"


class Files:
    """Files of ann's, and who asked for them."""

    def __init__(self):
        self.users = []

    async def list_for(self, caller, submission_id):
        return []

    async def read(self, caller, submission_id, name):
        self.users.append(caller.user)
        if caller.user != "ann":
            raise SubmissionNotFound(submission_id)
        return None, b"{}"  # a page needs the bytes only


async def test_an_administrator_may_see_a_board_without_its_freeze(open_signed_site):
    """By a link, as from the API; for everybody else the same address shows the frozen board, which says so, until the end."""
    async with open_signed_site() as (here, ann), reader(here.url()) as root:
        await here.enter("ann", 2.0)
        await here.enter("late", 3.0, at=FREEZE + timedelta(seconds=1))
        here.clock.now = FREEZE + timedelta(seconds=2)
        await ann.sign_in(await key_of(here.ledger))
        await root.sign_in(await key_of(here.ledger, "root", tuple(Scope)))
        path, shown = "/competitions/spring?problem=sum&unfrozen=1", []
        for browser in (ann, root):
            texts = [(await browser.get(address))[1] for address in (path.partition("&")[0], path)]
            shown.append(["<bdi>late</bdi>" in page for page in texts])
            assert ("As administrators see it" in texts[0]) is (browser is root) and "The board is frozen" in texts[0]
        assert shown == [[False, False], [False, True]]
        here.clock.now = END
        _, text = await ann.get(path)
        assert "<bdi>late</bdi>" in text and "The board is frozen" not in text


@pytest.mark.parametrize("ends", ["signed out", "revoked"])
async def test_a_stream_ends_with_the_session(open_signed_site, ends):
    """Without an end event, so that the browser asks again, and is refused."""
    async with open_signed_site() as (here, ann):
        key_record, key = await here.ledger.keys.create("ann", frozenset({Scope.READ}))
        await ann.sign_in(key)
        waits = (await here.ledger.submit(fakes.new_submission(user="ann"), fakes.problem())).submission_id
        path = here.url(f"/submissions/{waits}/events")
        async with aiohttp.ClientSession(cookies=ann.cookies(), cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            async with session.get(path) as answer:
                assert answer.status == 200 and b"retry" in await answer.content.readline()
                if ends == "revoked":
                    await here.ledger.keys.revoke(key_record.key_id)
                else:
                    await ann.sign_out()
                async with asyncio.timeout(LIMIT_S):
                    assert b"event: end" not in await answer.read()
            async with session.get(path) as answer:
                assert answer.status == 404
