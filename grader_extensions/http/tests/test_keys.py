"""Keys over HTTP: no method is reachable without the key that gRPC needs, and the web's cookies are none."""

import asyncio

import aiohttp
import pytest
from multidict import CIMultiDict

from grader.model import Scope
from grader.server.auth import METHODS as SCOPES
from grader_extensions.http.tests.served import RULES, TRACE, events, requests_of
from grader_extensions.web.sessions import COOKIE, Sessions
from tests.server.keyed import Keyed
from tests.server.test_auth import wrong_metadata


async def answers(here, headers=()):
    """The status of each method, called with a name that does not exist, and of the document."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:

        async def status(verb, path, **body):
            async with session.request(verb, here.url(path), headers=CIMultiDict(headers), **body) as answer:
                await answer.content.read(1)
                return answer.status

        paths = {name: (rule.verb, rule.path.replace("=", "").replace("*", "none")) for name, rule in RULES.items()}
        for field in ("{name", "{parent", "{competition"):
            paths = {name: (verb, path.replace(field, "").replace("}", "")) for name, (verb, path) in paths.items()}
        calls = [status(verb, path, **({"json": {}} if verb == "POST" else {})) for verb, path in paths.values()]
        return dict(zip([*paths, "openapi"], await asyncio.gather(*calls, status("GET", "/v1/openapi.json")), strict=True))


async def test_without_a_valid_key_every_method_is_unauthenticated(serve):
    """Missing, malformed, twice, unknown, wrong, expired, revoked: on each method and on the document. The control has a key."""
    async with serve() as here:
        keyed = Keyed(here.address, here.ledger)
        for reason, metadata in (await wrong_metadata(keyed)).items():
            assert set((await answers(here, metadata)).values()) == {401}, reason
        assert 401 not in (await answers(here, [("authorization", f"Bearer {here.key}")])).values()


@pytest.mark.parametrize("scopes", [(Scope.SUBMIT,), (Scope.READ,), (Scope.ADMIN,)])
async def test_a_key_opens_what_its_scopes_say_and_nothing_else(serve, scopes):
    """The same methods as over gRPC."""
    async with serve() as here:
        statuses = await answers(here, [("authorization", f"Bearer {await here.make_key(scopes=scopes)}")])
        assert {name for name, status in statuses.items() if status == 403} == {
            name for name, scope in SCOPES.items() if scope is not None and scope not in scopes
        }


async def test_the_cookie_of_who_has_signed_in_to_pages_is_no_key(serve, monkeypatch):
    """Else any site could call with it. The control: the same cookie opens a page."""
    opened, begin = [], Sessions.__init__

    def note(self, *arguments, **fields):
        begin(self, *arguments, **fields)
        opened.append(self)

    monkeypatch.setattr(Sessions, "__init__", note)
    async with serve() as here:
        token, _ = await opened[0].begin(here.key)
        cookie = "-H", f"Cookie: {COOKIE}={token}"
        assert (await here.curl(*cookie, here.url("/account"))).status == 200
        assert set((await answers(here, [("cookie", f"{COOKIE}={token}")])).values()) == {401}


async def test_what_belongs_to_another_user_is_not_found(serve):
    """Files, too; administrators and the owner get them."""
    async with serve() as here:
        requests, other_key = await requests_of(here), await here.make_key("bob")
        for name in ("GetSubmission", "WatchSubmission", "ListArtifacts", "DownloadArtifact", "CancelSubmission"):
            answer = await here.http(name, requests[name], "-H", f"Authorization: Bearer {other_key}")
            assert (answer.status, answer.data["details"][0]["reason"]) == (404, "SUBMISSION_NOT_FOUND"), name
        assert (await here.http("DownloadArtifact", requests["DownloadArtifact"])).data == TRACE


async def test_a_connection_that_is_used_again_keeps_no_caller(serve):
    """On one connection another user is answered, and then nobody."""
    async with serve() as here, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as session:
        users = []
        for key in (here.key, await here.make_key("bob"), ""):
            async with session.get(here.url("/v1/caller"), headers={"Authorization": f"Bearer {key}"}) as answer:
                users.append((await answer.json()).get("user"))
        assert users == ["alice", "bob", None]


async def test_a_revoked_key_ends_its_stream(serve):
    """The stream says why; the submission runs on."""
    async with serve(capacity=0) as here:
        submission = (await here.http("Submit", (await requests_of(here))["Submit"])).data
        assert submission["state"] == "SUBMISSION_STATE_QUEUED"
        async with aiohttp.ClientSession() as session:
            url = here.url(f"/v1/{submission['name']}:watch")
            async with session.get(url, headers={"Authorization": f"Bearer {here.key}"}) as answer:
                text = (await answer.content.readuntil(b"\n\n")).decode()
                await here.ledger.keys.revoke(here.key.split("_")[1])
                text += (await answer.content.read()).decode()
        assert events(text)[-1]["event"] == "end" and events(text)[-1]["data"]["details"][0]["reason"] == "UNAUTHENTICATED"
