"""Every page that a link leads to, and every path that could be guessed, by each kind of caller: nothing that the API hides is there."""

import contextlib
import html
import re
from urllib.parse import urljoin

import aiohttp

from grader import errors
from grader.api.client import GraderClient
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.competitions.tests.test_secrecy import PLANTED, SECRET, Telltale, words_in
from grader_extensions.web.tests.signed_in import key_of, reader
from sandbox.protocol import wire
from tests import fakes
from tests.server.competition_files import toml

USUAL = (Scope.SUBMIT, Scope.READ)
PEOPLE = {"anonymous": None, "alice": USUAL, "bob": USUAL, "root": tuple(Scope)}
PAGE_LIMIT_BYTES = 100_000
CHANGING = re.compile(
    r'(?<=name="token" value=")[^"]+|(?<=">)in [0-9][^<]*(?=</span>)|(?<=Queue: )[^<]*'
)  # differs in every browser, and every minute
HIDDEN_SIZE = "765433"  # of the problem's hidden workload, in place of 33: no part of a time is so long
HIDDEN = (*PLANTED, "secret33", HIDDEN_SIZE)
WITHDRAWN, BANNED = "withdrawn-for-a-copy", "banned-for-a-copy"
LINK = re.compile(r'(?:href|src|data-events)="([^"#]*)')


async def crawl(url, guesses=(), headers=None, session=None, endless=()):
    """Return every path of the site that can be reached, with its status and text. endless: streams; only their status is taken."""
    pages, queue = {}, ["/", *guesses]
    async with contextlib.AsyncExitStack() as stack:
        session = session or await stack.enter_async_context(aiohttp.ClientSession(headers=headers or {}))
        while queue:
            path = queue.pop()
            if path in pages:
                continue
            async with session.get(f"{url}{path}", allow_redirects=False) as answer:
                pages[path] = (answer.status, "" if path in endless and answer.status == 200 else CHANGING.sub("", await answer.text()))
            links = [urljoin(path, html.unescape(address)) for address in LINK.findall(pages[path][1])]
            queue += [link for link in links if link.startswith("/") and link not in pages]
    return pages


def differing(pages, base):
    """The paths that two crawls did not see alike, with both texts."""
    return [(path, pages.get(path), base.get(path)) for path in sorted(pages.keys() | base.keys()) if pages.get(path) != base.get(path)]


def paths_of(submission_id):
    return [f"/submissions/{submission_id}{rest}" for rest in ("", "/sources", "/events", "/events?after=3", "/artifacts/trace.json")]


@contextlib.asynccontextmanager
async def keyed_site(settings, place, auth="keys"):
    """A server with pages, a competition with secrets and everybody's key; alice's submissions hold all that is secret."""
    problem = place / "problems" / "sum" / "problem.toml"
    problem.write_text(problem.read_text().replace("n = 33 ", f"n = {HIDDEN_SIZE} "))
    assert HIDDEN_SIZE in problem.read_text()
    (place / "competitions").mkdir()
    (place / "competitions" / "competition.toml").write_text(toml("one", extra=SECRET))
    there = settings.model_copy(update={"competitions": (place / "competitions",), "web": "127.0.0.1:0", "auth": auth})
    async with serving(there, fakes.wiring(Telltale())) as running, GraderClient(running.address) as client:
        yield running, there, client


async def submitted(client, kernel):
    """Accepted and wrong ones, ranked in the competition and outside of it, each to its end."""
    entries = []
    for order in ("accept", "wrong"):
        for mode, competition in ((wire.Mode.RANKED, "one"), (wire.Mode.TEST, "one"), (wire.Mode.TEST, "")):
            submission = await client.submit(kernel(order, mode=mode, competition_id=competition))
            entries.append((submission.name.rpartition("/")[2], [event async for event in client.watch(submission.name)][-1]))
    return [name for name, _ in entries]


async def test_on_a_server_with_keys_every_caller_sees_the_same_and_no_submission(settings, place, kernel):
    """A key in a header opens no page; a submission is there for none of them while the competition runs, and no secret is."""
    async with keyed_site(settings, place) as (running, there, _):
        async with Ledger.open(there.ledger) as ledger:
            keys = {name: (await ledger.keys.create(name, frozenset(scopes)))[1] for name, scopes in PEOPLE.items() if scopes}
        async with GraderClient(running.address, key=keys["alice"]) as alice:
            ids = await submitted(alice, kernel)
            hanging = (await alice.submit(kernel("hang"))).name.rpartition("/")[2]
        guesses = [path for submission_id in (*ids, hanging) for path in paths_of(submission_id)]
        crawls = {}
        for name in PEOPLE:
            headers = {"Authorization": f"Bearer {keys[name]}"} if name in keys else {}
            crawls[name] = await crawl(f"http://{running.web_address}", guesses, headers)
        first = crawls["anonymous"]
        assert {name: differing(pages, first) for name, pages in crawls.items()} == {name: [] for name in PEOPLE}
        assert {path for path, (status, _) in first.items() if status != 200} == set(guesses)
        assert {"/", "/competitions/one", "/problems/sum", "/problems/sum/sum.cu", "/static/site.js"} <= set(first)
        text = [page for _, page in first.values()]
        assert "alice" in first["/competitions/one"][1]  # the board is for all
        assert words_in(HIDDEN, text) == [] and not any(submission_id in page for submission_id in (*ids, hanging) for page in text)
        assert "grade: accept" not in str(text) and "Queue: " in first["/"][1]


async def test_who_signs_in_sees_what_the_api_shows_to_the_same_key(settings, place, kernel):
    """Anonymous, a user, another one and an administrator, each through pages and through the API: the same submissions and no more, and
    nothing that is hidden from them. A key that may not read shows what everybody sees."""
    people = {**PEOPLE, "sender": (Scope.SUBMIT,)}
    async with keyed_site(settings, place) as (running, there, _):
        async with Ledger.open(there.ledger) as ledger:
            keys = {name: await key_of(ledger, name, scopes) for name, scopes in people.items() if scopes}
        ids = {}
        for name in ("alice", "bob"):
            async with GraderClient(running.address, key=keys[name]) as client:
                ids[name] = [*(await submitted(client, kernel)), (await client.submit(kernel("hang"))).name.rpartition("/")[2]]
        async with GraderClient(running.address, key=keys["root"]) as client:
            await CompetitionCalls(client).withdraw(f"submissions/{ids['alice'][0]}", reason=WITHDRAWN)
            await CompetitionCalls(client).ban_user("competitions/one", "bob", reason=BANNED)
        everything, base = [entry for of in ids.values() for entry in of], f"http://{running.web_address}"
        endless = [f"/submissions/{of[-1]}/events" for of in ids.values()]
        for name in people:
            async with reader(base) as browser:
                if name in keys:
                    assert (await browser.sign_in(keys[name]))[0].status == 303
                guesses = [path for entry in everything for path in paths_of(entry)[:3]]
                pages = await crawl(base, [*guesses, "/submissions", "/submissions?users=all"], session=browser.session, endless=endless)
            shown = set()
            if name in keys:
                async with GraderClient(running.address, key=keys[name]) as client:
                    for entry_id in everything:
                        with contextlib.suppress(errors.SubmissionNotFound, errors.PermissionDenied):
                            await client.get_submission(f"submissions/{entry_id}")
                            shown.add(entry_id)
            for entry_id in everything:
                assert {pages[path][0] for path in paths_of(entry_id)[:3]} == {200 if entry_id in shown else 404}, (name, entry_id)
            text = "".join(text for _, text in pages.values())
            assert (
                {entry for entry in everything if entry in text} == shown == (set(everything) if name == "root" else set(ids.get(name, ())))
            ), name
            # Why it is withdrawn reads who sees the submission; of a ban there is no word on any page.
            assert (WITHDRAWN in text) is (name in ("alice", "root")) and BANNED not in text, name
            assert "bob" not in pages["/competitions/one"][1].replace("Signed in as <bdi>bob</bdi>", "")
            assert words_in(HIDDEN, [text]) == [] and not any(key[-64:] in text for key in keys.values())
            statuses = {pages[path][0] for path in ("/submissions", "/submissions?users=all")}
            assert statuses == {{"anonymous": 303, "sender": 403}.get(name, 200)}
            assert "Queue:" in pages["/"][1]


async def test_on_a_server_without_keys_hidden_sizes_are_on_no_page(settings, place, kernel):
    """Everything else is: reports, sources, streams. The control of the test above."""
    async with keyed_site(settings, place, auth="none") as (running, _, client):
        ids = await submitted(client, kernel)
        pages = await crawl(f"http://{running.web_address}", [path for submission_id in ids for path in paths_of(submission_id)])
        shown = {path for path, (status, _) in pages.items() if status == 200}
        assert {path for submission_id in ids for path in paths_of(submission_id)[:4]} <= shown and "grade: accept" in str(pages)
        assert words_in(HIDDEN, [text for _, text in pages.values()]) == []
        large = {path: len(text.encode()) for path, (_, text) in pages.items() if len(text.encode()) >= PAGE_LIMIT_BYTES}
        assert large.keys() == {"/static/editor.js"}
