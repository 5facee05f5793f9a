"""A small identity provider on loopback, as OpenID Connect describes one, which can be told to do a thing wrong."""

import base64
import hashlib
import secrets
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode, urlsplit

from aiohttp import web
from joserfc import jwk, jwt

from grader_extensions.web.identities import IdentityProvider, claim_rules
from grader_extensions.web.sign_in import BEGIN
from grader_extensions.web.tests.signed_in import SAME_SITE, reader
from grader_extensions.web.tests.site import site
from tests.server.web_apps import served_app

CLIENT_ID, CLIENT_SECRET = "grader", "a secret: of +the client"
EMAIL = {"email": "ann@example.org", "email_verified": True}


class FakeProvider:
    """A provider whose answers are its attributes: tests change one.

    claims: of its user, over those that belong in a token (None: leave it out). sign: makes a token of claims. discovery: over what its
    document says. answer: of the token endpoint, in place of a token. in_authorization: over the parameters that a browser comes back with.
    """

    def __init__(self, now=None):
        self.now, self.url = now, ""
        self.keys = [jwk.RSAKey.generate_key(2048, {"kid": "first", "use": "sig", "alg": "RS256"})]
        self.claims, self.discovery, self.answer, self.in_authorization = {"sub": "248289761001", **EMAIL}, {}, None, {}
        self.sign, self.down, self.signed_in = self.signed, False, True
        self.paths = []
        self._codes = {}

    def signed(self, claims):
        return jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.keys[0])

    async def discover(self, request):
        document = {"issuer": self.url, "jwks_uri": f"{self.url}/keys"}
        document |= {f"{name}_endpoint": f"{self.url}/{name}" for name in ("authorization", "token")}
        return web.json_response(document | self.discovery)

    async def publish(self, request):
        return web.json_response(jwk.KeySet(self.keys).as_dict(private=False))

    async def authorize(self, request):
        """As if the user had typed a password. The code is of the client, the redirect and the challenge that were asked with."""
        query = dict(request.query)
        assert query["client_id"] == CLIENT_ID and query["response_type"] == "code" and query["code_challenge_method"] == "S256"
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe()
        self._codes[code] = query
        fields = {"state": query["state"], **({"code": code} if self.signed_in else {"error": "access_denied"}), **self.in_authorization}
        raise web.HTTPFound(f"{query['redirect_uri']}?{urlencode({name: value for name, value in fields.items() if value is not None})}")

    async def exchange(self, request):
        """A token for a code, to the client that proves itself and that has the verifier."""
        sent = dict(parse_qsl(await request.text()))
        pair = base64.b64decode(request.headers.get("Authorization", "Basic ").removeprefix("Basic ")).decode()
        in_body = f"{sent.get('client_id')}:{sent.get('client_secret')}"
        if pair != "grader:a+secret%3A+of+%2Bthe+client" and in_body != f"{CLIENT_ID}:{CLIENT_SECRET}":
            return web.json_response({"error": "invalid_client"}, status=401)
        query = self._codes.pop(sent.get("code"), None)  # it can be used once
        digest = base64.urlsafe_b64encode(hashlib.sha256(sent.get("code_verifier", "").encode()).digest()).decode().rstrip("=")
        if query is None or sent.get("redirect_uri") != query["redirect_uri"] or digest != query["code_challenge"]:
            return web.json_response({"error": "invalid_grant"}, status=400)
        if self.answer is not None:
            return self.answer
        now = int(self.now().timestamp())
        claims = {"iss": self.url, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": query["nonce"], **self.claims}
        token = self.sign({name: value for name, value in claims.items() if value is not None})
        return web.json_response({"access_token": "x", "token_type": "Bearer", "id_token": token})

    @web.middleware
    async def remember(self, request, handler):
        self.paths.append(request.path)
        if self.down:
            raise web.HTTPServiceUnavailable
        return await handler(request)


@asynccontextmanager
async def fake_provider(now=None):
    """Serve a provider, with the clock now, which may be set later."""
    provider = FakeProvider(now)
    routes = (
        web.get("/.well-known/openid-configuration", provider.discover),
        web.get("/keys", provider.publish),
        web.get("/authorization", provider.authorize),
        web.post("/token", provider.exchange),
    )
    async with served_app(*routes, middlewares=[provider.remember]) as port:
        provider.url = f"http://localhost:{port}"  # another site than 127.0.0.1, as a browser sees it
        yield provider


async def allowed_by(session, url):
    """Where the provider sends a browser back to: path and query."""
    async with session.get(url, allow_redirects=False) as answer:
        back = urlsplit(answer.headers["Location"])
    return f"{back.path}?{back.query}"


BACK = {"Sec-Fetch-Site": "cross-site"}
PUBLIC_URL = "http://127.0.0.1:1"


@asynccontextmanager
async def provider_site(place, rules=("@example.org",), public_url=PUBLIC_URL, **options):
    """The site, a browser, and the provider; each user of the provider that the rules allow may sign in."""
    async with fake_provider() as provider:
        settings = IdentityProvider(
            name="Example",
            issuer=provider.url,
            client_id=CLIENT_ID,
            client_secret=CLIENT_SECRET,
            public_url=public_url,
            rules=claim_rules(rules),
        )
        async with site(place, provider=settings, **options) as here, reader(here.url()) as ann:
            provider.now = here.clock
            yield here, ann, provider


async def began(browser, after=""):
    """The URL at the provider that a browser is sent to."""
    answer, _ = await browser.get(f"{BEGIN}?next={after}" if after else BEGIN, **SAME_SITE)
    assert answer.status == 303, answer
    return answer.headers["Location"]


async def sign_in(browser, after=""):
    """All of it; what the page that the browser comes back to is."""
    return await browser.get(await allowed_by(browser.session, await began(browser, after)), **BACK)


async def user_of(browser):
    """Return who has signed in; "" for nobody."""
    _, text = await browser.get("/")
    return text.partition("Signed in as <bdi>")[2].partition("<")[0]


def refused(answer, text, status=403):
    """Return whether this is a refusal that sets no session."""
    sets = [cookie.partition("=")[0] for cookie in answer.headers.getall("Set-Cookie", []) if "Max-Age=0" not in cookie]
    return answer.status == status and "<h1>Not signed in</h1>" in text and sets == []
