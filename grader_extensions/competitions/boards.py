"""Competitions and boards as callers see them: a frozen board is frozen for all but administrators, and made anew every two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from grader.api.conversion import to_message
from grader.api.resource_names import COMPETITIONS, PROBLEMS, parse
from grader.errors import ProblemNotFound
from grader.ledger import Ledger, transactions
from grader.ledger.tables import bans, rejudges, submissions
from grader.model import Score, ScoreKind, SubmissionState, Verdict
from grader.server import interceptors
from grader.server.request_limits import page_position, page_size, page_token
from grader.v1 import competition_pb2
from grader.v1 import grader_service_pb2 as api
from grader_extensions.competitions import leaderboard
from grader_extensions.competitions.leaderboard import Board, Standing, Standings
from grader_extensions.competitions.model import Competition
from grader_extensions.competitions.rejudge import RejudgeState
from grader_extensions.competitions.store import Competitions
from sandbox.protocol import wire
from sandbox.protocol.signatures import rule_of

_OWN = ("submission_id", "user_name", "problem_id", "create_time")
_JUDGED = ("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest")
_APPLIED = sa.select(sa.func.count()).select_from(rejudges).where(rejudges.c.state == RejudgeState.APPLIED)
ADDED_LIMIT = 500  # new submissions that are read by their ids; where there are more, all are read
STANDINGS_LIMIT = 100_000  # submissions of all boards, of half a kB each, that are kept in memory


async def read_standings(ledger: Ledger, competition: Competition, problem_id: str = "") -> list[Standing]:
    """Every submission that may count, of one problem or of all, in no order."""
    return await ledger.database.read(lambda connection: standings_of(connection, competition, problem_id))


async def read_board(
    ledger: Ledger, competitions: Competitions, competition: Competition, problem_id: str, device: str, *, admin: bool
) -> Board:
    """A board of a competition as it was at most two seconds ago. admin: without a freeze. device "": the first that there are entries of.
    ProblemNotFound where the competition does not have this problem."""
    if problem_id and problem_id not in competition.problem_ids:
        raise ProblemNotFound(problem_id, competition.problem_ids)
    before = leaderboard.counted_before(competition, ledger.now(), admin=admin)
    place, saved = (competition.competition_id, problem_id), competitions.standings

    async def make() -> dict[str, Board]:
        last = saved.pop(place, None)
        saved[place] = standings = await ledger.database.read(lambda connection: _update(connection, competition, problem_id, last))
        while sum(len(entry.by_id) for entry in saved.values()) > STANDINGS_LIMIT:
            del saved[next(iter(saved))]
        if before not in standings.boards:
            rows = standings.by_id.values()
            standings.boards[before] = await asyncio.to_thread(leaderboard.boards, competition, rows, problem_id=problem_id, before=before)
        return standings.boards[before]

    boards = await competitions.recent.get((competition.competition_id, problem_id, before), make)
    return boards[device] if device in boards else replace(boards[""], device=device, entries=(), official=False)


def _update(connection: sa.Connection, competition: Competition, problem_id: str, last: Standings | None) -> Standings:
    """Read the submissions that count now: from the index their ids, and the rest, which costs twenty times as much, only of new ones."""
    applied_count = connection.execute(_APPLIED).scalar_one()
    if last is None or last.competition is not competition or last.applied_count != applied_count:
        last = Standings(competition, applied_count, {})
    counting = _counting(competition, [problem_id] if problem_id else competition.problem_ids, submissions)
    submission_ids = connection.scalars(sa.select(submissions.c.submission_id).where(*counting)).all()
    added = [submission_id for submission_id in submission_ids if submission_id not in last.by_id]
    if not added and len(submission_ids) == len(last.by_id):
        return last
    where = (submissions.c.submission_id.in_(added),) if len(added) <= ADDED_LIMIT else ()
    fresh = {standing.submission_id: standing for standing in standings_of(connection, competition, problem_id, where=where)}
    by_id = {submission_id: last.by_id.get(submission_id) or fresh[submission_id] for submission_id in submission_ids}
    return Standings(competition, applied_count, by_id)


History = list[tuple[Competition, Standing, int | None]]  # with its rank, if it is the user's best


async def read_history(ledger: Ledger, competitions: Competitions, user: str, shown: slice) -> tuple[int, History]:
    """A user's submissions that boards show to everybody, or have shown, newest first: each the best of its problem when it was made. How
    many there are, and a part of them."""

    def read(connection: sa.Connection) -> tuple[int, History]:
        query = sa.select(submissions.c.competition_id).where(submissions.c.user_name == user).distinct()
        entered, history = frozenset(connection.execute(query).scalars()), []
        for competition in competitions.all():
            if competition.competition_id in entered:
                before = leaderboard.counted_before(competition, ledger.now(), admin=False)
                improving = _improvements(connection, competition, user, before)
                best = {(standing.problem_id, standing.device): standing for standing in improving}.values()
                history += [(competition, standing, before, standing in best) for standing in improving]
        history.sort(key=lambda row: (row[1].create_time, row[1].submission_id), reverse=True)
        return len(history), [(*row[:2], _rank(connection, *row[:3]) if row[3] else None) for row in history[shown]]

    return await ledger.database.read(read)


def _rank(connection: sa.Connection, competition: Competition, standing: Standing, before: datetime | None) -> int:
    """The rank of a user's best submission on the board of its problem and device: of all others only the better ones are read."""
    this, sign = submissions.c, -1.0 if competition.ranking.score_kind is ScoreKind.SPEEDUP else 1.0
    order = sa.tuple_(sign * this.score, this.create_time, this.submission_id)
    place = sa.tuple_(sign * standing.score.value, sa.literal(standing.create_time, this.create_time.type), standing.submission_id)
    counting = _counting(competition, [standing.problem_id], submissions, before)
    better_here = (*counting, sa.func.coalesce(this.device, "") == standing.device, order < place)
    query = sa.select(this.user_name, this.problem_digest, this.score, this.score_low, this.score_high)
    rows = connection.execute(query.where(*better_here).order_by(*order)).all()
    rules, better = _rules(connection, {row.problem_digest for row in rows}), dict[str, Score]()
    for user, digest, value, low, high in rows:
        if rules[digest] == competition.rules.get(standing.problem_id, rules[digest]):
            better.setdefault(user, Score(value=value, low=low, high=high))
    return leaderboard.rank(standing.score, better.values())


def _rules(connection: sa.Connection, digests: Iterable[str]) -> dict[str, str]:
    return {digest: rule_of(transactions.get_problem(connection, digest).spec) for digest in digests}


async def find_users(ledger: Ledger, competitions: Competitions, text: str, limit: int) -> list[str]:
    """Users on boards, as everybody sees these, whose names have the text in them; the first by name."""
    boards = [(competition, leaderboard.counted_before(competition, ledger.now(), admin=False)) for competition in competitions.all()]
    counting = (sa.and_(*_counting(competition, competition.problem_ids, submissions, before)) for competition, before in boards)
    matches = submissions.c.user_name.icontains(text, autoescape=True)
    query = sa.select(submissions.c.user_name).where(submissions.c.user_name != "", matches, sa.or_(sa.false(), *counting))

    def read(connection: sa.Connection) -> list[str]:
        names = connection.execute(query.distinct().order_by(submissions.c.user_name).limit(limit)).scalars().all()
        return [name for name in names if any(_improvements(connection, competition, name, before) for competition, before in boards)]

    return await ledger.database.read(read)


def _improvements(connection: sa.Connection, competition: Competition, user: str, before: datetime | None) -> list[Standing]:
    standings = standings_of(connection, competition, where=(submissions.c.user_name == user,))
    return leaderboard.improvements(competition, standings, before)


async def read_languages(ledger: Ledger, entries: Sequence[leaderboard.Entry]) -> dict[str, str]:
    """The languages of a page's submissions, by id: they are not in the index that boards are made from."""
    submission_ids = [entry.submission_id for entry in entries if entry.submission_id]
    if not submission_ids:
        return {}
    query = sa.select(submissions.c.submission_id, submissions.c.language).where(submissions.c.submission_id.in_(submission_ids))
    return await ledger.database.read(lambda connection: {row.submission_id: row.language for row in connection.execute(query)})


def standings_of(
    connection: sa.Connection,
    competition: Competition,
    problem_id: str = "",
    *,
    judged: sa.Table = submissions,
    where: Sequence[sa.ColumnElement[bool]] = (),
) -> list[Standing]:
    """See `read_standings`. judged: the table whose judgements count, each of the submission that `where` joins it with."""
    columns = [*(submissions.c[name] for name in _OWN), *(judged.c[name] for name in _JUDGED)]
    query = sa.select(*columns).where(*where, *_counting(competition, [problem_id] if problem_id else competition.problem_ids, judged))
    rows = connection.execute(query).all()
    rules = _rules(connection, {row.problem_digest for row in rows})
    return [
        Standing(
            submission_id=submission_id,
            user=user,
            problem_id=problem,
            device=device or "",
            clock=wire.Clock(clock or wire.Clock.HOST),
            score=Score(value=value, low=low, high=high),
            create_time=create_time,
            flags=tuple(flags.split(",")) if flags else (),
            rule=rules[digest],
        )
        for submission_id, user, problem, create_time, device, clock, value, low, high, flags, digest in rows
    ]


def _counting(
    competition: Competition, problem_ids: Sequence[str], judged: sa.Table, before: datetime | None = None
) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of a submission that may count. before: when the board froze."""
    banned = sa.select(bans.c.user_name).where(bans.c.competition_id == competition.competition_id)
    return (
        submissions.c.competition_id == competition.competition_id,
        submissions.c.problem_id.in_(problem_ids),
        submissions.c.mode == competition.mode,
        submissions.c.state == SubmissionState.SUCCEEDED,
        judged.c.verdict == Verdict.ACCEPTED,
        judged.c.score.is_not(None),
        submissions.c.rejudge_id.is_(None),
        submissions.c.withdraw_time.is_(None),
        submissions.c.user_name.not_in(banned),
        submissions.c.create_time >= competition.start_time,
        submissions.c.create_time < (before or competition.end_time),
    )


def competition_to_proto(competition: Competition, now: datetime) -> competition_pb2.Competition:
    """Convert a competition as everybody sees it. Of secret workloads only how many there are."""
    return to_message(
        competition_pb2.Competition,
        competition,
        competition.ranking,
        secret_workload_counts={problem_id: len(workloads) for problem_id, workloads in competition.secret_workloads.items()},
        state=f"COMPETITION_STATE_{competition.phase(now).name}",
    )


def board_to_proto(
    board: Board, entries: Sequence[leaderboard.Entry], languages: Mapping[str, str], next_page_token: str = ""
) -> competition_pb2.Leaderboard:
    """Convert one page of a board, with these entries. languages: of their submissions."""
    return to_message(
        competition_pb2.Leaderboard,
        board,
        entries=[to_message(competition_pb2.LeaderboardEntry, entry, language=languages.get(entry.submission_id, "")) for entry in entries],
        entry_count=len(board.entries),
        next_page_token=next_page_token,
    )


class BoardCalls:
    """Answers about competitions and boards."""

    def __init__(self, ledger: Ledger, competitions: Competitions) -> None:
        self._ledger, self._competitions = ledger, competitions

    async def GetLeaderboard(self, request: api.GetLeaderboardRequest) -> competition_pb2.Leaderboard:
        """Return a page of the requested board; ProblemNotFound where the competition does not have this problem."""
        size = page_size(request.page_size)
        competition = self._competitions.get(parse(COMPETITIONS, request.competition, "competition"))
        problem_id = parse(PROBLEMS, request.problem, "problem") if request.problem else ""
        admin = interceptors.current_caller().admin
        board = await read_board(self._ledger, self._competitions, competition, problem_id, request.device, admin=admin)
        # A token is of a place, not of a state: who pages while the board moves may see an entry twice, or not.
        place = (competition.competition_id, problem_id, request.device)
        first = page_position(request.page_token, int, *place) or 0
        entries = board.entries[first : first + size]
        following = first + size if first + size < len(board.entries) else None
        return board_to_proto(board, entries, await read_languages(self._ledger, entries), page_token(following, *place))

    async def GetCompetition(self, request: api.GetCompetitionRequest) -> competition_pb2.Competition:
        """Return a competition."""
        return competition_to_proto(self._competitions.get(parse(COMPETITIONS, request.name)), self._ledger.now())

    async def ListCompetitions(self, request: api.ListCompetitionsRequest) -> api.ListCompetitionsResponse:
        """Return a page of competitions, by name."""
        size = page_size(request.page_size)
        after = page_position(request.page_token, str, "competitions") or ""
        rest = [competition for competition in self._competitions.all() if competition.competition_id > after]
        page, following = rest[:size], rest[size - 1].competition_id if len(rest) > size else None
        now = self._ledger.now()
        return api.ListCompetitionsResponse(
            competitions=[competition_to_proto(competition, now) for competition in page],
            next_page_token=page_token(following, "competitions"),
        )
