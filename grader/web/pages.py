"""Pages for people: competitions, boards, reports.  Read only, without JavaScript, and the same for everybody who asks.

Nothing of a caller reaches a page but by a template that escapes it; `grader/access.py` decides what is shown at all, as for the API.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import jinja2
import structlog
from aiohttp import web

from grader import access
from grader.api import messages
from grader.errors import ArtifactNotFound, CompetitionNotFound, GraderFault, ProblemNotFound, SubmissionNotFound
from grader.html_report import content
from grader.html_report.templating import STYLE, environment
from grader.ledger import Ledger
from grader.model import Caller, Submission
from grader.problems.competition_store import Competitions
from grader.problems.store import Problems
from grader.rules import leaderboard
from grader.rules.disclosure import Redactor
from grader.v1 import submission_pb2
from grader.web import views
from grader.web.artifacts import HEADERS as ARTIFACT_HEADERS
from grader.web.artifacts import ArtifactSource, NoArtifacts, attachment, rows
from grader.web.visibility import viewer

log = structlog.get_logger()

HERE = Path(__file__).parent
STANDINGS_S = 2.0  # so long what a board is made from is good: anybody may ask, as often as they like
PAGE_LIMIT = 100_000
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Server": "grader",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",  # kept, and asked for again with its ETag
}
_COMPETITION, _SUBMISSION = r"{id:[A-Za-z0-9._-]{1,64}}", r"{id:[A-Za-z0-9_-]{1,64}}"
_ARTIFACT = r"{name:[A-Za-z0-9][A-Za-z0-9._-]{0,99}}"

T = TypeVar("T")
Answer = Callable[[web.Request], Awaitable[web.Response]]


class _Absent(Exception):
    """There is no such page, or it is not for everybody: the answer does not say which."""


def site_templates(autoescape: bool = True) -> jinja2.Environment:
    """The site's templates. autoescape False is for the test that shows what it is for."""
    return environment(HERE / "templates", autoescape=autoescape)


def routes(
    ledger: Ledger,
    problems: Problems,
    competitions: Competitions,
    *,
    open_server: bool = False,
    standings_s: float = STANDINGS_S,
    templates: jinja2.Environment | None = None,
    artifacts: ArtifactSource | None = None,
) -> list[web.RouteDef]:
    """What `grader/web/serving.py` serves next to its own. open_server: no keys are asked for, and only this host gets here."""
    pages = Pages(ledger, problems, competitions, open_server, standings_s, templates or site_templates(), artifacts or NoArtifacts())
    found: list[tuple[str, Answer]] = [
        ("/", pages.competitions),
        (f"/competitions/{_COMPETITION}", pages.board),
        (f"/submissions/{_SUBMISSION}", pages.submission),
        (f"/submissions/{_SUBMISSION}/sources", pages.sources),
        (f"/submissions/{_SUBMISSION}/artifacts/{_ARTIFACT}", pages.artifact),
        ("/static/style.css", pages.style),
        ("/{rest:.*}", pages.absent),
    ]
    return [web.get(path, pages.answered(answer)) for path, answer in found]


class Pages:
    """Answers GET requests."""

    def __init__(
        self,
        ledger: Ledger,
        problems: Problems,
        competitions: Competitions,
        open_server: bool,
        standings_s: float,
        templates: jinja2.Environment,
        artifacts: ArtifactSource,
    ) -> None:
        self._ledger, self._problems, self._competitions = ledger, problems, competitions
        self._open_server, self._standings_s, self._templates = open_server, standings_s, templates
        self._artifacts = artifacts
        self._reads: dict[tuple[object, ...], tuple[float, asyncio.Task[Any]]] = {}  # when each has to be made again
        self._style = STYLE.read_bytes()

    def answered(self, answer: Answer) -> Answer:
        """The handler of a page: with headers, with a page for what goes wrong, and short where the reader has it already."""

        async def handle(request: web.Request) -> web.Response:
            try:
                found = await answer(request)
            except (_Absent, ArtifactNotFound, CompetitionNotFound, ProblemNotFound, SubmissionNotFound):
                found = await self._error(404, "Not found", "There is no such page, or it is not shown to everybody.")
            except GraderFault as error:
                log.warning("page_refused", reason=error.reason, detail=error.detail)
                found = await self._error(503, "Not now", "The ledger does not answer. Come again in a minute.")
            except Exception as error:
                request_id = uuid.uuid4().hex
                log.error("page_failed", path=request.path, request_id=request_id, exc_info=error)
                found = await self._error(500, "Our fault", f"The server's log has the reason under request {request_id}.")
            found.headers.update(HEADERS)
            if "Content-Disposition" in found.headers:
                found.headers.update(ARTIFACT_HEADERS)
            return _short(request, found) if found.status == 200 else found

        return handle

    async def competitions(self, request: web.Request) -> web.Response:
        """The list of competitions."""
        context = views.competitions(self._competitions.all(), self._ledger.now(), page=_page(request))
        return await self._page("competitions.html", context)

    async def board(self, request: web.Request) -> web.Response:
        """A competition and one of its boards, as it is for those who are not administrators."""
        competition, now = self._competitions.get(request.match_info["id"]), self._ledger.now()
        problem_id, device = request.query.get("problem", ""), request.query.get("device", "")
        if problem_id and problem_id not in competition.problem_ids:
            raise ProblemNotFound(problem_id)
        before = leaderboard.counted_before(competition, now, admin=False)
        standings = await self._recent(
            (competition.competition_id, problem_id), lambda: self._ledger.boards.standings(competition, problem_id=problem_id)
        )
        found = await asyncio.to_thread(leaderboard.board, competition, standings, problem_id=problem_id, device=device, before=before)
        if found.official:
            unlike = await self._recent(
                (competition.competition_id, found.problem_id, found.device, before),
                lambda: self._ledger.boards.device_differences(competition, found),
            )
            found = replace(found, device_differences=unlike)
        titles = {one: self._title(one) for one in competition.problem_ids}
        linked = access.sees_competition(self._viewer(request), competition.competition_id, self._competitions.all(), now)
        page = _page(request)

        context = await asyncio.to_thread(views.board, competition, found, now, titles, page=page, linked=linked)
        return await self._page("competition.html", context)

    async def submission(self, request: web.Request) -> web.Response:
        """A submission's report."""
        submission = await self._seen(request)
        history = tuple(await self._ledger.judgements(submission.submission_id))
        redactor = Redactor.of(await self._ledger.problem(submission.problem_digest))

        def context() -> dict[str, Any]:
            message = messages.submission_to_proto(replace(submission, judgements=history), redactor, full=True)
            return {**content.submission(message), "site": True}

        owned = self._viewer(request).may_see(submission.new.user)
        files = await self._artifacts.of(self._viewer(request), submission.submission_id) if owned else []
        shown = await asyncio.to_thread(context)
        return await self._page("submission.html", {**shown, "artifacts": rows(files, self._artifacts)})

    async def artifact(self, request: web.Request) -> web.Response:
        """A file that a submission left, for its owner to save."""
        name = request.match_info["name"]
        return attachment(name, await self._artifacts.read(self._viewer(request), request.match_info["id"], name))

    async def sources(self, request: web.Request) -> web.Response:
        """A submission's sources."""
        submission = await self._seen(request)
        return await self._page("sources.html", views.sources(await self._message(submission)))

    async def style(self, request: web.Request) -> web.Response:
        """The one style sheet."""
        return web.Response(body=self._style, content_type="text/css", charset="utf-8")

    async def absent(self, request: web.Request) -> web.Response:
        """Every other path."""
        raise _Absent

    async def _seen(self, request: web.Request) -> Submission:
        """A submission that this request may see."""
        submission = await self._ledger.get(request.match_info["id"])
        access.check_seen(self._viewer(request), submission, self._competitions.all(), self._ledger.now())
        return submission

    def _viewer(self, request: web.Request) -> Caller:
        return viewer(request.host, request.headers, open_server=self._open_server)

    async def _message(self, submission: Submission) -> submission_pb2.Submission:
        """As the API shows it to its owner: there, and nowhere else, is taken out what submitters must not see."""
        redactor = Redactor.of(await self._ledger.problem(submission.problem_digest))
        return messages.submission_to_proto(submission, redactor, full=True)

    async def _recent(self, key: tuple[object, ...], read: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a board is made from, read at most once in a while, and once for all who ask meanwhile."""
        now = asyncio.get_running_loop().time()
        known = self._reads.get(key)
        if known is None or known[0] <= now:
            self._reads[key] = known = (now + self._standings_s, asyncio.ensure_future(read()))
        return await asyncio.shield(cast("asyncio.Task[T]", known[1]))

    def _title(self, problem_id: str) -> str:
        try:
            return self._problems.get(problem_id).title or problem_id
        except ProblemNotFound:
            return problem_id

    async def _page(self, name: str, context: dict[str, Any], status: int = 200) -> web.Response:
        text = await asyncio.to_thread(self._templates.get_template(name).render, context)  # a log of 64 KiB takes a while
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")

    async def _error(self, status: int, title: str, text: str) -> web.Response:
        return await self._page("error.html", {"title": title, "text": text}, status)


def _short(request: web.Request, found: web.Response) -> web.Response:
    """304 where the reader has these very bytes."""
    assert isinstance(found.body, bytes)
    etag = f'"{hashlib.sha256(found.body).hexdigest()[:32]}"'
    known = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
    if etag in known:
        return web.Response(status=304, headers={**HEADERS, "ETag": etag})
    found.headers["ETag"] = etag
    return found


def _page(request: web.Request) -> int:
    """Which page is asked for: what is no number is the first."""
    text = request.query.get("page", "1")
    return min(max(int(text), 1), PAGE_LIMIT) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
