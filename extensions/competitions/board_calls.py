"""Competitions and boards as callers see them: a frozen board is frozen for all but administrators, and made anew at every call."""

from __future__ import annotations

from extensions.competitions.store import Competitions
from grader.api.messages import board_to_proto, competition_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, parse
from grader.errors import ProblemNotFound
from grader.extensions import Call
from grader.ledger import Ledger
from grader.rules import leaderboard
from grader.server import interceptors, paging
from grader.v1 import competition_pb2
from grader.v1 import grader_service_pb2 as api


class BoardCalls:
    """Answers about competitions and boards."""

    def __init__(self, ledger: Ledger, competitions: Competitions) -> None:
        self._ledger, self._competitions = ledger, competitions

    def calls(self) -> dict[str, Call]:
        """Return them by the names of the API's methods."""
        return {"GetCompetition": self.competition, "ListCompetitions": self.competition_page, "GetLeaderboard": self.page}

    async def page(self, request: api.GetLeaderboardRequest) -> competition_pb2.Leaderboard:
        """Return a page of the requested board; ProblemNotFound where the competition does not have this problem."""
        size = paging.page_size(request.page_size)
        competition = self._competitions.get(parse(COMPETITIONS, request.competition, "competition"))
        problem_id = parse(PROBLEMS, request.problem, "problem") if request.problem else ""
        if problem_id and problem_id not in competition.problem_ids:
            raise ProblemNotFound(problem_id, competition.problem_ids)
        before = leaderboard.counted_before(competition, self._ledger.now(), admin=interceptors.current_caller().admin)
        standings = await self._ledger.boards.standings(competition, problem_id=problem_id, before=before)
        board = leaderboard.board(competition, standings, problem_id=problem_id, device=request.device, before=before)
        # A token is of a place, not of a state: who pages while the board moves may see an entry twice, or not.
        place = (competition.competition_id, problem_id, request.device)
        first = paging.decode(request.page_token, int, *place) or 0
        shown = [entry.submission_id for entry in board.entries[first : first + size]]
        board = leaderboard.with_languages(board, await self._ledger.boards.languages(shown))
        following = first + size if first + size < len(board.entries) else None
        return board_to_proto(board, first, size, paging.encode(following, *place))

    async def competition(self, request: api.GetCompetitionRequest) -> competition_pb2.Competition:
        """Return a competition."""
        return competition_to_proto(self._competitions.get(parse(COMPETITIONS, request.name)), self._ledger.now())

    async def competition_page(self, request: api.ListCompetitionsRequest) -> api.ListCompetitionsResponse:
        """Return a page of competitions, by name."""
        size = paging.page_size(request.page_size)
        after = paging.decode(request.page_token, str, "competitions") or ""
        rest = [competition for competition in self._competitions.all() if competition.competition_id > after]
        page, following = rest[:size], rest[size - 1].competition_id if len(rest) > size else None
        now = self._ledger.now()
        return api.ListCompetitionsResponse(
            competitions=[competition_to_proto(competition, now) for competition in page],
            next_page_token=paging.encode(following, "competitions"),
        )
