"""What all pages share: where they read, who asks, and how a template becomes an answer."""

from __future__ import annotations

import asyncio
import hashlib
import re
import shlex
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

import jinja2
import structlog
from aiohttp import web

from grader import access
from grader.errors import ArtifactNotFound, CompetitionNotFound, GraderFault, ProblemNotFound, SubmissionNotFound
from grader.ledger import Ledger
from grader.model import Caller
from grader.peers import loopback
from grader.problems.competition_store import Competitions
from grader.problems.store import Problems
from grader.web.artifacts import HEADERS as ARTIFACT_HEADERS
from grader.web.policy import HEADERS, SCRIPTED_HEADERS
from grader.web.problem_views import UNKNOWN_ADDRESS
from grader.web.visibility import asked_from_here, viewer

log = structlog.get_logger()

PAGE_LIMIT = 100_000
STANDINGS_S = 2.0  # so long what a board is made from is good: anybody may ask, as often as they like
_EVERY_ADDRESS = ("0.0.0.0", "[::]", "::")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")

T = TypeVar("T")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageAbsent(Exception):
    """There is no such page, or it is not for everybody: the answer does not say which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """open_server: no keys are asked for, and only this host gets here. api_address: where the API listens, HOST:PORT; "" is not known.
    reads: what was read recently, with when it has to be read again."""

    ledger: Ledger
    problems: Problems
    competitions: Competitions
    open_server: bool
    templates: jinja2.Environment
    api_address: str = ""
    asks_keys: bool = False
    standings_s: float = STANDINGS_S
    reads: dict[tuple[object, ...], tuple[float, asyncio.Task[Any]]] = field(default_factory=dict)

    def now(self) -> datetime:
        """The ledger's time."""
        return self.ledger.now()

    def viewer(self, request: web.Request) -> Caller:
        """Who asks."""
        return viewer(request.host, request.headers, open_server=self.open_server)

    def sees_competition(self, request: web.Request, competition_id: str) -> bool:
        """Whether all submissions to this competition are shown to the caller of this request."""
        return access.sees_competition(self.viewer(request), competition_id, self.competitions.all(), self.now())

    def server_address(self, request: web.Request) -> str:
        """How the reader reaches the API, for the command line; UNKNOWN_ADDRESS where only an operator knows."""
        host, _, port = self.api_address.rpartition(":")
        if not host or port == "0":
            return UNKNOWN_ADDRESS
        if loopback(self.api_address):  # else there is a proxy before it
            return shlex.quote(self.api_address) if asked_from_here(request.host, request.headers) else UNKNOWN_ADDRESS
        if host in _EVERY_ADDRESS:  # the reader's browser knows one of them
            host = request.host.rpartition(":")[0] if request.host.rpartition(":")[2].isdecimal() else request.host
        return f"{host}:{port}" if _HOST.fullmatch(host) else UNKNOWN_ADDRESS

    async def recent(self, key: tuple[object, ...], read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What was read for this key, read again at most once in a while, and once for all who ask meanwhile."""
        now = asyncio.get_running_loop().time()
        known = self.reads.get(key)
        if known is None or known[0] <= now:
            self.reads[key] = known = (now + self.standings_s, asyncio.ensure_future(read()))
        return await asyncio.shield(cast("asyncio.Task[T]", known[1]))

    def knows_problem(self, problem_id: str) -> bool:
        """Whether there is a page of it."""
        try:
            self.problems.get(problem_id)
        except ProblemNotFound:
            return False
        return True

    def title(self, problem_id: str) -> str:
        """A problem's title, or its id."""
        try:
            return self.problems.get(problem_id).title or problem_id
        except ProblemNotFound:
            return problem_id

    async def page(self, name: str, context: Mapping[str, Any], status: int = 200, *, scripted: bool = False) -> web.Response:
        """A template as an answer. scripted: the page has our script."""
        shown = {**context, "scripted": scripted}
        text = await asyncio.to_thread(self.templates.get_template(name).render, shown)  # a log of 64 KiB takes a while
        headers = SCRIPTED_HEADERS if scripted else HEADERS
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8", headers=headers)

    async def error(self, status: int, title: str, text: str) -> web.Response:
        """A page that says what went wrong."""
        return await self.page("error.html", {"title": title, "text": text}, status)

    def answered(self, answer: Answer) -> Answer:
        """The handler of a page: with headers, with a page for what goes wrong, and short where the reader has it already."""

        async def handle(request: web.Request) -> web.StreamResponse:
            try:
                found = await answer(request)
            except (PageAbsent, ArtifactNotFound, CompetitionNotFound, ProblemNotFound, SubmissionNotFound):
                found = await self.error(404, "Not found", "There is no such page, or it is not shown to everybody.")
            except GraderFault as error:
                log.warning("page_refused", reason=error.reason, detail=error.detail)
                found = await self.error(503, "Not now", "The ledger does not answer. Come again in a minute.")
            except Exception as error:
                request_id = uuid.uuid4().hex
                log.error("page_failed", path=request.path, request_id=request_id, exc_info=error)
                found = await self.error(500, "Our fault", f"The server's log has the reason under request {request_id}.")
            if found.prepared or not isinstance(found, web.Response):
                return found
            for name, value in HEADERS.items():
                found.headers.setdefault(name, value)
            if "Content-Disposition" in found.headers:
                found.headers.update(ARTIFACT_HEADERS)
            return _short(request, found) if found.status == 200 else found

        return handle


def _short(request: web.Request, found: web.Response) -> web.Response:
    """304 where the reader has these very bytes. A browser takes its headers for those of the page."""
    assert isinstance(found.body, bytes)
    etag = f'"{hashlib.sha256(found.body).hexdigest()[:32]}"'
    known = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
    if etag in known:
        return web.Response(status=304, headers={**{name: found.headers[name] for name in HEADERS}, "ETag": etag})
    found.headers["ETag"] = etag
    return found


def page_number(request: web.Request) -> int:
    """Which page is asked for: what is no number is the first."""
    return min(max(whole_number(request.query.get("page", "")) or 1, 1), PAGE_LIMIT)


def whole_number(text: str) -> int | None:
    """A number that is not negative and fits in 63 bits; None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None
