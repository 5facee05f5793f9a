"""Competitions and boards as callers see them: a frozen board is frozen for all but administrators, and made anew at every call."""

from __future__ import annotations

from grader.api.messages import board_to_proto, competition_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, parse
from grader.errors import ProblemNotFound
from grader.ledger import Ledger
from grader.model import Competition
from grader.problems.competition_store import Competitions
from grader.rules import leaderboard
from grader.rules.leaderboard import Board
from grader.server import paging
from grader.v1 import competition_pb2
from grader.v1 import grader_service_pb2 as api


async def board(ledger: Ledger, competition: Competition, *, problem_id: str = "", device: str = "", admin: bool = False) -> Board:
    """The board as it is now for such a caller; ProblemNotFound where the competition does not have this problem."""
    if problem_id and problem_id not in competition.problem_ids:
        raise ProblemNotFound(problem_id, competition.problem_ids)
    before = leaderboard.counted_before(competition, ledger.now(), admin=admin)
    standings = await ledger.boards.standings(competition, problem_id=problem_id, before=before)
    return leaderboard.board(competition, standings, problem_id=problem_id, device=device, before=before)


async def page(
    request: api.GetLeaderboardRequest, ledger: Ledger, competitions: Competitions, *, admin: bool
) -> competition_pb2.Leaderboard:
    """Return a page of the requested board."""
    size = paging.page_size(request.page_size)
    competition = competitions.get(parse(COMPETITIONS, request.competition, "competition"))
    problem_id = parse(PROBLEMS, request.problem, "problem") if request.problem else ""
    shown_board = await board(ledger, competition, problem_id=problem_id, device=request.device, admin=admin)
    # A token is of a place, not of a state: who pages while the board moves may see an entry twice, or not.
    place = (competition.competition_id, problem_id, request.device)
    first = paging.decode(request.page_token, int, *place) or 0
    shown = [entry.submission_id for entry in shown_board.entries[first : first + size]]
    shown_board = leaderboard.with_languages(shown_board, await ledger.boards.languages(shown))
    following = first + size if first + size < len(shown_board.entries) else None
    return board_to_proto(shown_board, first, size, paging.encode(following, *place))


def competition(request: api.GetCompetitionRequest, ledger: Ledger, competitions: Competitions) -> competition_pb2.Competition:
    """Return a competition."""
    return competition_to_proto(competitions.get(parse(COMPETITIONS, request.name)), ledger.now())


def competition_page(request: api.ListCompetitionsRequest, ledger: Ledger, competitions: Competitions) -> api.ListCompetitionsResponse:
    """Return a page of competitions, by name."""
    size = paging.page_size(request.page_size)
    after = paging.decode(request.page_token, str, "competitions") or ""
    rest = [competition for competition in competitions.all() if competition.competition_id > after]
    page, following = rest[:size], rest[size - 1].competition_id if len(rest) > size else None
    now = ledger.now()
    return api.ListCompetitionsResponse(
        competitions=[competition_to_proto(competition, now) for competition in page],
        next_page_token=paging.encode(following, "competitions"),
    )
