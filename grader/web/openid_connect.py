"""The provider's side of OpenID Connect, as this server asks for it: discovery, the authorization URL, a code exchanged for claims."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote_plus, urlencode

import aiohttp
import structlog
from joserfc.jwk import KeySet

from grader.rules.identities import IdentityProvider, safe_endpoint
from grader.web.id_tokens import IdTokenInvalid, SigningKeyUnknown, signing_keys, verified_claims

log = structlog.get_logger()

SCOPES = "openid email profile"
ANSWER_S = 10.0  # for one request to the provider
ANSWER_BYTES = 256 * 1024
_METADATA_LASTS = timedelta(hours=1)  # so long the provider's addresses and keys are not read again
_NEW_KEYS_AFTER = timedelta(seconds=10)  # a token signed with an unknown key has the keys read again, at most so often
_RETRY_AFTER = timedelta(seconds=5)  # so long a provider that failed is not asked again: one that hangs must not keep everybody waiting
_DISCOVERY = "/.well-known/openid-configuration"


class ProviderFailed(Exception):
    """The provider does not answer, or not as OpenID Connect says. The text is for the log; users learn that it is not their fault."""


class CodeRefused(Exception):
    """The provider did not take the code: it was used before, has expired, or was never the provider's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderMetadata:
    """What the provider says of itself."""

    authorization_endpoint: str
    token_endpoint: str
    keys: KeySet
    in_body: bool  # whether the client's secret is sent in the request's body, not in its header
    names_issuer: bool  # whether each answer to a browser says which provider it is of (RFC 9207)
    read_time: datetime


class OpenIdProvider:
    """Used on one event loop only."""

    def __init__(self, settings: IdentityProvider, now: Callable[[], datetime]) -> None:
        self.settings, self._now = settings, now
        self._cached: ProviderMetadata | None = None
        self._failure: tuple[datetime, str] | None = None  # the last one, and when
        self._reading = asyncio.Lock()

    async def authorization_url(self, *, state: str, nonce: str, challenge: str) -> str:
        """Where a browser goes to sign in; ProviderFailed. challenge: the SHA-256 digest of the verifier, as PKCE encodes it."""
        endpoint = (await self._metadata()).authorization_endpoint
        fields = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect_uri,
            "scope": SCOPES,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}"

    async def check_sender(self, issuer: str | None) -> None:
        """IdTokenInvalid where an answer to a browser names another issuer, or none although the provider always does."""
        if issuer != self.settings.issuer and (issuer is not None or (await self._metadata()).names_issuer):
            raise IdTokenInvalid("it comes from another provider")

    async def claims(self, code: str, *, verifier: str, nonce: str) -> dict[str, Any]:
        """The verified claims of the user who got this code; ProviderFailed, CodeRefused, IdTokenInvalid."""
        if not code:
            raise CodeRefused
        token = await self._token(code, verifier)
        metadata = await self._metadata()
        try:
            return self._verified(token, metadata.keys, nonce)
        except SigningKeyUnknown:
            return self._verified(token, (await self._metadata(older=_NEW_KEYS_AFTER)).keys, nonce)

    def _verified(self, token: str, keys: KeySet, nonce: str) -> dict[str, Any]:
        settings = self.settings
        return verified_claims(token, keys, issuer=settings.issuer, client_id=settings.client_id, nonce=nonce, now=self._now())

    async def _token(self, code: str, verifier: str) -> str:
        metadata = await self._metadata()
        fields = {"grant_type": "authorization_code", "code": code, "redirect_uri": self.settings.redirect_uri, "code_verifier": verifier}
        headers, client = {"Accept": "application/json"}, (self.settings.client_id, self.settings.client_secret)
        if metadata.in_body:
            fields |= {"client_id": client[0], "client_secret": client[1]}
        else:  # RFC 6749, 2.3.1: both parts are encoded as in a form first
            pair = ":".join(map(quote_plus, client))
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, answer = await self._request("POST", metadata.token_endpoint, data=fields, headers=headers)
        if status == 400 and answer.get("error") == "invalid_grant":
            raise CodeRefused
        if status != 200 or not isinstance(answer.get("id_token"), str):
            raise ProviderFailed(f"{metadata.token_endpoint} answered {status}, error {str(answer.get('error'))[:80]!r}, and no ID token")
        return str(answer["id_token"])

    async def _metadata(self, *, older: timedelta = _METADATA_LASTS) -> ProviderMetadata:
        """What the provider says of itself, read again where what is cached is older."""
        async with self._reading:
            if self._cached is not None and self._cached.read_time > self._now() - older:
                return self._cached
            if self._failure is not None and self._failure[0] > self._now() - _RETRY_AFTER:
                raise ProviderFailed(self._failure[1])
            try:
                self._cached = await self._read_metadata()
            except ProviderFailed as error:
                self._failure = self._now(), str(error)
                raise
            return self._cached

    async def _read_metadata(self) -> ProviderMetadata:
        where = self.settings.issuer.rstrip("/") + _DISCOVERY
        found = await self._document(where)
        if found.get("issuer") != self.settings.issuer:
            raise ProviderFailed(
                f"{where} is of the issuer {str(found.get('issuer'))[:200]!r}; --oidc-issuer has to be the same, to the letter"
            )
        urls = {name: found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")}
        for name, url in urls.items():
            if not isinstance(url, str) or not safe_endpoint(url, self.settings.issuer):
                raise ProviderFailed(f"{where} has no {name} with https://")
        methods = found.get("token_endpoint_auth_methods_supported")
        methods = methods if isinstance(methods, list) else ["client_secret_basic"]  # as OpenID Connect Discovery has it
        if "client_secret_basic" not in methods and "client_secret_post" not in methods:
            raise ProviderFailed(f"{where} takes neither client_secret_basic nor client_secret_post")
        keys = signing_keys(await self._document(str(urls["jwks_uri"])))
        if not keys:
            raise ProviderFailed(f"{urls['jwks_uri']} has no public key for signatures")
        return ProviderMetadata(
            authorization_endpoint=str(urls["authorization_endpoint"]),
            token_endpoint=str(urls["token_endpoint"]),
            keys=keys,
            in_body="client_secret_basic" not in methods,
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
            read_time=self._now(),
        )

    async def _document(self, url: str) -> Mapping[str, Any]:
        status, found = await self._request("GET", url)
        if status != 200:
            raise ProviderFailed(f"{url} answered {status}")
        return found

    async def _request(self, method: str, url: str, **more: Any) -> tuple[int, Mapping[str, Any]]:
        """The status and the JSON object that come back; an empty one in place of anything else. No redirect is followed."""
        limit = aiohttp.ClientTimeout(total=ANSWER_S)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, cookie_jar=aiohttp.DummyCookieJar()) as session,
                session.request(method, url, allow_redirects=False, **more) as answer,
            ):
                body = bytearray()
                async for part in answer.content.iter_any():
                    body += part
                    if len(body) > ANSWER_BYTES:
                        raise ProviderFailed(f"{url} answered with more than {ANSWER_BYTES} bytes")
                status = answer.status
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # a TimeoutError is an OSError; a host's name may not be encodable
            raise ProviderFailed(f"{url} does not answer: {str(error) or type(error).__name__}") from None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        return status, found if isinstance(found, dict) else {}
