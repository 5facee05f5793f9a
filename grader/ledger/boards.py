"""What boards are made from: the submissions to a competition that may count, and what their reports say of GPUs.  Reads only."""

from __future__ import annotations

import asyncio
import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa

from grader.ledger import transactions
from grader.ledger.database import Database
from grader.ledger.tables import bans, judgements, submissions
from grader.model import Competition, Score, SubmissionState, Verdict
from grader.rules.leaderboard import Board, Standing
from grader.verdict.device_differences import BaselineMedians, DeviceDifference, device_differences
from sandbox.protocol import wire
from sandbox.protocol.signatures import rule_of

REPORT_LIMIT = 200  # the newest of a board that its GPUs are compared by: a report is some 200 kB
_KNOWN_LIMIT = 4096  # what is kept of a report is 1 or 2 kB
_OWN = ("submission_id", "user_name", "problem_id", "create_time")
_JUDGED = ("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest")

# A submission's number, and which of its judgements counts. A judgement is never changed.
Judged = tuple[int, int | None]


class Boards:
    """Reached as `ledger.boards`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._times: dict[Judged, BaselineMedians] = {}  # of reports that were read before
        self._reading = asyncio.Lock()  # so that callers who come together read a report once

    async def standings(self, competition: Competition, *, problem_id: str = "", before: datetime | None = None) -> list[Standing]:
        """Every submission that may count, of one problem or of all, in no order; before: only those made until then, exclusive."""
        return await self._database.read(lambda connection: standings(connection, competition, problem_id, before))

    async def languages(self, submission_ids: Sequence[str]) -> dict[str, str]:
        """The language of each of these submissions: of the entries of a page, for it is not in the index that boards are made from."""
        columns = (submissions.c.submission_id, submissions.c.language)
        query = sa.select(*columns).where(submissions.c.submission_id.in_([one for one in submission_ids if one]))
        return await self._database.read(lambda connection: {row.submission_id: row.language for row in connection.execute(query)})

    async def device_differences(self, competition: Competition, board: Board) -> tuple[DeviceDifference, ...]:
        """The GPUs of a board that are not equally fast, by the newest reports of what counts on it; none on a board for practice."""
        if not board.official:
            return ()
        async with self._reading:
            known = dict(self._times)
            found = await self._database.read(lambda connection: baseline_medians(connection, competition, board, known))
            self._keep(found)
        return device_differences(found.values())

    def _keep(self, found: Mapping[Judged, BaselineMedians]) -> None:
        """What was asked for last stays longest."""
        for key, times in found.items():
            self._times.pop(key, None)
            self._times[key] = times
        for key in list(self._times)[: max(len(self._times) - _KNOWN_LIMIT, 0)]:
            del self._times[key]


def standings(
    connection: sa.Connection,
    competition: Competition,
    problem_id: str = "",
    before: datetime | None = None,
    *,
    judged: sa.Table = submissions,
    where: Sequence[sa.ColumnElement[bool]] = (),
) -> list[Standing]:
    """See `Boards.standings`. judged: the table whose judgements count, each of the submission that `where` joins it with."""
    columns = [*(submissions.c[name] for name in _OWN), *(judged.c[name] for name in _JUDGED)]
    query = sa.select(*columns).where(*where, *_counted(competition, problem_id, before, judged))
    rows = connection.execute(query).all()
    rules = {digest: rule_of(transactions.get_problem(connection, digest).spec) for digest in {row.problem_digest for row in rows}}
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


def baseline_medians(
    connection: sa.Connection, competition: Competition, board: Board, known: Mapping[Judged, BaselineMedians]
) -> dict[Judged, BaselineMedians]:
    """Times of the competition's baseline in the newest reports of a board, at most REPORT_LIMIT. known: of these the report is not read.

    Secret workloads are among them: only an aggregate may leave the server.
    """
    # All of it from indices: a report lies in its submission's row, and only those that are not known are worth reading.
    sequence = sa.select(sa.func.max(judgements.c.sequence)).where(judgements.c.number == submissions.c.number).scalar_subquery()
    newest = (
        sa.select(submissions.c.number, sequence.label("sequence"), submissions.c.problem_digest)
        .where(
            *_counted(competition, board.problem_id, board.before),
            submissions.c.device == board.device,
            submissions.c.clock == wire.Clock.DEVICE_EVENTS,
        )
        .order_by(submissions.c.create_time.desc(), submissions.c.submission_id)
        .limit(REPORT_LIMIT)
    )
    found: dict[Judged, BaselineMedians] = {}
    for number, judgement, digest in connection.execute(newest).all():
        times = known.get((number, judgement))
        if times is None:
            report = connection.execute(sa.select(submissions.c.report).where(submissions.c.number == number)).scalar_one()
            times = _baseline_medians(report, digest, competition.ranking.baseline)
        found[number, judgement] = times
    return found


def _baseline_medians(report: str | None, problem_digest: str, baseline: str) -> BaselineMedians:
    """Read as plain data: to build a report with all of its samples takes many times as long."""
    data = json.loads(report or "{}")
    samples = {one["workload_id"]: (one.get("baselines") or {}).get(baseline) for one in data.get("measurements") or ()}
    return BaselineMedians(
        device_uuid=(data.get("environment") or {}).get("device_uuid") or "",
        problem_digest=problem_digest,
        medians_ns={name: statistics.median(one["durations_ns"]) for name, one in samples.items() if one and one["durations_ns"]},
    )


def _counted(
    competition: Competition, problem_id: str, before: datetime | None, judged: sa.Table = submissions
) -> tuple[sa.ColumnElement[bool], ...]:
    """What a submission has to be to count."""
    end = competition.end_time if before is None else min(before, competition.end_time)
    banned = sa.select(bans.c.user_name).where(bans.c.competition_id == competition.competition_id)
    return (
        submissions.c.competition_id == competition.competition_id,
        submissions.c.problem_id.in_([problem_id] if problem_id else competition.problem_ids),
        submissions.c.mode == competition.mode,
        submissions.c.state == SubmissionState.SUCCEEDED,
        judged.c.verdict == Verdict.ACCEPTED,
        judged.c.score.is_not(None),
        submissions.c.rejudge_id.is_(None),
        submissions.c.withdraw_time.is_(None),
        submissions.c.user_name.not_in(banned),
        submissions.c.create_time >= competition.start_time,
        submissions.c.create_time < end,
    )
