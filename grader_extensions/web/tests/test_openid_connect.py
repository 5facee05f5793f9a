"""Signing in with an identity provider: who gets a session, and everything at which nobody does.

Each refusal is one change to a sign-in that works; `test_a_user_of_the_provider_gets_a_session` is the control of all of them.
"""

import base64
import warnings
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import parse_qs, urlsplit

import pytest
import structlog
from aiohttp import web
from joserfc import jwk, jwt
from joserfc.errors import SecurityWarning
from joserfc.jws import JWSRegistry
from joserfc.registry import HeaderParameter

from grader.api.client import GraderClient
from grader.model import Scope
from grader.observability import log
from grader.peers import PeerLimits
from grader.server.running import serving
from grader_extensions.web.identities import CALLBACK
from grader_extensions.web.provider_sign_in import (
    ALGORITHMS,
    LEEWAY_S,
    SIGN_IN_COOKIE,
    SIGN_IN_LASTS,
    IdTokenInvalid,
    SigningKeyUnknown,
    signing_keys,
    verified_claims,
)
from grader_extensions.web.sessions import COOKIE
from grader_extensions.web.sign_in import API_KEY_LASTS, BEGIN
from grader_extensions.web.tests.identity_provider import (
    BACK,
    CLIENT_ID,
    CLIENT_SECRET,
    PUBLIC_URL,
    allowed_by,
    began,
    fake_provider,
    refused,
    sign_in,
    user_of,
)
from grader_extensions.web.tests.signed_in import SAME_SITE, hidden, key_of, reader
from grader_extensions.web.tests.site import START, site
from tests import fakes
from tests.forged_tokens import FOREIGN, FORGERIES, IN_HEADER, modulus

TLS = {"X-Forwarded-Proto": "https"}


async def test_a_user_of_the_provider_gets_a_session(open_provider_site):
    """The sign-in page leads to the provider; who comes back goes on to where the link was, as a user of their own, with a new session."""
    async with open_provider_site() as (_here, ann, provider):
        _, text = await ann.get("/sign-in?next=/problems?page=2")
        assert f'<a href="{BEGIN}?next=/problems%3Fpage%3D2">Sign in with Example</a>' in text and 'name="key"' in text
        answer, text = await sign_in(ann, "/problems?page=2")
        assert answer.status == 200 and 'content="0; url=/problems?page=2"' in text and answer.headers["Cache-Control"] == "no-store"
        user = await user_of(ann)
        assert user.startswith("ann-") and len(user) == len("ann-") + 6
        assert SIGN_IN_COOKIE not in ann.cookies() and len(ann.cookies()[COOKIE]) >= 43
        _, text = await ann.get("/account")
        assert f"<dd>{provider.url}</dd>" in text and "<dd>248289761001</dd>" in text and "<dd>read, submit</dd>" in text
        assert (await ann.get("/submissions"))[0].status == 200
        await ann.sign_out()
        assert await user_of(ann) == ""


async def test_what_goes_to_the_provider_is_what_openid_connect_asks_for(open_provider_site):
    """A code with PKCE; state, nonce and challenge of 256 bits, new each time; and the redirect to the public address, whatever Host."""
    async with open_provider_site() as (_here, ann, _provider):
        queries = [{name: value for name, (value,) in parse_qs(urlsplit(await began(ann)).query).items()} for _ in range(2)]
        for query in queries:
            assert query["response_type"] == "code" and query["code_challenge_method"] == "S256" and query["client_id"] == CLIENT_ID
            assert query["redirect_uri"] == f"{PUBLIC_URL}{CALLBACK}"
        values = [parameters[name] for parameters in queries for name in ("state", "nonce", "code_challenge")]
        assert len(set(values)) == 6 and all(len(base64.urlsafe_b64decode(value + "=")) == 32 for value in values)
        answer, _ = await ann.get(BEGIN, Host="localhost:5", **SAME_SITE)
        assert parse_qs(urlsplit(answer.headers["Location"]).query)["redirect_uri"] == [f"{PUBLIC_URL}{CALLBACK}"]


CHANGES = {
    "an address that is not verified": ({"email_verified": False}, "may not use this server"),
    "another nonce": ({"nonce": "another"}, "claim &#39;nonce&#39; is missing or wrong"),
    "expired": ({"exp": int(START.timestamp()) - 61}, "it has expired"),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_token_with_other_claims_signs_nobody_in(open_provider_site, change):
    """And the page says which is wrong. test_a_token_for_something_else_is_refused has every claim."""
    changed, expected = CHANGES[change]
    async with open_provider_site() as (_, ann, provider):
        provider.claims |= changed
        answer, text = await sign_in(ann)
        assert refused(answer, text) and expected in text and await user_of(ann) == ""


@pytest.mark.parametrize("forge", FORGERIES)
async def test_a_token_that_the_provider_did_not_sign_signs_nobody_in(open_provider_site, forge):
    """test_a_forged_token_is_refused has the control: who allows these algorithms and keys accepts the same tokens."""
    async with open_provider_site() as (_, ann, provider):
        provider.sign = partial(FORGERIES[forge], provider.keys[0])
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "was not accepted: it" in text and await user_of(ann) == ""


async def test_a_sign_in_that_another_browser_began_is_refused(open_provider_site):
    """Else whoever signs in could have somebody else's browser go on as them. The control is the browser that began."""
    async with open_provider_site() as (here, ann, _provider), reader(here.url()) as bob:
        path = await allowed_by(ann.session, await began(ann))
        answer, text = await bob.get(path, **BACK)
        assert refused(answer, text) and "did not begin this sign-in" in text
        await began(bob)
        answer, text = await bob.get(path, **BACK)
        assert refused(answer, text) and await user_of(bob) == ""
        assert (await ann.get(path, **BACK))[0].status == 200 and await user_of(ann) != ""


@pytest.mark.parametrize("state", ["", "x", None])
async def test_a_wrong_state_is_refused(open_provider_site, state):
    """Or none; and the code is not even sent to the provider."""
    async with open_provider_site() as (_, ann, provider):
        provider.in_authorization = {"state": state}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "did not begin this sign-in" in text and "/token" not in provider.paths


async def test_a_state_is_good_for_once(open_provider_site):
    """Also with its cookie, and with a code that was not used: this server knows it itself."""
    async with open_provider_site() as (_, ann, provider):
        url = await began(ann)
        cookie = f"{SIGN_IN_COOKIE}={ann.cookies()[SIGN_IN_COOKIE]}"
        first, second = [await allowed_by(ann.session, url) for _ in range(2)]
        assert (await ann.get(first, **BACK, Cookie=cookie))[0].status == 200
        for path in (first, second):
            answer, text = await ann.get(path, **BACK, Cookie=cookie)
            assert refused(answer, text) and "can be used once" in text
        assert provider.paths.count("/token") == 1


async def test_a_code_is_good_for_once(open_provider_site):
    """A code that comes again, in a new sign-in of the same browser, is refused by the provider, and the page says so."""
    async with open_provider_site() as (_, ann, provider):
        path = await allowed_by(ann.session, await began(ann))
        await ann.get(path, **BACK)
        (code,) = parse_qs(urlsplit(path).query)["code"]
        provider.in_authorization = {"code": code}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "used before, or has expired" in text


async def test_a_code_of_another_browser_is_of_no_use(open_provider_site):
    """A reader of somebody's code can't put it into a sign-in of their own: PKCE binds it to the sign-in that began."""
    async with open_provider_site() as (here, ann, provider), reader(here.url()) as mallory:
        path = await allowed_by(ann.session, await began(ann))
        provider.in_authorization = {"code": parse_qs(urlsplit(path).query)["code"][0]}
        answer, text = await sign_in(mallory)
        assert refused(answer, text) and "did not accept this sign-in" in text and await user_of(mallory) == ""


@pytest.mark.parametrize(("later", "status"), [(SIGN_IN_LASTS - timedelta(seconds=1), 200), (SIGN_IN_LASTS, 403)])
async def test_a_sign_in_ends_after_ten_minutes(open_provider_site, later, status):
    """Whatever the browser does with the cookie."""
    async with open_provider_site() as (here, ann, _provider):
        url = await began(ann)
        cookie = f"{SIGN_IN_COOKIE}={ann.cookies()[SIGN_IN_COOKIE]}"
        here.clock.now += later
        assert (await ann.get(await allowed_by(ann.session, url), **BACK, Cookie=cookie))[0].status == status


async def test_a_session_is_new_each_time(open_provider_site):
    """A cookie that was there before is of no use after, neither a session's nor any text: nobody can choose what a session is known by."""
    async with open_provider_site() as (here, ann, _provider), reader(here.url()) as mallory:
        await mallory.sign_in(await key_of(here.ledger, "mallory"))
        planted = mallory.cookies()[COOKIE]
        for value in (planted, "x" * 43):
            path = await allowed_by(ann.session, await began(ann))
            begun = f"{SIGN_IN_COOKIE}={ann.cookies()[SIGN_IN_COOKIE]}"
            ann.session.cookie_jar.clear()
            answer, _ = await ann.get(path, **BACK, Cookie=f"{begun}; {COOKIE}={value}")
            assert answer.status == 200 and answer.cookies[COOKIE].value != value
            assert (await user_of(ann)).startswith("ann-")
            _, text = await mallory.get("/", Cookie=f"{COOKIE}={value}")
            assert "Signed in as" not in text


@pytest.mark.parametrize(
    "after", ["//evil.example", "/\\evil.example", "https://evil.example", "/sign-in", "javascript:alert(1)", "/a%0d%0aX: y"]
)
async def test_after_signing_in_one_stays_on_this_site(open_provider_site, after):
    """Whatever the link asked for; and the cookie that keeps it can't be changed. The control is a path of this site, above."""
    async with open_provider_site() as (_, ann, _provider):
        _, text = await sign_in(ann, after)
        assert 'content="0; url=/submissions"' in text and "evil" not in text


async def test_a_changed_cookie_is_refused(open_provider_site):
    """Its time and its way on are part of what the state is made from."""
    async with open_provider_site() as (_, ann, _provider):
        path = await allowed_by(ann.session, await began(ann))
        seed, time, after = ann.cookies()[SIGN_IN_COOKIE].split(".")
        ann.session.cookie_jar.clear()
        evil = base64.urlsafe_b64encode(b"//evil.example").decode().rstrip("=")
        for value in (f"{seed}.{time}.{evil}", f"{seed}.{int(time) + 1}.{after}", f"{'x' * 43}.{time}.{after}", "x", ""):
            answer, text = await ann.get(path, **BACK, Cookie=f"{SIGN_IN_COOKIE}={value}")
            assert refused(answer, text) and "did not begin" in text
        assert (await ann.get(path, **BACK, Cookie=f"{SIGN_IN_COOKIE}={seed}.{time}.{after}"))[0].status == 200


async def test_the_cookie_of_a_sign_in_comes_back_with_the_provider_s_redirect_only(open_provider_site):
    """Lax, not Strict: the redirect is another site's. For no script, for ten minutes, and over TLS with the prefix of a host's own."""
    async with open_provider_site() as (_, ann, _provider):
        for headers, name, secure in (({}, SIGN_IN_COOKIE, False), (TLS, f"__Host-{SIGN_IN_COOKIE}", True)):
            answer, _ = await ann.get(BEGIN, **SAME_SITE, **headers)
            cookie = answer.headers["Set-Cookie"]
            assert cookie.startswith(f"{name}=") and ("Secure" in cookie) is secure
            assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Max-Age=600" in cookie


@pytest.mark.parametrize("source", ["cross-site", "same-site"])
async def test_another_site_begins_no_sign_in(open_provider_site, source):
    """Else a link could change who a browser is signed in as. The control: from this site, and a typed address."""
    async with open_provider_site() as (_, ann, _provider):
        answer, text = await ann.get(BEGIN, **{"Sec-Fetch-Site": source})
        assert refused(answer, text) and "The link was on another site. Begin at" in text
        for good in (SAME_SITE, {"Sec-Fetch-Site": "none"}, {}):
            assert (await ann.get(BEGIN, **good))[0].status == 303


async def test_nobody_signs_in_over_a_connection_that_others_can_read(open_provider_site):
    """Neither begins nor comes back, and the page has no link."""
    async with open_provider_site() as (_, ann, _provider):
        path, plain = await allowed_by(ann.session, await began(ann)), {"Host": "grader.example"}
        assert BEGIN not in (await ann.get("/sign-in", **plain))[1]
        for address in (BEGIN, path):
            answer, text = await ann.get(address, **plain)
            assert answer.status == 403 and "not encrypted" in text


async def test_a_user_who_refuses_at_the_provider_is_told_so(open_provider_site):
    """With the provider's word for it, if it is one."""
    async with open_provider_site() as (_, ann, provider):
        provider.signed_in = False
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "Example did not sign you in (access_denied)." in text
        provider.in_authorization = {"error": "<script>"}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "Example did not sign you in. " in text and text.count("script") == 2 * text.count("<script src=")


@pytest.mark.parametrize("issuer", [None, "https://evil.example"])
async def test_an_answer_says_which_provider_it_is_of(open_provider_site, issuer):
    """Where the provider always says so, an answer without it, or of another, is refused (RFC 9207). The control names it."""
    async with open_provider_site() as (_, ann, provider):
        provider.discovery = {"authorization_response_iss_parameter_supported": True}
        provider.in_authorization = {"iss": issuer}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "another provider" in text
        provider.in_authorization = {"iss": provider.url}
        assert (await sign_in(ann))[0].status == 200


BROKEN = {
    "down": lambda provider: setattr(provider, "down", True),
    "another issuer's document": lambda provider: provider.discovery.update(issuer="https://evil.example"),
    "an endpoint in plain text": lambda provider: provider.discovery.update(token_endpoint="http://evil.example/token"),
    "no endpoint": lambda provider: provider.discovery.update(authorization_endpoint=None),
    "keys in plain text": lambda provider: provider.discovery.update(jwks_uri="http://evil.example/keys"),
    "no keys": lambda provider: provider.discovery.update(jwks_uri=f"{provider.url}/.well-known/openid-configuration"),
    "a host that has no name": lambda provider: provider.discovery.update(jwks_uri=f"https://{'x' * 64}.example/keys"),
    "no way to send the secret": lambda provider: provider.discovery.update(token_endpoint_auth_methods_supported=["tls_client_auth"]),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_provider_that_is_down_or_wrong_gives_one_sentence(open_provider_site, broken):
    """Signing in with a key goes on; the log has the reason. It is asked again after five seconds, and works once the provider does."""
    async with open_provider_site() as (here, ann, provider):
        BROKEN[broken](provider)
        log.configure("json", level=0)
        with structlog.testing.capture_logs() as logged:
            answer, text = await ann.get(BEGIN, **SAME_SITE)
        assert refused(answer, text, 503) and "Example does not answer as it should. Try again in a few minutes" in text
        assert [event["log_level"] for event in logged if event["event"] == "provider_sign_in_refused"] == ["warning"]
        assert (await ann.sign_in(await key_of(here.ledger)))[0].status == 303
        provider.down, provider.discovery, request_count = False, {}, len(provider.paths)
        assert (await ann.get(BEGIN, **SAME_SITE))[0].status == 503 and len(provider.paths) == request_count
        here.clock.now += timedelta(seconds=5)
        assert (await sign_in(ann))[0].status == 200


ANSWERS = {
    "no token": lambda: web.json_response({"access_token": "x"}),
    "an error": lambda: web.json_response({"error": "server_error"}, status=500),
    "no JSON": lambda: web.Response(text="<html>"),
    "deep JSON": lambda: web.Response(text="[" * 100_000),
    "a list": lambda: web.json_response([1]),
    "a redirect": lambda: web.Response(status=307, headers={"Location": "http://evil.example/"}),
    "too much": lambda: web.Response(text="x" * 300_000),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_a_provider_that_gives_no_token_gives_the_same_sentence(open_provider_site, case):
    """And no exception in the log."""
    async with open_provider_site() as (_, ann, provider):
        url, provider.answer = await began(ann), ANSWERS[case]()
        log.configure("json", level=0)
        with structlog.testing.capture_logs() as logged:
            answer, text = await ann.get(await allowed_by(ann.session, url), **BACK)
        assert refused(answer, text, 503) and "does not answer as it should" in text
        assert "page_failed" not in {event["event"] for event in logged} and CLIENT_SECRET not in str(logged)


async def test_a_new_key_of_the_provider_is_found(open_provider_site):
    """A token signed with an unknown key has the keys read again, at most every ten seconds."""
    async with open_provider_site() as (here, ann, provider):
        await sign_in(ann)
        key = jwk.ECKey.generate_key("P-256", {"kid": "second", "use": "sig", "alg": "ES256"})
        provider.sign = lambda claims: jwt.encode({"alg": "ES256", "kid": "second"}, claims, key)
        for later_s, published, count in ((0, False, 1), (10, False, 2), (19, True, 2), (20, True, 3), (21, True, 3)):
            here.clock.now = START + timedelta(seconds=later_s)
            provider.keys[1:] = [key] if published else []
            answer, _text = await sign_in(ann)
            assert answer.status == (200 if later_s >= 20 else 403), later_s
            assert provider.paths.count("/keys") == count, later_s


@pytest.mark.parametrize("header", [{"alg": "RS256", "kid": "first"}, {"alg": "RS256"}])
async def test_a_new_key_without_a_new_id_is_found(open_provider_site, header):
    """Of a provider that gives each key the same id, or none."""
    async with open_provider_site() as (here, ann, provider):
        assert (await sign_in(ann))[0].status == 200
        provider.keys = [jwk.RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})]
        provider.sign = lambda claims: jwt.encode(header, claims, provider.keys[0])
        here.clock.now += timedelta(seconds=10)
        assert (await sign_in(ann))[0].status == 200 and provider.paths.count("/keys") == 2


async def test_without_a_code_the_provider_is_not_asked(open_provider_site):
    """Else anybody could fill the log with warnings about a provider that works."""
    async with open_provider_site() as (_, ann, provider):
        provider.in_authorization = {"code": None}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and "did not accept this sign-in" in text and "/token" not in provider.paths


async def test_the_secret_goes_as_the_provider_asks(open_provider_site):
    """In the header, or in the body where the provider takes no other; never to a browser."""
    async with open_provider_site() as (_here, ann, provider):
        provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
        answer, text = await sign_in(ann)
        assert answer.status == 200 and CLIENT_SECRET not in text and CLIENT_SECRET not in str(answer.headers)


async def test_sign_ins_that_are_looked_at_are_limited(open_provider_site):
    """Those by key are counted apart."""
    async with open_provider_site(sign_in_limits=PeerLimits(total=0, per_address=0)) as (_, ann, provider):
        answer, text = await ann.get(BEGIN, **SAME_SITE)
        assert refused(answer, text, 429) and "Try again in a few seconds" in text and provider.paths == []


async def test_the_policy_of_the_pages_is_as_narrow_as_before(open_provider_site):
    """A link leads to the provider: no form may be sent there, and none on the page that comes back; nothing but our script runs."""
    async with open_provider_site() as (_, ann, provider):
        answer, _ = await sign_in(ann)
        policies = [answer.headers["Content-Security-Policy"], (await ann.get("/sign-in"))[0].headers["Content-Security-Policy"]]
        assert answer.headers["Referrer-Policy"] == "no-referrer"  # the code is in the page's address
        assert "form-action 'none'" in policies[0] and "form-action 'self';" in f"{policies[1]};" and provider.url not in str(policies)
        assert all("script-src 'self';" in policy and "unsafe" not in policy for policy in policies)


async def test_without_a_provider_there_is_nothing_of_it(tmp_path):
    """No address, no link, no form for a key."""
    async with site(tmp_path) as here, reader(here.url()) as ann:
        assert [(await ann.get(address))[0].status for address in (BEGIN, CALLBACK)] == [404, 404]
        assert "provider" not in (await ann.get("/sign-in"))[1]
        assert (await ann.post("/account/key"))[0].status in (404, 405)


NOW = datetime(2026, 5, 1, tzinfo=UTC)
KEY = jwk.RSAKey.generate_key(2048, {"kid": "first"})
NOW_S = int(NOW.timestamp())
CLAIMS = {"iss": "https://login.example.org", "aud": "grader", "sub": "1", "nonce": "n", "iat": NOW_S, "exp": NOW_S + 300}
WANTED = {"issuer": "https://login.example.org", "client_id": "grader", "nonce": "n", "now": NOW}


def public(*keys):
    return signing_keys(jwk.KeySet(list(keys)).as_dict(private=False))


def signed(key=KEY, header=None, **changes):
    claims = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return jwt.encode(header or {"alg": "RS256", "kid": key.kid}, claims, key)


def test_a_good_token_gives_its_claims():
    for changes in ({}, {"aud": ["grader"]}, {"aud": ["grader", "other"], "azp": "grader"}):
        assert verified_claims(signed(**changes), public(KEY), **WANTED)["sub"] == "1"


# The algorithm and the key that make a forged token as good as any. Of the others there is none: joserfc takes no public key as a secret,
# and no key fits what was changed afterwards.
CONTROLS = {
    "unsigned": ("none", KEY),
    "by_public_modulus": ("HS256", modulus(KEY)),
    "by_another_key": ("RS256", jwk.RSAKey.import_key(FOREIGN.as_dict(), {"kid": "first"})),
    "by_a_key_that_comes_along": ("ES256", IN_HEADER),
}


@pytest.mark.parametrize("forge", FORGERIES)
def test_a_forged_token_is_refused(forge):
    """The control allows the algorithm, or trusts the key: then the same token is as good as any."""
    token = FORGERIES[forge](KEY, dict(CLAIMS))
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)
    if forge in CONTROLS:
        algorithm, key = CONTROLS[forge]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)
            assert verified_claims(token, jwk.KeySet([key]), **WANTED, algorithms=[algorithm])["sub"] == "1"


def test_only_signatures_with_public_keys_are_taken():
    """Neither none nor a shared secret; and a symmetric key in the provider's document is left out."""
    assert not [algorithm for algorithm in ALGORITHMS if algorithm == "none" or algorithm.startswith("HS")]
    assert not signing_keys({"keys": [modulus(KEY).as_dict(private=True), {"kty": "RSA"}, {"kty": "new"}, "x", None]}).keys
    assert not any(signing_keys(document).keys for document in ({}, {"keys": 5}, {"keys": {}}, {"keys": None}))
    assert [key.kid for key in public(KEY)] == ["first"]


@pytest.mark.parametrize(
    ("changes", "accepts"),
    [
        ({"iss": "https://evil.example"}, {"issuer": "https://evil.example"}),
        ({"iss": "https://login.example.org/"}, {"issuer": "https://login.example.org/"}),
        ({"aud": "other"}, {"client_id": "other"}),
        ({"aud": ["other"]}, {"client_id": "other"}),
        ({"aud": ["grader", "other"], "azp": "other"}, {"client_id": "other"}),
        ({"nonce": "m"}, {"nonce": "m"}),
        ({"exp": NOW_S - LEEWAY_S}, {"now": NOW - timedelta(seconds=1)}),
        ({"iat": NOW_S + LEEWAY_S + 1}, {"now": NOW + timedelta(seconds=1)}),
        ({"nbf": NOW_S + LEEWAY_S + 1}, {"now": NOW + timedelta(seconds=1)}),
    ],
)
def test_a_token_for_something_else_is_refused(changes, accepts):
    """The control wants what the token is for."""
    token = signed(**changes)
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)
    assert verified_claims(token, public(KEY), **{**WANTED, **accepts})["sub"] == "1"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["grader", "other"]}, {"aud": []}, {"aud": {}}, {"nonce": ["n"]}, {"nonce": ""}, {"sub": "x" * 256}, {"sub": 1},
        {"sub": "a\nb"}, {"sub": ""}, {"iss": ["https://login.example.org"]}, {"exp": "tomorrow"}, {"exp": True}, {"azp": "other"},
        *({name: None} for name in CLAIMS),
    ],
)  # fmt: skip
def test_a_token_with_a_claim_of_another_form_is_refused(changes):
    with pytest.raises(IdTokenInvalid):
        verified_claims(signed(**changes), public(KEY), **WANTED)


def test_a_token_needs_a_key_that_is_published():
    """By its id; without an id there may be one key only. The error says that the key may be new."""
    second = jwk.ECKey.generate_key("P-256", {"kid": "second"})
    token = signed(second, {"alg": "ES256", "kid": "second"})
    with pytest.raises(SigningKeyUnknown):
        verified_claims(token, public(KEY), **WANTED)
    assert verified_claims(token, public(KEY, second), **WANTED)
    nameless = signed(KEY, {"alg": "RS256"})
    assert verified_claims(nameless, public(KEY), **WANTED)
    with pytest.raises(SigningKeyUnknown):
        verified_claims(nameless, public(KEY, second), **WANTED)


@pytest.mark.parametrize("token", ["", "x", "a.b", "a.b.c", "e30.e30.", "." * 1000, "x" * 500_000, "\ud800", "é.é.é", f"{'[' * 9000}"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(IdTokenInvalid):
        verified_claims(token, public(KEY), **WANTED)


def test_a_critical_header_that_is_not_known_is_refused():
    """And one that is not critical is of no concern."""
    header = {"alg": "RS256", "kid": "first", "new": 1}
    loose = JWSRegistry(strict_check_header=False)
    assert verified_claims(jwt.encode(header, dict(CLAIMS), KEY, registry=loose), public(KEY), **WANTED)
    critical = JWSRegistry({"new": HeaderParameter("of a newer standard", "int")}, strict_check_header=False)
    with pytest.raises(IdTokenInvalid):
        verified_claims(jwt.encode({**header, "crit": ["new"]}, dict(CLAIMS), KEY, registry=critical), public(KEY), **WANTED)


def key_shown(text):
    """The API key on a page, which is shown once."""
    return text.partition('<pre tabindex="0">')[2].partition("<")[0]


async def test_a_user_is_known_by_issuer_and_subject_only(open_provider_site):
    """Another name and address at the provider change nothing; the same address of another subject is another user."""
    async with open_provider_site(rules=("anyone",)) as (here, ann, provider):
        await sign_in(ann)
        first = await user_of(ann)
        provider.claims |= {"email": "new@example.org", "preferred_username": "root"}
        await sign_in(ann)
        assert await user_of(ann) == first
        provider.claims = {**provider.claims, "email": "ann@example.org", "preferred_username": None, "sub": "another"}
        await sign_in(ann)
        second = await user_of(ann)
        assert second.startswith("ann-") and second != first
        provider.claims |= {"sub": "third", "email_verified": False}
        await sign_in(ann)
        assert (await user_of(ann)).startswith("user-")
        assert len(await here.ledger.keys.all()) == 3


async def test_revoking_the_key_of_a_user_s_sessions_ends_everything(open_provider_site):
    """The session, the API key that was made in it, and signing in again; another user goes on."""
    async with open_provider_site(rules=("anyone",)) as (here, ann, provider), reader(here.url()) as bob:
        await sign_in(ann)
        user = await user_of(ann)
        _, text = await ann.post("/account/key", await ann.hidden("/account"))
        api_key = key_shown(text)
        assert (await here.gate.open_with(api_key)).user == user
        provider.claims |= {"sub": "bob", "email": "bob@example.org"}
        await sign_in(bob)
        (session_key,) = [key for key in await here.ledger.keys.all() if key.user == user and key.note == "sign-in with Example"]
        await here.ledger.keys.revoke(session_key.key_id)
        here.gate._read_s = float("-inf")  # two seconds later
        assert await user_of(ann) == "" and await user_of(bob) != ""
        assert not [key for key in await here.ledger.keys.all() if key.user == user and key.valid(here.clock.now)]
        provider.claims |= {"sub": "248289761001"}
        answer, text = await sign_in(ann)
        assert refused(answer, text) and f"An administrator has ended the access of {user}" in text


async def test_a_user_makes_one_api_key_and_replaces_it(open_provider_site):
    """Shown once, for thirty days, with the scopes of the session; the one before is revoked."""
    async with open_provider_site() as (here, ann, _provider):
        await sign_in(ann)
        user, api_keys = await user_of(ann), []
        for _ in range(2):
            answer, text = await ann.post("/account/key", await ann.hidden("/account"))
            assert answer.status == 200 and answer.headers["Cache-Control"] == "no-store" and "shown this once" in text
            api_keys.append(key_shown(text))
        _, text = await ann.get("/account")
        assert api_keys[1].split("_")[1] in text and not any(key_text in text for key_text in api_keys) and "Replace the API key" in text
        here.gate._read_s = float("-inf")
        caller = await here.gate.open_with(api_keys[1])
        assert (caller.user, caller.scopes) == (user, {Scope.SUBMIT, Scope.READ}) and caller.expire_time == here.clock.now + API_KEY_LASTS
        (first,) = [key for key in await here.ledger.keys.all() if key.key_id == api_keys[0].split("_")[1]]
        assert first.revoke_time is not None


async def test_a_key_makes_no_other_key(open_provider_site):
    """Nor does another site's form, one without the page's token, or nobody. The control is above."""
    async with open_provider_site() as (here, ann, _provider), reader(here.url()) as bob:
        await bob.sign_in(await key_of(here.ledger, "bob"))
        page = (await bob.get("/account"))[1]
        assert "Make an API key" not in page and (await bob.post("/account/key", hidden(page)))[0].status == 404
        await sign_in(ann)
        fields = await ann.hidden("/account")
        for sent, headers in ((fields, BACK), ({"token": "x"}, SAME_SITE), (fields, {})):
            assert (await ann.post("/account/key", sent, headers))[0].status == 403
        async with reader(here.url()) as nobody:
            assert (await nobody.post("/account/key", fields))[0].headers["Location"].startswith("/sign-in")
        assert len(await here.ledger.keys.all()) == 2


async def test_a_server_with_these_options_takes_what_the_user_submits(settings, kernel, tmp_path):
    """All the way: options, sign-in, an API key made on the page, and the API, where the user is the same one."""
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET)
    secret.chmod(0o600)
    async with fake_provider(lambda: datetime.now(UTC)) as provider:
        options = {
            "web": "127.0.0.1:0", "auth": "keys", "public_url": PUBLIC_URL, "oidc_issuer": provider.url, "oidc_client_id": CLIENT_ID,
            "oidc_client_secret_file": secret, "oidc_name": "Example", "oidc_allow": ("@example.org",),
        }  # fmt: skip
        async with serving(settings.model_copy(update=options), fakes.wiring()) as running, reader(f"http://{running.web_address}") as ann:
            await sign_in(ann)
            _, text = await ann.post("/account/key", await ann.hidden("/account"))
            async with GraderClient(running.address, key=key_shown(text)) as client:
                submission = await client.submit(kernel("accept"))
                assert (await client.get_submission(submission.name)).user == await user_of(ann) != ""
            assert submission.name.rpartition("/")[2] in (await ann.get("/submissions"))[1]
