"""Pages of users, the search, and Atom feeds.  They show of users what boards show to everybody, whoever asks, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from urllib.parse import quote, urlencode

from aiohttp import web

from grader import access
from grader.peers import PeerCount, PeerLimits
from grader_extensions.competitions.boards import find_users, read_board, read_history
from grader_extensions.web.report.content import when
from grader_extensions.web.site import PageAbsent, Site, TooBusy, counted, page_number
from grader_extensions.web.views import PAGE_SIZE, PagePosition, score_column

SEARCH_LIMITS = PeerLimits(total=64, per_address=16)  # at a time, of which one looks into the ledger
QUERY_CHARS, MATCHES = 100, 20  # matches: of each kind


class UserPages:
    """Answers GET requests."""

    def __init__(self, site: Site, limits: PeerLimits = SEARCH_LIMITS) -> None:
        self._site, self.count, self._turn = site, PeerCount(limits), asyncio.Lock()

    async def user(self, request: web.Request) -> web.Response:
        """A user's history on boards, newest first. PageAbsent where no board has this user."""
        site, user, viewer = self._site, request.match_info["user"], self._site.viewer(request)
        page = page_number(request)
        count, history = await read_history(site.ledger, site.competitions, user, PagePosition(page, 0).shown)
        if not count:
            raise PageAbsent
        place, rows = PagePosition(page, count), []
        for competition, standing, rank in history:
            score = score_column([standing.score.value], competition.ranking.score_kind)(standing.score.value)
            linked = viewer.user == user or access.sees_competition(viewer, competition.competition_id, site.readable())
            rows.append((competition, standing, score, rank, linked))
        shown = {"user": user, "rows": rows, "place": place, "when": when, "title_of": site.title}
        return await site.page(request, "user.html", shown)

    async def search(self, request: web.Request) -> web.Response:
        """Problems, competitions and users whose title or name has the text in it."""
        site, query = self._site, request.query.get("q", "").strip()[:QUERY_CHARS]
        text, users = query.casefold(), list[tuple[str, str]]()
        names = {problem.problem_id: problem.title for problem in site.problems.all()}
        titles = {competition.competition_id: competition.title for competition in site.competitions.all()}
        if query:
            with counted(request, self.count, TooBusy("Too many searches are being made. Reload this page.", 5)):
                async with self._turn:
                    users = [(user, user) for user in await find_users(site.ledger, site.competitions, query, MATCHES)]
        shown = {"problems": _matches(text, names), "competitions": _matches(text, titles), "users": users}
        return await site.page(request, "search.html", shown | {"query": query}, form=True)

    async def board_feed(self, request: web.Request) -> web.Response:
        """The entries of a board as it is for everybody, newest first."""
        site, competition = self._site, self._site.competitions.get(request.match_info["id"])
        problem_id, device = request.query.get("problem", ""), request.query.get("device", "")
        board = await read_board(site.ledger, site.competitions, competition, problem_id, device, admin=False)
        figure = score_column([entry.score.value for entry in board.entries], board.score_kind)
        newest = sorted(board.entries, key=lambda entry: entry.create_time, reverse=True)[:PAGE_SIZE]
        path = f"/competitions/{quote(competition.competition_id)}?{urlencode({'problem': problem_id, 'device': device})}"
        entries = [(f"{entry.user}: {figure(entry.score.value)}, rank {entry.rank}", entry.user, entry.create_time) for entry in newest]
        return self._feed(request, f"{competition.title}, board", path, entries, competition.start_time)

    async def competitions_feed(self, request: web.Request) -> web.Response:
        """The beginnings and ends of competitions, newest first."""
        now, changes = self._site.now(), list[tuple[str, str, datetime]]()
        for competition in self._site.competitions.all():
            changes.append((f"{competition.title} has begun", f"{competition.competition_id}-start", competition.start_time))
            changes.append((f"{competition.title} has ended", f"{competition.competition_id}-end", competition.end_time))
        past = sorted((change for change in changes if change[2] <= now), key=lambda change: change[2], reverse=True)
        return self._feed(request, "Competitions", "/competitions", past[:PAGE_SIZE], datetime.fromtimestamp(0, now.tzinfo))

    def _feed(
        self, request: web.Request, title: str, path: str, entries: Iterable[tuple[str, str, datetime]], oldest: datetime
    ) -> web.Response:
        """An Atom feed. path: of the page that it is of; entries: title, name and time of each."""
        rows = [{"title": title, "name": quote(name), "time": when(time)["iso"]} for title, name, time in entries]
        shown = {
            "title": title,
            "page": f"{self._site.public_url}{path}",
            "address": f"{self._site.public_url}{request.path_qs}",
            "updated": rows[0]["time"] if rows else when(oldest)["iso"],
            "entries": rows,
        }
        text = self._site.templates.get_template("feed.atom").render(shown)
        return web.Response(text=text, content_type="application/atom+xml", charset="utf-8")


def _matches(text: str, titles: Mapping[str, str]) -> list[tuple[str, str]]:
    """Id and title of the first that have the text in one of them; none for no text."""
    matches = ((name, title or name) for name, title in titles.items() if text and text in f"{name} {title}".casefold())
    return list(islice(matches, MATCHES))
