"""Signing in with an identity provider: off to it, and back with a code, in one browser and once.

A cookie says which browser began. State, nonce and PKCE's verifier are made from it with a secret of this process, so that nothing is kept
for a stranger who begins.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from logging import INFO, WARNING

import structlog
from aiohttp import web

from grader.errors import Unauthenticated
from grader.peers import PeerCount, PeerLimits, network_of
from grader.rules.identities import user_names
from grader.web.forms import check_private
from grader.web.openid_connect import CodeRefused, IdTokenInvalid, OpenIdProvider, ProviderFailed
from grader.web.sessions import COOKIE, LASTS, Sessions, delete_cookie, read_cookie, session_token, set_cookie
from grader.web.sign_in import local_path
from grader.web.site import Site

log = structlog.get_logger()

SIGN_IN_COOKIE = "grader_sign_in"
SIGN_IN_LASTS = timedelta(minutes=10)  # between going to the provider and coming back
USED_STATES = 10_000
_COOKIE_FORM = re.compile(r"[A-Za-z0-9_-]{43}\.([0-9]{1,12})\.([A-Za-z0-9_-]{0,700})")
_ERROR = re.compile(r"[a-z_]{1,64}")


class SignInRefused(Exception):
    """Nobody is signed in. The text says why, and what to do."""

    def __init__(self, text: str, status: int = 403) -> None:
        self.status = status
        super().__init__(text)


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
            self._check_link(request)
            with self._counted(request):
                to = await self._provider.authorization_url(
                    state=self._derive(cookie, "state"), nonce=self._derive(cookie, "nonce"), verifier=self._derive(cookie, "verifier")
                )
        except (SignInRefused, ProviderFailed) as error:
            return await self._refused(request, error)
        answer = web.Response(status=303, headers={"Location": to, "Cache-Control": "no-store"})
        set_cookie(request, answer, SIGN_IN_COOKIE, cookie, SIGN_IN_LASTS, from_other_sites=True)
        return answer

    def _check_link(self, request: web.Request) -> None:
        """SignInRefused where another site's link would change who this browser is signed in as."""
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise SignInRefused(f"The link was on another site. Begin at {self._provider.settings.public_url}/sign-in.")

    async def callback(self, request: web.Request) -> web.Response:
        """Begin a session of the user that the provider names. A page goes on from here: a redirect would be of the provider's request,
        and a browser sends no SameSite=Strict cookie with one."""
        check_private(request)
        cookie = read_cookie(request, SIGN_IN_COOKIE)
        try:
            with self._counted(request):
                token = await self._session_token(request, cookie)
        except (SignInRefused, ProviderFailed, CodeRefused, IdTokenInvalid) as error:
            answer = await self._refused(request, error)
        else:
            self._sessions.end(session_token(request))  # the one before, where a provider of the same site lets its cookie through
            answer = await self._site.page(request, "signed_in.html", {"after": _after(cookie)})
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
        caller = await self._site.ledger.identities.enter(issuer, subject, names, f"sign-in with {self.name}")
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

    @contextmanager
    def _counted(self, request: web.Request) -> Iterator[None]:
        with self._count.entered(network_of(request.remote or "unix")) as inside:
            if not inside:
                raise SignInRefused("Too many sign-ins are being looked at. Try again in a few seconds.", 429)
            yield

    async def _refused(self, request: web.Request, error: Exception) -> web.Response:
        status = 403
        match error:
            case SignInRefused():
                status, text = error.status, str(error)
            case IdTokenInvalid():
                text = f"The answer of {self.name} was not accepted: {error}. Begin again."
            case CodeRefused():
                text = f"{self.name} did not accept this sign-in: it was used before, or has expired. Begin again."
            case _:
                status, text = 503, f"{self.name} does not answer as it should. Try again in a few minutes, or sign in with an API key."
        log.log(WARNING if status == 503 else INFO, "provider_sign_in_refused", provider=self.name, reason=str(error) or text)
        answer = await self._site.error(request, status, "Not signed in", text)
        answer.headers["Cache-Control"] = "no-store"
        return answer


def _after(cookie: str) -> str:
    """Where to go on to, out of a cookie whose state was checked."""
    text = cookie.rpartition(".")[2]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
