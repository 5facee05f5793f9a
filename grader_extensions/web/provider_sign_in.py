"""Signing in with an identity provider: off to it, and back with a code, in one browser and once.

A cookie says which browser began. State, nonce and PKCE's verifier are made from it with a secret of this process, so that nothing is kept
for a stranger who begins.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from logging import INFO, WARNING
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import aiohttp
import structlog
from aiohttp import web
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwk, jwt
from joserfc.errors import BadSignatureError, ClaimError, ExpiredTokenError, InvalidKeyIdError, JoseError
from joserfc.jws import JWSRegistry

from grader.errors import Unauthenticated
from grader.peers import PeerCount, PeerLimits
from grader_extensions.web.forms import check_private
from grader_extensions.web.identities import IdentityProvider, safe_endpoint, user_names
from grader_extensions.web.provider_users import Identities
from grader_extensions.web.sessions import COOKIE, LASTS, Sessions, delete_cookie, read_cookie, session_token, set_cookie
from grader_extensions.web.sign_in import local_path
from grader_extensions.web.site import Site, counted

# The provider's side: discovery, the authorization URL, and a code exchanged for verified claims.
# Authlib makes the requests and knows the rules of claims, joserfc verifies signatures; what is sent goes through aiohttp's client.

SCOPES = "openid email profile"
ANSWER_S = 10.0  # for one request to the provider
ANSWER_BYTES = 256 * 1024
# Public-key signatures only. With "none", or with HS256 and the public key as its secret, anybody could sign.
ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA", "Ed25519")
LEEWAY_S = 60  # between the provider's clock and ours
SUBJECT_CHARS = 255
_KEY_TYPES = ("RSA", "EC", "OKP")  # no "oct": a symmetric key in a public document is nobody's
_METADATA_LASTS = timedelta(hours=1)  # so long the provider's addresses and keys are not read again
_NEW_KEYS_AFTER = timedelta(seconds=10)  # a token signed with an unknown key has the keys read again, at most so often
_RETRY_AFTER = timedelta(seconds=5)  # so long a provider that failed is not asked again: one that hangs must not keep everybody waiting
_DISCOVERY = "/.well-known/openid-configuration"
_BASIC, _POST = "client_secret_basic", "client_secret_post"


class ProviderFailed(Exception):
    """The provider does not answer, or not as OpenID Connect says. The text is for the log; users learn that it is not their fault."""


class SignInRefused(Exception):
    """Nobody is signed in. The text says why, and what to do."""

    def __init__(self, text: str, status: int = 403) -> None:
        self.status = status
        super().__init__(text)


class IdTokenInvalid(Exception):
    """The token proves nothing. The text says why, for a reader and for the log."""


class SigningKeyUnknown(IdTokenInvalid):
    """The key that signed the token is not among the provider's, or not the one of its id. It may be new."""


class Metadata(NamedTuple):
    """Document of a provider about itself, in the names of OpenID Connect Discovery; its keys; how it takes a client's secret."""

    document: Mapping[str, Any]
    keys: jwk.KeySet
    auth_method: str


class OpenIdProvider:
    """Used on one event loop only."""

    def __init__(self, settings: IdentityProvider, now: Callable[[], datetime]) -> None:
        self.settings, self._now = settings, now
        self._cached: tuple[datetime, Metadata] | None = None  # and when it was read
        self._failure: tuple[datetime, str] | None = None  # the last one, and when
        self._reading = asyncio.Lock()

    async def authorization_url(self, *, state: str, nonce: str, verifier: str) -> str:
        """Return the address at which a browser signs in; ProviderFailed. verifier: the secret of PKCE, of which only a digest is in it."""
        proof = {"state": state, "nonce": nonce, "code_challenge": create_s256_code_challenge(verifier), "code_challenge_method": "S256"}
        metadata, settings = await self._metadata(), self.settings
        endpoint = metadata.document["authorization_endpoint"]
        return str(prepare_grant_uri(endpoint, settings.client_id, "code", redirect_uri=settings.redirect_uri, scope=SCOPES, **proof))

    async def check_sender(self, issuer: str | None) -> None:
        """IdTokenInvalid where an answer to a browser names another issuer, or none although the provider always does (RFC 9207)."""
        if issuer == self.settings.issuer:
            return
        names_issuer = "authorization_response_iss_parameter_supported"
        if issuer is not None or (await self._metadata()).document.get(names_issuer) is True:
            raise IdTokenInvalid("it comes from another provider")

    async def claims(self, code: str, *, verifier: str, nonce: str) -> dict[str, Any]:
        """Return the verified claims of the user who got this code; ProviderFailed, SignInRefused, IdTokenInvalid."""
        token, settings = await self._token(code, verifier), self.settings
        verified = partial(verified_claims, token, issuer=settings.issuer, client_id=settings.client_id, nonce=nonce, now=self._now())
        try:
            return verified((await self._metadata()).keys)
        except SigningKeyUnknown:
            return verified((await self._metadata(older=_NEW_KEYS_AFTER)).keys)

    async def _token(self, code: str, verifier: str) -> str:
        refusal = SignInRefused(f"{self.settings.name} did not accept this sign-in: it was used before, or has expired. Begin again.")
        if not code:
            raise refusal
        metadata, client = await self._metadata(), (self.settings.client_id, self.settings.client_secret)
        body = prepare_token_request("authorization_code", redirect_uri=self.settings.redirect_uri, code=code, code_verifier=verifier)
        if metadata.auth_method == _BASIC:  # RFC 6749, 2.3.1: both parts are encoded as in a form first, which Authlib leaves out
            client = quote_plus(client[0]), quote_plus(client[1])
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        endpoint = metadata.document["token_endpoint"]
        url, headers, body = ClientAuth(*client, metadata.auth_method).prepare("POST", endpoint, headers, body)
        status, answer = await self._request("POST", url, data=body, headers=headers)
        if status == 400 and answer.get("error") == "invalid_grant":
            raise refusal
        if status != 200 or not isinstance(answer.get("id_token"), str):
            raise ProviderFailed(f"{url} answered {status}, error {str(answer.get('error'))[:80]!r}, and no ID token")
        return str(answer["id_token"])

    async def _metadata(self, *, older: timedelta = _METADATA_LASTS) -> Metadata:
        """Return what the provider says of itself, read again where what is cached is older."""
        async with self._reading:
            if self._cached is not None and self._cached[0] > self._now() - older:
                return self._cached[1]
            if self._failure is not None and self._failure[0] > self._now() - _RETRY_AFTER:
                raise ProviderFailed(self._failure[1])
            try:
                metadata = await self._read_metadata()
            except ProviderFailed as error:
                self._failure = self._now(), str(error)
                raise
            self._cached = self._now(), metadata
            return metadata

    async def _read_metadata(self) -> Metadata:
        where, issuer = self.settings.issuer.rstrip("/") + _DISCOVERY, self.settings.issuer
        document = await self._document(where)
        if document.get("issuer") != issuer:
            text = f"{where} is of the issuer {str(document.get('issuer'))[:200]!r}; --oidc-issuer has to be the same, to the letter"
            raise ProviderFailed(text)
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
            if not isinstance(document.get(name), str) or not safe_endpoint(document[name], issuer):
                raise ProviderFailed(f"{where} has no {name} with https://")
        methods = document.get("token_endpoint_auth_methods_supported")
        methods = methods if isinstance(methods, list) else [_BASIC]  # as OpenID Connect Discovery has it
        auth_method = next((method for method in (_BASIC, _POST) if method in methods), None)
        if auth_method is None:
            raise ProviderFailed(f"{where} takes neither {_BASIC} nor {_POST}")
        keys = signing_keys(await self._document(document["jwks_uri"]))
        if not keys:
            raise ProviderFailed(f"{document['jwks_uri']} has no public key for signatures")
        return Metadata(document, keys, auth_method)

    async def _document(self, url: str) -> Mapping[str, Any]:
        status, document = await self._request("GET", url)
        if status != 200:
            raise ProviderFailed(f"{url} answered {status}")
        return document

    async def _request(self, method: str, url: str, **options: Any) -> tuple[int, Mapping[str, Any]]:
        """Return the status and the JSON object of an answer; an empty one in place of anything else. No redirect is followed."""
        limit, body = aiohttp.ClientTimeout(total=ANSWER_S), bytearray()
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.request(method, url, allow_redirects=False, **options) as answer,
            ):
                async for part in answer.content.iter_any():
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise ProviderFailed(f"{url} answered with more than {ANSWER_BYTES} bytes")
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # a TimeoutError is an OSError; a host's name may not be encodable
            raise ProviderFailed(f"{url} does not answer: {str(error) or type(error).__name__}") from None
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            document = None
        return answer.status, document if isinstance(document, dict) else {}


def signing_keys(document: Mapping[str, Any]) -> jwk.KeySet:
    """Return the public keys of a provider; those that are of no use here are left out."""
    keys, published = [], document.get("keys")
    for key in published if isinstance(published, list) else ():
        if isinstance(key, dict) and key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig":
            try:
                keys.append(jwk.import_key(key))
            except (JoseError, ValueError, TypeError, KeyError):
                continue
    return jwk.KeySet(keys)


def verified_claims(
    token: str, keys: jwk.KeySet, *, issuer: str, client_id: str, nonce: str, now: datetime, algorithms: Sequence[str] = ALGORITHMS
) -> dict[str, Any]:
    """Return the claims of a token of this issuer for this client and this nonce; IdTokenInvalid. algorithms: others only in tests."""
    try:
        # A header that is not known is of no concern, unless the token says that it is critical.
        decoded = jwt.decode(token, keys, registry=JWSRegistry(algorithms=list(algorithms), strict_check_header=False))
    except InvalidKeyIdError:
        raise SigningKeyUnknown("it is signed with a key that the provider does not publish") from None
    except BadSignatureError:  # a provider may change its key and not the id, or give no id
        raise SigningKeyUnknown("its signature is not of the provider's key") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise IdTokenInvalid(f"its signature can't be verified ({type(error).__name__})") from None
    wanted = {name: {"essential": True, "value": value} for name, value in (("iss", issuer), ("aud", client_id))}
    wanted |= {name: {"essential": True} for name in ("sub", "exp", "iat", "nonce")}
    claims = CodeIDToken(decoded.claims, decoded.header, wanted, {"nonce": nonce, "client_id": client_id})
    try:
        claims.validate(int(now.timestamp()), LEEWAY_S)
    except ExpiredTokenError:
        raise IdTokenInvalid("it has expired; the clocks of the two servers may differ") from None
    except ClaimError as error:
        raise IdTokenInvalid(f"its claim {error.claim!r} is missing or wrong") from None
    if not 0 < len(claims["sub"]) <= SUBJECT_CHARS or not claims["sub"].isprintable():
        raise IdTokenInvalid("its claim 'sub' is missing or wrong")
    return decoded.claims


log = structlog.get_logger()

SIGN_IN_COOKIE = "grader_sign_in"
SIGN_IN_LASTS = timedelta(minutes=10)  # between going to the provider and coming back
USED_STATES = 10_000
_COOKIE_FORM = re.compile(r"[A-Za-z0-9_-]{43}\.([0-9]{1,12})\.([A-Za-z0-9_-]{0,700})")
_ERROR = re.compile(r"[a-z_]{1,64}")
_BUSY = "Too many sign-ins are being looked at. Try again in a few seconds."


class ProviderSignIn:
    """Answers the two addresses. limits: of sign-ins with the provider at a time; those with keys have limits of their own."""

    def __init__(self, site: Site, sessions: Sessions, provider: OpenIdProvider, limits: PeerLimits) -> None:
        self._site, self._sessions, self._provider, self._count = site, sessions, provider, PeerCount(limits)
        self._secret = secrets.token_bytes(32)
        self._used: dict[str, datetime] = {}  # states that came back, with when they would end; oldest first
        self.name = provider.settings.name

    async def begin(self, request: web.Request) -> web.Response:
        """Send the browser to the provider."""
        check_private(request)
        after = base64.urlsafe_b64encode(local_path(request.query.get("next", "")).encode()).decode().rstrip("=")
        cookie = f"{secrets.token_urlsafe(32)}.{int(self._site.now().timestamp())}.{after}"
        try:
            # Another site's link must not change who this browser is signed in as.
            if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
                raise SignInRefused(f"The link was on another site. Begin at {self._provider.settings.public_url}/sign-in.")
            with counted(request, self._count, SignInRefused(_BUSY, 429)):
                to = await self._provider.authorization_url(
                    state=self._derive(cookie, "state"), nonce=self._derive(cookie, "nonce"), verifier=self._derive(cookie, "verifier")
                )
        except (SignInRefused, ProviderFailed) as error:
            return await self._refused(request, error)
        answer = web.Response(status=303, headers={"Location": to, "Cache-Control": "no-store"})
        set_cookie(request, answer, SIGN_IN_COOKIE, cookie, SIGN_IN_LASTS, from_other_sites=True)
        return answer

    async def callback(self, request: web.Request) -> web.Response:
        """Begin a session of the user that the provider names. A page goes on from here: a redirect would be of the provider's request,
        and a browser sends no SameSite=Strict cookie with one."""
        check_private(request)
        cookie = read_cookie(request, SIGN_IN_COOKIE)
        try:
            with counted(request, self._count, SignInRefused(_BUSY, 429)):
                token = await self._session_token(request, cookie)
        except (SignInRefused, ProviderFailed, IdTokenInvalid) as error:
            answer = await self._refused(request, error)
        else:
            self._sessions.end(session_token(request))  # the one before, where a provider of the same site lets its cookie through
            text = cookie.rpartition(".")[2]
            answer = await self._site.page(
                request, "signed_in.html", {"after": base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()}
            )
            answer.headers["Cache-Control"] = "no-store"
            set_cookie(request, answer, COOKIE, token, LASTS)
        delete_cookie(request, answer, SIGN_IN_COOKIE)
        return answer

    async def _session_token(self, request: web.Request, cookie: str) -> str:
        self._check_state(cookie, request.query.get("state", ""))
        if error := request.query.get("error", ""):
            reason = f" ({error})" if _ERROR.fullmatch(error) else ""
            raise SignInRefused(f"{self.name} did not sign you in{reason}. Begin again, or sign in with an API key.")
        await self._provider.check_sender(request.query.get("iss"))
        claims = await self._provider.claims(
            request.query.get("code", ""), verifier=self._derive(cookie, "verifier"), nonce=self._derive(cookie, "nonce")
        )
        issuer, subject = self._provider.settings.issuer, str(claims["sub"])
        if not self._provider.settings.allows(claims):
            log.info("sign_in_not_allowed", issuer=issuer, subject=subject)
            raise SignInRefused(f"{self.name} knows you, but this account may not use this server. Ask its operator (--oidc-allow).")
        names = user_names(issuer, subject, claims)
        caller = await Identities(self._site.ledger).enter(issuer, subject, names, f"sign-in with {self.name}")
        try:
            return (await self._sessions.begin_for(caller))[0]
        except Unauthenticated:
            raise SignInRefused(f"An administrator has ended the access of {caller.user} to this server.") from None

    def _check_state(self, cookie: str, state: str) -> None:
        """SignInRefused unless this browser began this sign-in, not long ago, and has not come back with it before."""
        now, shape = self._site.now(), _COOKIE_FORM.fullmatch(cookie)
        if shape is None or not hmac.compare_digest(self._derive(cookie, "state").encode(), state.encode(errors="replace")):
            text = "This browser did not begin this sign-in, or cookies are off, or another sign-in began meanwhile."
            raise SignInRefused(f"{text} Begin again at {self._provider.settings.public_url}/sign-in.")
        end_time = datetime.fromtimestamp(int(shape[1]), now.tzinfo) + SIGN_IN_LASTS
        for used in [used for used, over in self._used.items() if over <= now]:
            del self._used[used]
        if end_time <= now or state in self._used:
            raise SignInRefused("This sign-in is over: each can be used once, within ten minutes. Begin again.")
        while len(self._used) >= USED_STATES:
            del self._used[next(iter(self._used))]
        self._used[state] = end_time

    def _derive(self, cookie: str, purpose: str) -> str:
        """Return one of the three secrets of a sign-in: 256 bits that only this process can make from the cookie."""
        secret = hmac.digest(self._secret, f"{purpose} {cookie}".encode(errors="replace"), "sha256")
        return base64.urlsafe_b64encode(secret).decode().rstrip("=")

    async def _refused(self, request: web.Request, error: Exception) -> web.Response:
        status = 403
        match error:
            case SignInRefused():
                status, text = error.status, str(error)
            case IdTokenInvalid():
                text = f"The answer of {self.name} was not accepted: {error}. Begin again."
            case _:
                status, text = 503, f"{self.name} does not answer as it should. Try again in a few minutes, or sign in with an API key."
        log.log(WARNING if status == 503 else INFO, "provider_sign_in_refused", provider=self.name, reason=str(error))
        answer = await self._site.error(request, status, "Not signed in", text)
        answer.headers["Cache-Control"] = "no-store"
        return answer
