"""Sessions of users who have signed in, in memory, each of one key.  A session ends with its key, and after twelve hours."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

import structlog
from aiohttp import web

from grader.access import ANYBODY
from grader.errors import Unauthenticated
from grader.model import Caller
from grader.peers import loopback
from grader.server.auth import Authenticator


class Transport(StrEnum):
    """Hosts that could read a request on its way."""

    TLS = "tls"
    LOOPBACK = "loopback"  # only this host
    PLAIN = "plain"  # every host on the way


def transport(request: web.Request) -> Transport:
    """Over what a request came. A proxy that ends TLS sets the header; a browser sets none, and no page can make it."""
    if request.secure or request.headers.getall("X-Forwarded-Proto", []) == ["https"]:
        return Transport.TLS
    here = asked_from_here(request.host, request.headers) and loopback(f"{request.remote}:0")
    return Transport.LOOPBACK if here else Transport.PLAIN


def viewer(host: str, header_names: Iterable[str], *, open_server: bool) -> Caller:
    """Return the caller without a session, as the API has it. open_server: no keys are required, and only this host can connect."""
    return Caller() if open_server and asked_from_here(host, header_names) else ANYBODY


def asked_from_here(host: str, header_names: Iterable[str]) -> bool:
    """Return whether a request names this host and came through no proxy.

    Else a page of a strange name that leads here (DNS rebinding) could read everything, and so could everybody where a proxy makes an open
    server's port public."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    forwarded = any(
        header_name.lower() in ("forwarded", "via") or header_name.lower().startswith("x-forwarded-") for header_name in header_names
    )
    return bool(name) and not forwarded and loopback(f"{name}:0")


log = structlog.get_logger()

LASTS = timedelta(hours=12)
SESSIONS = 10_000
SESSIONS_OF_A_KEY = 16  # browsers in which one key is signed in
RECHECK_S = 1.0  # how often a stream's session is looked at again
COOKIE = "grader_session"
_PATH = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A browser in which a user has signed in. form_token: in every form that this session is shown."""

    caller: Caller
    end_time: datetime
    form_token: str


class Sessions:
    """Used on one event loop only. What is kept of a session's token is its digest."""

    def __init__(
        self, gate: Authenticator, now: Callable[[], datetime], *, limit: int = SESSIONS, limit_of_key: int = SESSIONS_OF_A_KEY
    ) -> None:
        self.gate, self._now = gate, now
        self._limit, self._limit_of_key = limit, limit_of_key
        self._open: dict[str, Session] = {}  # by the digest of its token, oldest first

    @property
    def count(self) -> int:
        """How many are kept."""
        return len(self._open)

    async def begin(self, key: str) -> tuple[str, Session]:
        """A new session of the user with this key, and its token; Unauthenticated. The oldest ones make room."""
        return self._begun(await self.gate.open_with(key))

    async def begin_for(self, caller: Caller) -> tuple[str, Session]:
        """The same for a user whom an identity provider has named; Unauthenticated where the user's key was revoked."""
        await self.gate.check_key(caller)
        return self._begun(caller)

    def _begun(self, caller: Caller) -> tuple[str, Session]:
        now = self._now()
        end_time = now + LASTS if caller.expire_time is None else min(now + LASTS, caller.expire_time)
        session = Session(caller=caller, end_time=end_time, form_token=secrets.token_urlsafe(32))
        self._remove(lambda open_session: open_session.end_time <= now)
        same = [token for token, open_session in self._open.items() if open_session.caller.key_id == caller.key_id]
        for token in same[: max(len(same) - self._limit_of_key + 1, 0)]:
            del self._open[token]
        while len(self._open) >= self._limit:
            del self._open[next(iter(self._open))]
        token = secrets.token_urlsafe(32)
        self._open[_digest(token)] = session
        log.info("signed_in", user=caller.user, key=caller.key_id)
        return token, session

    async def find(self, token: str) -> Session | None:
        """The session with this token, if it and its key still open something. One with a key that does not is removed."""
        session = self._open.get(_digest(token)) if token else None
        if session is None:
            return None
        if session.end_time <= self._now():
            self._open.pop(_digest(token), None)
            return None
        try:
            await self.gate.check_key(session.caller)
        except Unauthenticated:
            self._remove(lambda open_session: open_session.caller.key_id == session.caller.key_id)
            return None
        return self._open.get(_digest(token))  # it may have ended meanwhile

    def end(self, token: str) -> None:
        """Sign out."""
        if (ended := self._open.pop(_digest(token), None)) is not None:
            log.info("signed_out", user=ended.caller.user, key=ended.caller.key_id)

    def _remove(self, over: Callable[[Session], bool]) -> None:
        for token in [token for token, session in self._open.items() if over(session)]:
            del self._open[token]


def session_token(request: web.Request) -> str:
    """The token that came with a request; "" where there is none, or where anybody on the way could have read it."""
    return "" if transport(request) is Transport.PLAIN else read_cookie(request, COOKIE)


def read_cookie(request: web.Request, name: str) -> str:
    """A cookie of ours; "" where there is none."""
    return request.cookies.get(cookie_name(request, name), "")


def set_cookie(
    request: web.Request, response: web.Response, name: str, value: str, lasts: timedelta, *, from_other_sites: bool = False
) -> None:
    """Keep it in the browser: for no script, for no other site's requests, and over TLS for no other host and no plain connection.

    from_other_sites: it goes with a link or a redirect of another site that leads here, too; never with a form of one.
    """
    response.set_cookie(
        cookie_name(request, name),
        value,
        path=_PATH,
        max_age=int(lasts.total_seconds()),
        httponly=True,
        samesite="Lax" if from_other_sites else "Strict",
        secure=transport(request) is Transport.TLS,
    )


def delete_cookie(request: web.Request, response: web.Response, name: str) -> None:
    """Have the browser forget it."""
    set_cookie(request, response, name, "", timedelta(0))


def cookie_name(request: web.Request, name: str) -> str:
    """With the prefix for which a browser takes no cookie that another host, or a plain connection, has set."""
    return f"__Host-{name}" if transport(request) is Transport.TLS else name


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
