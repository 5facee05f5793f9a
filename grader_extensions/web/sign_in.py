"""Signing in with an API key, and out again; and the account.  A key is read from a form's body and goes nowhere but to the gate."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import quote

import structlog
from aiohttp import web

from grader.errors import Unauthenticated
from grader.peers import PeerCount, PeerLimits, network_of
from grader_extensions.web.forms import PLAIN, FormTokens, check_origin, check_private
from grader_extensions.web.provider_users import Identities
from grader_extensions.web.report.content import when
from grader_extensions.web.sessions import COOKIE, LASTS, Session, Sessions, Transport, delete_cookie, session_token, set_cookie, transport
from grader_extensions.web.site import PageAbsent, SignInNeeded, Site, sentence

log = structlog.get_logger()

BEGIN = "/sign-in/provider"  # where a sign-in with an identity provider begins
# Of keys that are looked at. For unknown ones the gate reads the ledger ten times a second at most, as for the API.
SIGN_IN_LIMITS = PeerLimits(total=64, per_address=8)
API_KEY_LASTS = timedelta(days=30)  # of one that a user makes here: then the user has to be known to the provider still
_HERE = re.compile(r"/(?![/\\])[!-\[\]-~]{0,500}")  # a path of this site: no other host, no backslash that a browser takes for a slash


class SignInPages:
    """Answers requests for the form, and what it sends. provider_name: of the one that users may sign in with instead; "": none."""

    def __init__(self, site: Site, sessions: Sessions, limits: PeerLimits, provider_name: str = "") -> None:
        self._site, self._sessions, self._tokens, self._provider_name = site, sessions, FormTokens(site), provider_name
        self.count = PeerCount(limits)

    async def form(self, request: web.Request) -> web.Response:
        """The form; over a connection that others could read, why there is none."""
        return await self._form(request, request.query.get("next", ""))

    async def sign_in(self, request: web.Request) -> web.Response:
        """Begin a session, and go on to where the reader came from."""
        check_private(request)
        sent = await self._tokens.read(request)
        after = sent.get("next", "")
        with self.count.entered(network_of(request.remote or "unix")) as inside:
            if not inside:
                answer = await self._form(request, after, "Too many keys are being looked at. Try again in a few seconds.", status=429)
                answer.headers["Retry-After"] = "5"
                return answer
            try:
                token, _ = await self._sessions.begin(sent.get("key", ""))
            except Unauthenticated as error:
                log.info("sign_in_refused", reason=error.reason)
                return await self._form(request, after, sentence(error.detail), status=403)
        self._sessions.end(session_token(request))  # the one before, in this browser
        answer = web.Response(status=303, headers={"Location": local_path(after)})
        set_cookie(request, answer, COOKIE, token, LASTS)
        return answer

    async def account(self, request: web.Request) -> web.Response:
        """Return who has signed in, with what, and until when; with the button to sign out."""
        session = self._site.session(request)
        if session is None:
            return web.Response(status=303, headers={"Location": "/sign-in"})
        return await self._account(request, session)

    async def make_key(self, request: web.Request) -> web.Response:
        """An API key for a user without one of an administrator's, shown this once."""
        check_private(request)
        session = self._site.session(request)
        if session is None:
            raise SignInNeeded
        await self._tokens.read(request)
        if await Identities(self._site.ledger).of_session_key(session.caller.key_id) is None:
            raise PageAbsent  # a key that leaked must not make others, which outlive it
        expire_time = self._site.now() + API_KEY_LASTS
        text = await Identities(self._site.ledger).replace_api_key(session.caller.key_id, expire_time)
        log.info("api_key_made", user=session.caller.user, made_key=text.split("_")[1])
        return await self._account(request, session, made_key=text)

    async def sign_out(self, request: web.Request) -> web.Response:
        """End the session."""
        check_origin(request)
        if self._site.session(request) is not None:
            await self._tokens.read(request)
        self._sessions.end(session_token(request))
        answer = web.Response(status=303, headers={"Location": "/"})
        delete_cookie(request, answer, COOKIE)
        return answer

    async def _form(self, request: web.Request, after: str, error: str = "", status: int = 200) -> web.Response:
        shown = {"refused": "", "error": error, "next": local_path(after), "provider": self._provider_name}
        shown["provider_path"] = f"{BEGIN}?next={quote(shown['next'], safe='/')}"
        if transport(request) is Transport.PLAIN:
            return await self._site.page(request, "sign_in.html", {**shown, "refused": PLAIN}, status, form=True)
        return await self._tokens.page(request, "sign_in.html", shown, status)

    async def _account(self, request: web.Request, session: Session, made_key: str = "") -> web.Response:
        identity = await Identities(self._site.ledger).of_session_key(session.caller.key_id)
        api_key = None if identity is None else identity.api_key
        shown = {
            "session": session,
            "identity": identity,
            "own_key": api_key if api_key is not None and api_key.valid(self._site.now()) else None,
            "made_key": made_key,
            "key_days": API_KEY_LASTS.days,
            "login": self._site.api_address.login(request),
            "when": when,
        }
        return await self._tokens.page(request, "account.html", shown)


def local_path(path: str) -> str:
    """Where to go on to: a path of this site, or one's own submissions."""
    return path if _HERE.fullmatch(path) and not path.startswith("/sign-") else "/submissions"
