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
from grader_extensions.competitions.tests.test_secrecy import PLANTED, SECRET, Telltale, found_in
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
    """Every path of the site that can be reached, with its status and text. endless: streams that do not end, of which only the status
    is taken."""
    found, left = {}, ["/", *guesses]
    async with contextlib.AsyncExitStack() as stack:
        session = session or await stack.enter_async_context(aiohttp.ClientSession(headers=headers or {}))
        while left:
            path = left.pop()
            if path in found:
                continue
            async with session.get(f"{url}{path}", allow_redirects=False) as answer:
                found[path] = (answer.status, "" if path in endless and answer.status == 200 else CHANGING.sub("", await answer.text()))
            links = [urljoin(path, html.unescape(one)) for one in LINK.findall(found[path][1])]
            left += [one for one in links if one.startswith("/") and one not in found]
    return found


def differing(one, other):
    """The paths that two crawls did not see alike, with both texts."""
    return [(path, one.get(path), other.get(path)) for path in sorted(one.keys() | other.keys()) if one.get(path) != other.get(path)]


def paths_of(submission_id):
    return [f"/submissions/{submission_id}{rest}" for rest in ("", "/sources", "/events", "/events?after=3", "/artifacts/trace.json")]


@contextlib.asynccontextmanager
async def keyed_site(settings, place, auth="keys"):
    """A server with pages, a competition with secrets and everybody's key; alice's submissions hold all that is secret."""
    problem = place / "problems" / "sum" / "problem.toml"
    problem.write_text(problem.read_text().replace("n = 33 ", f"n = {HIDDEN_SIZE} "))
    assert HIDDEN_SIZE in problem.read_text()
    (place / "competitions").mkdir()
    (place / "competitions" / "competition.toml").write_text(toml("one", more=SECRET))
    there = settings.model_copy(update={"competitions": (place / "competitions",), "web": "127.0.0.1:0", "auth": auth})
    async with serving(there, fakes.wiring(Telltale())) as running, GraderClient(running.address) as client:
        yield running, there, client


async def submitted(client, kernel):
    """Accepted and wrong ones, ranked in the competition and outside of it, each to its end."""
    made = []
    for order in ("accept", "wrong"):
        for mode, competition in ((wire.Mode.RANKED, "one"), (wire.Mode.TEST, "one"), (wire.Mode.TEST, "")):
            one = await client.submit(kernel(order, mode=mode, competition_id=competition))
            made.append((one.name.rpartition("/")[2], [event async for event in client.watch(one.name)][-1]))
    return [name for name, _ in made]


async def test_on_a_server_with_keys_every_caller_sees_the_same_and_no_submission(settings, place, kernel):
    """A key in a header opens no page; a submission is there for none of them while the competition runs, and no secret is."""
    async with keyed_site(settings, place) as (running, there, _):
        async with Ledger.open(there.ledger) as ledger:
            keys = {name: (await ledger.keys.create(name, frozenset(scopes)))[1] for name, scopes in PEOPLE.items() if scopes}
        async with GraderClient(running.address, key=keys["alice"]) as alice:
            made = await submitted(alice, kernel)
            hanging = (await alice.submit(kernel("hang"))).name.rpartition("/")[2]
        guesses = [path for one in (*made, hanging) for path in paths_of(one)]
        seen = {}
        for name in PEOPLE:
            headers = {"Authorization": f"Bearer {keys[name]}"} if name in keys else {}
            seen[name] = await crawl(f"http://{running.web_address}", guesses, headers)
        first = seen["anonymous"]
        assert {name: differing(one, first) for name, one in seen.items()} == {name: [] for name in PEOPLE}
        assert {path for path, (status, _) in first.items() if status != 200} == set(guesses)
        assert {"/", "/competitions/one", "/problems/sum", "/problems/sum/sum.cu", "/static/site.js"} <= set(first)
        text = [one for _, one in first.values()]
        assert "alice" in first["/competitions/one"][1]  # the board is for all
        assert found_in(HIDDEN, text) == [] and not any(one in page for one in (*made, hanging) for page in text)
        assert "grade: accept" not in str(text) and "Queue: " in first["/"][1]


async def test_who_signs_in_sees_what_the_api_shows_to_the_same_key(settings, place, kernel):
    """Anonymous, a user, another one and an administrator, each through pages and through the API: the same submissions and no more, and
    nothing that is hidden from them. A key that may not read shows what everybody sees."""
    people = {**PEOPLE, "sender": (Scope.SUBMIT,)}
    async with keyed_site(settings, place) as (running, there, _):
        async with Ledger.open(there.ledger) as ledger:
            keys = {name: await key_of(ledger, name, scopes) for name, scopes in people.items() if scopes}
        made = {}
        for name in ("alice", "bob"):
            async with GraderClient(running.address, key=keys[name]) as client:
                made[name] = [*(await submitted(client, kernel)), (await client.submit(kernel("hang"))).name.rpartition("/")[2]]
        async with GraderClient(running.address, key=keys["root"]) as client:
            await CompetitionCalls(client).withdraw(f"submissions/{made['alice'][0]}", reason=WITHDRAWN)
            await CompetitionCalls(client).ban_user("competitions/one", "bob", reason=BANNED)
        everything, base = [one for of in made.values() for one in of], f"http://{running.web_address}"
        endless = [f"/submissions/{of[-1]}/events" for of in made.values()]
        for name in people:
            async with reader(base) as browser:
                if name in keys:
                    assert (await browser.sign_in(keys[name]))[0].status == 303
                guesses = [path for one in everything for path in paths_of(one)[:3]]
                found = await crawl(base, [*guesses, "/submissions", "/submissions?users=all"], session=browser.session, endless=endless)
            shown = set()
            if name in keys:
                async with GraderClient(running.address, key=keys[name]) as client:
                    for one in everything:
                        with contextlib.suppress(errors.SubmissionNotFound, errors.PermissionDenied):
                            await client.get_submission(f"submissions/{one}")
                            shown.add(one)
            for one in everything:
                assert {found[path][0] for path in paths_of(one)[:3]} == {200 if one in shown else 404}, (name, one)
            text = "".join(text for _, text in found.values())
            assert (
                {one for one in everything if one in text} == shown == (set(everything) if name == "root" else set(made.get(name, ())))
            ), name
            # Why it is withdrawn reads who sees the submission; of a ban there is no word on any page.
            assert (WITHDRAWN in text) is (name in ("alice", "root")) and BANNED not in text, name
            assert "bob" not in found["/competitions/one"][1].replace("Signed in as <bdi>bob</bdi>", "")
            assert found_in(HIDDEN, [text]) == [] and not any(key[-64:] in text for key in keys.values())
            statuses = {found[path][0] for path in ("/submissions", "/submissions?users=all")}
            assert statuses == {{"anonymous": 303, "sender": 403}.get(name, 200)}
            assert "Queue:" in found["/"][1]


async def test_on_a_server_without_keys_hidden_sizes_are_on_no_page(settings, place, kernel):
    """Everything else is: reports, sources, streams. The control of the test above."""
    async with keyed_site(settings, place, auth="none") as (running, _, client):
        made = await submitted(client, kernel)
        found = await crawl(f"http://{running.web_address}", [path for one in made for path in paths_of(one)])
        shown = {path for path, (status, _) in found.items() if status == 200}
        assert {path for one in made for path in paths_of(one)[:4]} <= shown and "grade: accept" in str(found)
        assert found_in(HIDDEN, [text for _, text in found.values()]) == []
        large = {path: len(text.encode()) for path, (_, text) in found.items() if len(text.encode()) >= PAGE_LIMIT_BYTES}
        assert large.keys() == {"/static/editor.js"}
