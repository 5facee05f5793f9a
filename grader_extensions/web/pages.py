"""Pages for people: what is served at which path, competitions and submissions.

Nothing of a caller reaches a page but by a template that escapes it; `grader/access.py` decides what is shown at all, as for the API.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from aiohttp import web

from grader import access
from grader.api import messages
from grader.config import web_address
from grader.extensions import ServerContext
from grader.peers import PeerLimits, loopback
from grader.server.connections import web_limits
from grader.views import formatting
from grader_extensions.competitions.boards import read_board, read_languages
from grader_extensions.competitions.competition_file import read_logo
from grader_extensions.competitions.model import Competition, Phase
from grader_extensions.competitions.store import Competitions
from grader_extensions.web import views
from grader_extensions.web.identities import CALLBACK, IdentityProvider
from grader_extensions.web.live import STREAM_LIMITS, LiveSubmissions
from grader_extensions.web.problem_pages import ProblemPages, problem_row
from grader_extensions.web.report import content
from grader_extensions.web.report.content import PAGE_CHARTS
from grader_extensions.web.report.report_file import STYLE, environment
from grader_extensions.web.report.source_lines import shown_sources
from grader_extensions.web.sessions import Sessions
from grader_extensions.web.sign_in import BEGIN, SIGN_IN_LIMITS, SignInPages
from grader_extensions.web.site import Answer, PageAbsent, Site, api_address, attachment, page_number
from grader_extensions.web.submission_pages import SubmissionPages
from grader_extensions.web.submit_page import SubmitPage
from grader_extensions.web.user_pages import UserPages
from grader_extensions.web.views import PAGE_SIZE, PagePosition

STATIC = Path(__file__).parent / "static"
SCRIPT, EDITOR = STATIC / "site.js", STATIC / "editor.js"
HOME_PROBLEMS = 8  # on the first page
_COMPETITION, _SUBMISSION = r"{id:[A-Za-z0-9._-]{1,64}}", r"{id:[A-Za-z0-9_-]{1,64}}"
_PROBLEM, _ARTIFACT = r"{id:[a-z0-9_]{1,200}}", r"{name:[A-Za-z0-9][A-Za-z0-9._-]{0,99}}"
_USER = r"{user:[a-z0-9._-]{1,64}}"
_STARTER = r"{name:[a-z0-9_]{1,210}\.(?:cu|py)}"


def routes_of(server: ServerContext, provider: IdentityProvider | None) -> list[web.RouteDef]:
    """Return what a server serves next to its own."""
    settings, service = server.settings, server.service
    host, _ = web_address(settings.web or "")
    site = Site(
        service=service,
        competitions=service.policy if isinstance(service.policy, Competitions) else Competitions(),
        open_server=not settings.asks_keys and loopback(f"{host}:0"),
        templates=environment(),
        api_address=api_address(settings),
        sessions=Sessions(server.gate, service.ledger.now) if server.gate is not None else None,
        public_url=settings.public_url.rstrip("/"),
    )
    return routes(site, stream_limits=limits_of_streams(web_limits(settings)), provider=provider)


def limits_of_streams(limits: PeerLimits) -> PeerLimits:
    """Return how many of the web port's connections may follow a submission: some are left for pages, from every address."""
    return PeerLimits(total=max(limits.total // 4, 1), per_address=max(limits.per_address // 8, 1))


def routes(
    site: Site,
    *,
    stream_limits: PeerLimits = STREAM_LIMITS,
    sign_in_limits: PeerLimits = SIGN_IN_LIMITS,
    provider: IdentityProvider | None = None,
) -> list[web.RouteDef]:
    """Return what `grader/server/web_port.py` serves next to its own. provider: that users may sign in with, next to a key."""
    pages, of_problems, of_submissions, of_users = Pages(site), ProblemPages(site), SubmissionPages(site), UserPages(site)
    live, submitting = LiveSubmissions(site, stream_limits), SubmitPage(site)
    answers: list[tuple[str, Answer]] = [
        ("/", pages.home),
        ("/competitions", pages.competitions),
        (f"/competitions/{_COMPETITION}", pages.board),
        (f"/competitions/{_COMPETITION}/event.css", pages.event_style),
        (f"/competitions/{_COMPETITION}/logo", pages.logo),
        ("/problems", of_problems.problems),
        (f"/problems/{_PROBLEM}", of_problems.problem),
        (f"/problems/{_PROBLEM}/{_STARTER}", of_problems.starter),
        ("/submissions", of_submissions.submissions),
        ("/compare", of_submissions.compare),
        ("/submit", submitting.form),
        (f"/users/{_USER}", of_users.user),
        ("/search", of_users.search),
        (f"/submissions/{_SUBMISSION}", pages.submission),
        (f"/submissions/{_SUBMISSION}/sources", pages.sources),
        (f"/submissions/{_SUBMISSION}/artifacts/{_ARTIFACT}", pages.artifact),
        ("/static/style.css", _static(STYLE, "text/css")),
        *((f"/static/{script.name}", _static(script, "text/javascript")) for script in (SCRIPT, EDITOR)),
    ]
    if site.public_url:  # a feed has absolute links
        answers += [(f"/competitions/{_COMPETITION}/board.atom", of_users.board_feed), ("/competitions.atom", of_users.competitions_feed)]
    definitions = [web.get(path, site.answered(answer)) for path, answer in answers]
    # A HEAD request would never end.
    definitions.append(web.get(f"/submissions/{_SUBMISSION}/events", site.answered(live.events), allow_head=False))
    definitions.append(web.post("/submit", site.answered(submitting.submit)))
    if site.sessions is not None:
        signing = SignInPages(site, site.sessions, sign_in_limits, "" if provider is None else provider.name)
        definitions += [web.get("/sign-in", site.answered(signing.form)), web.post("/sign-in", site.answered(signing.sign_in))]
        definitions += [web.get("/account", site.answered(signing.account)), web.post("/sign-out", site.answered(signing.sign_out))]
        if provider is not None:
            provider_module = import_module("grader_extensions.web.provider_sign_in")  # its libraries are needed only here
            identities = provider_module.OpenIdProvider(provider, site.now)
            provider_pages = provider_module.ProviderSignIn(site, site.sessions, identities, sign_in_limits)
            definitions.append(web.get(BEGIN, site.answered(provider_pages.begin), allow_head=False))
            definitions.append(web.get(CALLBACK, site.answered(provider_pages.callback), allow_head=False))
            definitions.append(web.post("/account/key", site.answered(signing.make_key)))
    return [*definitions, web.get("/{rest:.*}", site.answered(_absent))]


def _static(path: Path, content_type: str) -> Answer:
    body = path.read_bytes()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, content_type=content_type, charset="utf-8")

    return answer


async def _absent(request: web.Request) -> web.Response:
    raise PageAbsent


class Pages:
    """Answers GET requests."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def competitions(self, request: web.Request) -> web.Response:
        """The list of competitions."""
        context = views.competitions(self._site.competitions.all(), self._site.now(), page=page_number(request))
        return await self._site.page(request, "competitions.html", context)

    async def board(self, request: web.Request) -> web.Response:
        """A competition and one of its boards, as everybody sees it; an administrator may ask for it without a freeze."""
        site, viewer = self._site, self._site.viewer(request)
        competition, now, page = site.competitions.get(request.match_info["id"]), site.now(), page_number(request)
        competition_id, problem_id, device = competition.competition_id, request.query.get("problem", ""), request.query.get("device", "")
        unfrozen = viewer.admin and "unfrozen" in request.query
        board = await read_board(site.ledger, site.competitions, competition, problem_id, device, admin=unfrozen)
        languages = await read_languages(site.ledger, board.entries[PagePosition(page, len(board.entries)).shown])
        titles = {problem_id: site.title(problem_id) or problem_id for problem_id in competition.problem_ids}
        linked = access.sees_competition(viewer, competition_id, site.readable())
        shown = await asyncio.to_thread(
            views.board, competition, board, now, titles, languages, page=page, linked=linked, reader=viewer.user
        )
        context = shown | {"may_unfreeze": viewer.admin and shown["frozen"], "unfrozen": unfrozen}
        return await site.page(request, "competition.html", context)

    async def event_style(self, request: web.Request) -> web.Response:
        """A competition's own colours."""
        competition = self._site.competitions.get(request.match_info["id"])
        colors = f"background: {competition.color}; color: {views.text_color(competition.color)};" if competition.color else ""
        return web.Response(text=f".event {{ {colors} }}\n", content_type="text/css", charset="utf-8")

    async def logo(self, request: web.Request) -> web.Response:
        """A competition's logo."""
        competition = self._site.competitions.get(request.match_info["id"])
        try:
            content, media_type = await asyncio.to_thread(read_logo, competition.logo or Path())
        except ValueError:
            raise PageAbsent from None
        return web.Response(body=content, content_type=media_type)

    async def submission(self, request: web.Request) -> web.Response:
        """A submission's report; while it is graded, what happens."""
        site, submission = self._site, await self._site.seen(request, request.match_info["id"])
        history = tuple(await site.ledger.judgements(submission.submission_id))
        message = await site.message(replace(submission, judgements=history), full=True)
        shown = await asyncio.to_thread(content.submission, message, PAGE_CHARTS)
        caller, running = site.viewer(request), not submission.state.final
        untimed = message.HasField("report") and not message.report.timeline
        events = await site.service.watch.so_far(caller, submission.submission_id) if running or untimed else []
        artifacts = await site.artifacts.list_for(caller, submission.submission_id) if caller.may_see(submission.new.user) else []
        site_context = {
            "site": True,
            "artifacts": [
                {
                    "name": artifact.name,
                    "tool": artifact.tool,
                    "size": formatting.byte_count(artifact.size_bytes),
                    "available": site.artifacts.holds(artifact),
                }
                for artifact in artifacts
            ],
            "problem_known": bool(site.title(submission.new.problem_id)),
            "running": running,
            "live": views.so_far(events) if running else None,
        }
        if untimed and not running:
            site_context["steps"] = views.stage_times(events) or shown["steps"]
        return await site.page(request, "submission.html", {**shown, **site_context})

    async def artifact(self, request: web.Request) -> web.Response:
        """A file that a submission left, for its owner to save."""
        name = request.match_info["name"]
        _, content = await self._site.artifacts.read(self._site.viewer(request), request.match_info["id"], name)
        return attachment(name, content)

    async def sources(self, request: web.Request) -> web.Response:
        """A submission's sources."""
        submission = await self._site.seen(request, request.match_info["id"])
        files = shown_sources((await self._site.message(submission, full=True)).sources, {})
        return await self._site.page(request, "sources.html", {"id": submission.submission_id, "files": files})

    async def home(self, request: web.Request) -> web.Response:
        """The first page: competitions that run or are to come, the queue, and problems."""
        site, now = self._site, self._site.now()
        competitions = site.competitions.all()
        running = [competition for competition in competitions if competition.phase(now) in (Phase.OPEN, Phase.FROZEN)]
        upcoming = [competition for competition in competitions if competition.phase(now) is Phase.UPCOMING]
        running.sort(key=lambda competition: competition.end_time)  # those of one time stay in the order of their ids
        upcoming.sort(key=lambda competition: competition.start_time)
        shown = {
            "running": [views.competition_head(competition, now) for competition in running[:PAGE_SIZE]],
            "upcoming": [views.competition_head(competition, now) for competition in upcoming[:PAGE_SIZE]],
            "competition_count": len(competitions),
            "queue": await self._queue(request),
            "problems": await asyncio.to_thread(self._problems, competitions, now),
        }
        return await site.page(request, "home.html", shown)

    async def _queue(self, request: web.Request) -> dict[str, int] | None:
        """How many wait and run, of all users; None on a server without keys for those who do not come from its own host."""
        if self._site.sessions is None and not self._site.viewer(request).admin:
            return None
        demands = await self._site.competitions.recent.get(("queue",), self._site.ledger.device_demands)
        return {"waiting": sum(demand.queued_count for demand in demands), "running": sum(demand.running_count for demand in demands)}

    def _problems(self, competitions: tuple[Competition, ...], now: datetime) -> list[dict[str, Any]]:
        """Those of the competitions that began last first, and then others by name."""
        begun = [competition for competition in competitions if competition.start_time <= now]
        begun.sort(key=lambda competition: competition.start_time, reverse=True)
        names = dict.fromkeys(name for competition in begun for name in competition.problem_ids)
        names |= dict.fromkeys(problem.problem_id for problem in self._site.problems.all())
        present = islice((name for name in names if self._site.title(name)), HOME_PROBLEMS)
        return [problem_row(messages.problem_to_proto(self._site.problems.get(name))) for name in present]
