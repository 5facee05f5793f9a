"""Parts that all pages share: ledger and problems, the viewer, headers, and how a template becomes an answer."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import jinja2
import structlog
from aiohttp import web
from cryptography import x509

from grader import access
from grader.access import ANYBODY
from grader.config import Settings
from grader.errors import (
    ArtifactNotFound,
    CallRefused,
    CompetitionNotFound,
    GraderFault,
    InvalidRequest,
    ProblemNotFound,
    SubmissionNotFound,
)
from grader.ledger import Ledger
from grader.model import Caller, Scope, Submission
from grader.peers import PeerCount, loopback, network_of
from grader.problems.store import Problems
from grader.server.service import GraderServicer, OwnedArtifacts
from grader.v1 import submission_pb2
from grader_extensions.competitions.store import Competitions
from grader_extensions.web.sessions import RECHECK_S, Session, Sessions, asked_from_here, session_token, viewer

# Headers of every answer of the web port that is not for programs: they limit what a browser may do with our pages.

# Our scripts may fetch from here, and neither they nor anything else may make markup or code from text.
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
    "script-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'; form-action "
)

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": f"{_POLICY}'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Server": "grader",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again with its ETag
}
# On pages with a form: it may be sent here. A referrer for this site only: without one a browser sends no origin with a form.
FORM_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": f"{_POLICY}'self'",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


log = structlog.get_logger()

UNKNOWN_ADDRESS = "HOST:PORT"  # of the API

PAGE_LIMIT = 100_000
_EVERY_ADDRESS = ("0.0.0.0", "[::]", "::")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")

_SESSION = web.RequestKey("session", Session)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageAbsent(Exception):
    """There is no such page, or it is not for everybody: the answer does not say which."""


class FormRefused(Exception):
    """A request that changes something, and that is not known to come from a form of ours. The text says what to do."""


class SignInNeeded(Exception):
    """The page is for those who have signed in."""


class TooBusy(Exception):
    """So many ask for the same that this one has to come again. The text says what to do."""

    def __init__(self, text: str, retry_s: int) -> None:
        self.retry_s = retry_s
        super().__init__(text)


@contextmanager
def counted(request: web.Request, count: PeerCount, refusal: Exception) -> Iterator[None]:
    """Count a request until the context is left; the refusal is raised where it is over a limit."""
    with count.entered(network_of(request.remote or "unix")) as inside:
        if not inside:
            raise refusal
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAddress:
    """The API's address, for command lines on pages. listen: where it listens; "" is not known. public: where everybody reaches it.
    names: those of its certificate, of which clients have to use one; None without TLS. self_signed: clients need the certificate too."""

    listen: str = ""
    public: str = ""
    names: Collection[str] | None = None
    self_signed: bool = False

    def seen_by(self, request: web.Request) -> str:
        """Return the address for a reader's command line; UNKNOWN_ADDRESS where only an operator knows it."""
        host, _, port = self.listen.rpartition(":")
        reader_host = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdecimal() else request.host
        if self.public:
            return shlex.quote(self.public)
        if not host or port == "0":
            return UNKNOWN_ADDRESS
        if loopback(self.listen) and not asked_from_here(request.host, request.headers):
            return UNKNOWN_ADDRESS  # there is a proxy before it
        if loopback(self.listen) and self.names is None:
            return shlex.quote(self.listen)
        if host in _EVERY_ADDRESS:  # the reader's browser knows one of them
            host = reader_host
        if self.names and not {host, f"*.{host.partition('.')[2]}"} & set(self.names):
            host = next((name for name in self.names if loopback(f"{name}:0") == loopback(f"{reader_host}:0")), "")
        scheme = "https://" if self.names is not None and loopback(f"{host}:0") else ""  # else clients speak plain text to their own host
        return f"{scheme}{host}:{port}" if _HOST.fullmatch(host) else UNKNOWN_ADDRESS

    def login(self, request: web.Request) -> str:
        """Return the command that stores a key."""
        return f"grader-cli login --server {self.seen_by(request)}{' --ca FILE' if self.self_signed else ''}"


def api_address(settings: Settings) -> ApiAddress:
    """Return the address that the settings name, or all from which it is derived."""
    url, proxied = urlsplit(settings.public_url), loopback(settings.listen) or settings.insecure_no_tls
    public = settings.api_address or (f"{url.netloc}{'' if url.port else ':443'}" if url.scheme == "https" and proxied else "")
    address = ApiAddress(listen="" if settings.insecure_no_tls else settings.listen, public=public)
    if settings.tls_certificate is None:
        return address
    certificate = x509.load_pem_x509_certificate(settings.tls_certificate.read_bytes())
    extensions = [extension.value for extension in certificate.extensions]
    names = [str(name.value) for value in extensions if isinstance(value, x509.SubjectAlternativeName) for name in value]
    return replace(address, names=names, self_signed=certificate.issuer == certificate.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """service: the API's, which pages ask. open_server: no keys are asked for, and only this host gets here. sessions: None where nobody
    can sign in. public_url: of the pages; "" is not known."""

    service: GraderServicer
    competitions: Competitions
    open_server: bool
    templates: jinja2.Environment
    api_address: ApiAddress = field(default_factory=ApiAddress)
    sessions: Sessions | None = None
    public_url: str = ""

    @property
    def ledger(self) -> Ledger:
        """The service's."""
        return self.service.ledger

    @property
    def problems(self) -> Problems:
        """The service's."""
        return self.service.problems

    @property
    def artifacts(self) -> OwnedArtifacts:
        """The files of submissions."""
        return self.service.artifacts

    def now(self) -> datetime:
        """The ledger's time."""
        return self.ledger.now()

    def viewer(self, request: web.Request) -> Caller:
        """Return who asks. A key without the scope for reading shows no more than everybody sees, as in the API."""
        session = self.session(request)
        if session is not None:
            return session.caller if Scope.READ in session.caller.scopes else ANYBODY
        return viewer(request.host, request.headers, open_server=self.open_server)

    def session(self, request: web.Request) -> Session | None:
        """The session that this request is of."""
        return request.get(_SESSION)

    def user_of(self, request: web.Request, method: str) -> Caller:
        """Return who may call this method of the API with this request: SignInNeeded, or PermissionDenied."""
        session = self.session(request)
        if session is not None and self.sessions is not None:
            self.sessions.gate.check_scope(session.caller, method)
            return session.caller
        caller = viewer(request.host, request.headers, open_server=self.open_server)
        if caller == ANYBODY:
            raise SignInNeeded
        return caller

    async def seen(self, request: web.Request, submission_id: str) -> Submission:
        """The submission, if this request may see it; SubmissionNotFound."""
        submission = await self.ledger.get(submission_id)
        access.check_seen(self.viewer(request), submission, self.readable())
        return submission

    async def message(self, submission: Submission, *, full: bool = False) -> submission_pb2.Submission:
        """Convert a submission as the API shows it, without what its problem hides."""
        return await self.service.watch.redactors.message(submission, full=full)

    async def hold(self, request: web.Request) -> None:
        """Return once the session of this request is over; never where it has none."""
        while self.sessions is None or self.session(request) is None or await self.sessions.find(session_token(request)) is not None:
            await asyncio.sleep(RECHECK_S)

    def readable(self) -> frozenset[str]:
        """Return the competitions whose submissions everybody may see."""
        return self.competitions.readable(self.now())

    def title(self, problem_id: str) -> str:
        """A problem's title, or its id; "" where there is no page of it."""
        try:
            return self.problems.get(problem_id).title or problem_id
        except ProblemNotFound:
            return ""

    async def page(
        self, request: web.Request, name: str, context: Mapping[str, Any], status: int = 200, *, form: bool = False
    ) -> web.Response:
        """A template as an answer. form: it has a form."""
        session = self.session(request)  # what a key may not do has no link
        identified = session is not None or self.viewer(request) != ANYBODY
        shown = {
            **context,
            "reader": {
                "user": "" if session is None else session.caller.user,
                "feeds": bool(self.public_url),
                "can_sign_in": self.sessions is not None,
                "has_submissions": identified and (session is None or Scope.READ in session.caller.scopes),
                "can_submit": identified and (session is None or Scope.SUBMIT in session.caller.scopes),
            },
        }
        text = await asyncio.to_thread(self.templates.get_template(name).render, shown)  # a log of 64 KiB takes a while
        headers = dict(FORM_HEADERS if form else HEADERS)
        if self.session(request) is not None:
            headers["Cache-Control"] = "no-store"  # what is this reader's must not be there for the next one
        if self.sessions is not None:
            headers["Vary"] = "Cookie"
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=headers)

    async def error(self, request: web.Request, status: int, title: str, text: str) -> web.Response:
        """A page that says what went wrong."""
        return await self.page(request, "error.html", {"title": title, "text": text}, status)

    def answered(self, answer: Answer) -> Answer:
        """The handler of a page: with headers, with a page for what goes wrong, and short where the reader has it already."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                if self.sessions is not None and (session := await self.sessions.find(session_token(request))) is not None:
                    request[_SESSION] = session
                    structlog.contextvars.bind_contextvars(user=session.caller.user, key=session.caller.key_id)
                else:
                    structlog.contextvars.unbind_contextvars("user", "key")  # a connection serves one request after the other
                response = await answer(request)
            except Exception as error:  # noqa: BLE001  # every one is answered, and logged where it is ours
                response = await self._failed(request, error)
            if response.prepared or not isinstance(response, web.Response):
                return response
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            if "Content-Disposition" in response.headers:
                response.headers.update(ARTIFACT_HEADERS)
            cacheable = response.status == 200 and response.headers["Cache-Control"] == HEADERS["Cache-Control"]
            return _short(request, response) if cacheable else response

        return handle

    async def _failed(self, request: web.Request, error: Exception) -> web.Response:
        whom = "everybody" if self.session(request) is None else "you"
        absent = f"There is no such page, or it is not shown to {whom}."
        match error:
            case SignInNeeded() if self.sessions is not None:
                return web.Response(status=303, headers={"Location": f"/sign-in?next={quote(request.path_qs, safe='/')}"})
            case PageAbsent() | SignInNeeded() | ArtifactNotFound() | CompetitionNotFound() | ProblemNotFound() | SubmissionNotFound():
                return await self.error(request, 404, "Not found", absent)
            case TooBusy():
                answer = await self.error(request, 503, "Not now", str(error))
                answer.headers["Retry-After"] = str(error.retry_s)
                return answer
            case FormRefused():
                return await self.error(request, 403, "Not accepted", str(error))
            case CallRefused():
                status = 503 if error.retry_s is not None else 400 if isinstance(error, InvalidRequest) else 403
                return await self.error(request, status, "Refused", sentence(str(error)))
            case GraderFault():
                log.warning("page_refused", reason=error.reason, detail=error.detail)
                return await self.error(request, 503, "Not now", "The ledger does not answer. Come again in a minute.")
            case _:
                request_id = uuid.uuid4().hex
                log.error("page_failed", path=request.path, request_id=request_id, exc_info=error)
                return await self.error(request, 500, "Our fault", f"The server's log has the reason under request {request_id}.")


def sentence(text: str) -> str:
    """An error's text as a sentence of a page."""
    return f"{text[:1].upper()}{text[1:]}."


def _short(request: web.Request, response: web.Response) -> web.Response:
    """304 where the reader has these very bytes. A browser takes its headers for those of the page."""
    assert isinstance(response.body, bytes)
    response.etag = digest = hashlib.sha256(response.body).hexdigest()[:32]
    if all(tag.value != digest for tag in request.if_none_match or ()):
        return response
    return web.Response(status=304, headers={name: response.headers[name] for name in (*HEADERS, "ETag")})


def page_number(request: web.Request) -> int:
    """Which page is asked for: what is no number is the first."""
    return min(max(whole_number(request.query.get("page", "")) or 1, 1), PAGE_LIMIT)


def whole_number(text: str) -> int | None:
    """A number that is not negative and fits in 63 bits; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


# Files of submissions came from a kernel's process: a browser must save them and never show them.
# These replace the headers of pages: no type that a browser renders, and if one did, in no origin and without scripts.
ARTIFACT_HEADERS = {"Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'", "Cache-Control": "private, no-store"}


def attachment(name: str, content: bytes) -> web.Response:
    """A file to save. name: a plain file name, as the ledger has it."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return web.Response(body=content, content_type="application/octet-stream", headers=headers)
