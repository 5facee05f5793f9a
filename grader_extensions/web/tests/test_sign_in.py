"""Signing in with a key: who gets a session, how long it lasts, and that nobody else can use it or the form."""

from datetime import timedelta
from unittest import mock

import pytest
import structlog
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from grader.errors import Unauthenticated
from grader.model import Caller, Scope
from grader.observability import log
from grader.peers import PeerLimits
from grader_extensions.web.sessions import COOKIE, LASTS, Sessions, Transport, transport
from grader_extensions.web.sign_in import local_path
from grader_extensions.web.tests.signed_in import SAME_SITE, hidden, key_of, reader
from grader_extensions.web.tests.site import START

TLS = {"X-Forwarded-Proto": "https"}


class FakeGate:
    """Every text is a key, of the user that it names. revoked: ids of keys that open nothing."""

    def __init__(self):
        self.revoked = set()

    async def open_with(self, text):
        return Caller(user=text, key_id=text, expire_time=START + timedelta(hours=1) if text == "short" else None)

    async def check_key(self, caller):
        if caller.key_id in self.revoked:
            raise Unauthenticated("this key was revoked")

    def check_scope(self, caller, method):
        pass


async def test_a_key_opens_a_session_and_signing_out_ends_it(open_signed_site):
    """The page says who; after signing out the cookie is gone, and its value opens nothing."""
    async with open_signed_site() as (here, ann):
        answer, _ = await ann.sign_in(await key_of(here.ledger), after="/problems")
        assert answer.status == 303 and answer.headers["Location"] == "/problems"
        answer, text = await ann.get("/")
        assert (
            "Signed in as <bdi>ann</bdi>" in text and answer.headers["Cache-Control"] == "no-store" and answer.headers["Vary"] == "Cookie"
        )
        token = ann.cookies()[COOKIE]
        answer, _ = await ann.sign_out()
        assert answer.status == 303 and COOKIE not in ann.cookies()
        _, text = await ann.get("/", Cookie=f"{COOKIE}={token}")
        assert "Signed in" not in text and "Sign in" in text


async def test_the_cookie_is_for_this_site_and_no_script(open_signed_site):
    """256 bits that differ each time; over TLS Secure, with the prefix that no other host can set."""
    async with open_signed_site() as (here, _):
        key, set_cookies = await key_of(here.ledger), []
        for headers in ({}, TLS):
            async with reader(here.url()) as visitor:
                page, text = await visitor.get("/sign-in", **headers)
                cookies = "; ".join(header.partition(";")[0] for header in page.headers.getall("Set-Cookie"))
                fields = {**hidden(text), "key": key}
                answer, _ = await visitor.post("/sign-in", fields, {**SAME_SITE, **headers, "Cookie": cookies})
            set_cookies.append(answer.headers["Set-Cookie"])
        for cookie in set_cookies:
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie and f"Max-Age={12 * 3600}" in cookie
        values = [cookie.partition(";")[0].partition("=") for cookie in set_cookies]
        assert [name for name, _, _ in values] == [COOKIE, f"__Host-{COOKIE}"]
        assert ["Secure" in header for header in set_cookies] == [False, True]
        assert len({value for _, _, value in values}) == 2 and all(len(value) >= 43 for _, _, value in values)
        async with reader(here.url()) as visitor:
            for name, headers, opens in ((f"__Host-{COOKIE}", TLS, True), (COOKIE, TLS, False), (f"__Host-{COOKIE}", {}, False)):
                _, text = await visitor.get("/", Cookie=f"{name}={values[1][2]}", **headers)
                assert ("Signed in as" in text) is opens, (name, headers)


@pytest.mark.parametrize(("remote", "host", "forwarded", "private"), [
    ("127.0.0.1", "localhost:80", [], Transport.LOOPBACK), ("::1", "[::1]:80", [], Transport.LOOPBACK),
    ("192.0.2.1", "localhost:80", [], Transport.PLAIN), ("127.0.0.1", "evil.example", [], Transport.PLAIN),
    ("127.0.0.1", "localhost", ["http"], Transport.PLAIN), ("192.0.2.1", "grader.example", ["https"], Transport.TLS),
    ("192.0.2.1", "grader.example", ["https, http"], Transport.PLAIN), ("192.0.2.1", "grader.example", ["https", "http"], Transport.PLAIN),
])  # fmt: skip
def test_who_could_read_a_request_is_known(remote, host, forwarded, private):
    """By the address of the connection, the name in the request and what one proxy says; where that is not clear, everybody could."""
    headers = CIMultiDict([("Host", host), *(("X-Forwarded-Proto", scheme) for scheme in forwarded)])
    connection = mock.Mock()
    connection.get_extra_info = lambda name, _=None: (remote, 5) if name == "peername" else None
    assert transport(make_mocked_request("GET", "/", headers=headers, transport=connection)) is private


@pytest.mark.parametrize(
    "headers", [{"Host": "grader.example"}, {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-Proto": "http"}, {"Via": "1.1 x"}]
)
async def test_no_key_is_taken_over_a_connection_that_others_can_read(open_signed_site, headers):
    """The page has no form and says what to do; what is sent anyhow is refused. The control: the same over TLS, and from this host."""
    async with open_signed_site() as (here, ann):
        key = await key_of(here.ledger)
        _, text = await ann.get("/sign-in", **headers)
        assert "<form" not in text and "This connection is not encrypted" in text
        answer, text = await ann.sign_in(key, headers={**SAME_SITE, **headers})
        assert answer.status == 403 and "not encrypted" in text and "Set-Cookie" not in answer.headers
        answer, _ = await ann.sign_in(key)
        assert answer.status == 303
        _, text = await ann.get("/", **headers)  # nor does its cookie open anything there
        assert "Signed in" not in text


async def test_a_wrong_key_opens_nothing_and_is_quoted_nowhere(open_signed_site):
    """An unknown and a wrong key get the same sentence, as in the API; neither the page, the log nor an address has the key."""
    async with open_signed_site() as (here, ann):
        key = await key_of(here.ledger)
        wrong = [key[:-1] + ("0" if key[-1] != "0" else "1"), "grader_" + "a" * 12 + "_" + "b" * 64, "<script>", ""]
        log.configure("json", level=0)
        with structlog.testing.capture_logs() as logged:
            expected = []
            for text_of_key in wrong:
                answer, text = await ann.sign_in(text_of_key)
                assert answer.status == 403 and "Set-Cookie" not in answer.headers and not (text_of_key and text_of_key in text)
                expected.append("This key is not known here." in text)
            answer, text = await ann.sign_in(key)
            _, page = await ann.get("/account")
        assert expected == [True, True, False, False] and answer.status == 303
        assert not any(part in str(output) for output in (logged, answer.headers, text, page) for part in (key, key[-64:]))
        assert {event["event"] for event in logged} >= {"sign_in_refused", "signed_in"}


@pytest.mark.parametrize("ends", ["revoked", "expired", "twelve hours"])
async def test_a_session_ends_with_its_key_and_after_twelve_hours(open_signed_site, ends):
    """At the next request; the control is the request before it."""
    async with open_signed_site() as (here, ann):
        expire_time = START + timedelta(hours=1) if ends == "expired" else None
        record, key = await here.ledger.keys.create("ann", frozenset({Scope.READ}), expire_time=expire_time)
        await ann.sign_in(key)
        assert "Signed in as" in (await ann.get("/"))[1]
        if ends == "revoked":
            await here.ledger.keys.revoke(record.key_id)
            here.gate._read_s = float("-inf")  # two seconds later
        else:
            here.clock.now = START + (timedelta(hours=1) if ends == "expired" else LASTS)
        assert "Signed in as" not in (await ann.get("/"))[1]


async def test_sessions_are_bounded_and_go_with_their_key():
    """The oldest makes room, of one key and of all; those of a revoked key are removed together, those that are over when one begins."""
    gate, now = FakeGate(), [START]
    sessions = Sessions(gate, lambda: now[0], limit=4, limit_of_key=2)
    first = [(await sessions.begin("ann"))[0] for _ in range(3)]
    assert [await sessions.find(session) is not None for session in first] == [False, True, True]
    sessions_begun = [(await sessions.begin(name))[0] for name in ("bob", "short", "cyd")]
    assert sessions.count == 4 and await sessions.find(first[1]) is None and await sessions.find(first[2]) is not None
    gate.revoked.add("ann")
    assert await sessions.find(first[2]) is None and sessions.count == 3 and await sessions.find("") is None
    now[0] = START + timedelta(hours=2)
    await sessions.begin("dan")
    assert sessions.count == 3 and await sessions.find(sessions_begun[1]) is None and await sessions.find(sessions_begun[0]) is not None
    assert not any(session in str(vars(sessions)) for session in sessions_begun)  # their digests are


async def test_a_form_of_another_site_signs_nobody_in_or_out(open_signed_site):
    """By what the browser says of where a request comes from. The control is the same request from this site."""
    async with open_signed_site() as (here, ann):
        key = await key_of(here.ledger)
        ours = f"http://{here.address}"
        for headers, status in (
            ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403), ({}, 403), ({"Origin": "null"}, 403),
            ({"Origin": "http://evil.example"}, 403), ({"Sec-Fetch-Site": "cross-site", "Origin": ours}, 403),
            ({"Origin": ours}, 303), ({"Sec-Fetch-Site": "none"}, 303), (SAME_SITE, 303),
        ):  # fmt: skip
            answer, text = await ann.sign_in(key, headers=headers)
            assert answer.status == status and ("another site" in text) is (status == 403), headers
        fields = await ann.hidden("/account")
        answer, _ = await ann.post("/sign-out", fields, {"Sec-Fetch-Site": "cross-site"})
        assert answer.status == 403 and "Signed in as" in (await ann.get("/"))[1]
        answer, _ = await ann.post("/sign-out", fields)
        assert answer.status == 303 and "Signed in as" not in (await ann.get("/"))[1]


async def test_a_form_needs_the_token_of_its_page(open_signed_site):
    """That of another session, of another browser or none is refused; the control is one's own."""
    async with open_signed_site() as (here, ann), reader(here.url()) as bob:
        keys = {name: await key_of(here.ledger, name) for name in ("ann", "bob")}
        strange = (await bob.hidden("/sign-in"))["token"]
        for token in ("", "x", strange):
            answer, text = await ann.sign_in(keys["ann"], token=token)
            assert answer.status == 403 and "earlier session" in text
        assert (await ann.sign_in(keys["ann"]))[0].status == 303 and (await bob.sign_in(keys["bob"]))[0].status == 303
        theirs, own_token = (await bob.hidden("/account"))["token"], (await ann.hidden("/account"))["token"]
        assert theirs != own_token
        for token, status in ((theirs, 403), ("", 403), (own_token, 303)):
            assert (await ann.post("/sign-out", {"token": token}))[0].status == status


async def test_without_its_cookie_no_form_is_taken(open_signed_site):
    """As a browser sends one from another site, for the cookies are SameSite=Strict: token and origin alone are not enough."""
    async with open_signed_site() as (here, ann), reader(here.url()) as stranger:
        fields = {**await ann.hidden("/sign-in"), "key": await key_of(here.ledger)}
        assert (await stranger.post("/sign-in", fields))[0].status == 403
        assert (await ann.post("/sign-in", fields))[0].status == 303


@pytest.mark.parametrize(("body", "kind"), [
    (b"key=x", "text/plain"), (b"{}", "application/json"), (b"\xff=%ff&" * 30, "application/x-www-form-urlencoded; charset=nothing"),
    (b"key=" + b"x" * 100_000, "application/x-www-form-urlencoded"), (b"", "multipart/form-data; boundary=x"),
])  # fmt: skip
async def test_what_is_no_form_is_refused(open_signed_site, body, kind):
    """In a sentence, and without a word in the log: anybody can send it."""
    async with open_signed_site() as (_, ann):
        log.configure("json", level=0)
        with structlog.testing.capture_logs() as logged:
            answer, text = await ann.post("/sign-in", data=body, headers={**SAME_SITE, "Content-Type": kind})
        assert answer.status == 403 and "Open the page again" in text and logged == []


async def test_sign_ins_that_are_looked_at_are_limited(open_signed_site):
    """An address has so many at once, and has to wait for more."""
    async with open_signed_site(sign_in_limits=PeerLimits(total=0, per_address=0)) as (here, ann):
        answer, text = await ann.sign_in(await key_of(here.ledger))
        assert answer.status == 429 and answer.headers["Retry-After"] == "5" and "Try again" in text


@pytest.mark.parametrize(("path", "goes"), [
    ("/problems?page=2", "/problems?page=2"), ("", "/submissions"), ("//evil.example", "/submissions"), ("/\\evil.example", "/submissions"),
    ("https://evil.example", "/submissions"), ("/a\r\nX: y", "/submissions"), ("/sign-in?next=/", "/submissions"),
])  # fmt: skip
def test_after_signing_in_one_stays_on_this_site(path, goes):
    """Whatever the address of the form asked for."""
    assert local_path(path) == goes


async def test_a_page_with_a_form_may_send_it_here_only(open_signed_site):
    """And no page without one may send any; nothing but our script runs in either."""
    async with open_signed_site() as (_, ann):
        policies = [(await ann.get(path))[0].headers["Content-Security-Policy"] for path in ("/sign-in", "/problems")]
        assert ["form-action 'self'" in policy for policy in policies] == [True, False] and "form-action 'none'" in policies[1]
        assert all("script-src 'self';" in policy and "unsafe" not in policy for policy in policies)


async def test_a_server_without_keys_has_no_sign_in(open_signed_site):
    """There would be nobody to be."""
    async with open_signed_site(open_server=True) as (_, ann):
        assert (await ann.get("/sign-in"))[0].status == (await ann.get("/account"))[0].status == 404
        assert "Sign in" not in (await ann.get("/"))[1]
