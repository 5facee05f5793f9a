"""Terms of a competition for submissions: what it takes, how many of a user, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from extensions.competitions.model import Competition, Phase
from extensions.competitions.secret_workloads import problem_for
from grader import devices
from grader.api.resource_names import PROBLEMS, full_name
from grader.errors import CompetitionClosed, FieldViolation, InvalidSubmission, NoSuchDevice, UserBanned
from grader.extensions import SubmitTerms
from grader.ledger.tables import bans
from grader.model import NewSubmission, Problem
from grader.problems.store import Problems
from grader.rules.quotas import Quota, for_server, shown_time
from grader.v1 import submission_pb2
from sandbox.protocol import wire


def terms_of(competition: Competition, problems: Problems, message: submission_pb2.Submission, device_kinds: Sequence[str]) -> SubmitTerms:
    """Return the terms for this message. InvalidSubmission where the competition does not have its device."""
    kind = message.device_kind or competition.device_kinds[0]
    if kind not in competition.device_kinds:
        choices = ", ".join(competition.device_kinds)
        text = f"{kind!r} is not a device of competition {competition.competition_id!r}; leave it out, or take one of: {choices}"
        raise InvalidSubmission([FieldViolation("device_kind", text)])
    return SubmitTerms(
        problem=partial(_problem, competition, problems),
        competition_id=competition.competition_id,
        device_kind=kind,
        check=partial(_check_mode, competition, device_kinds, kind),
        admit=partial(check_admission, competition),
        quotas=for_competition(competition),
    )


def _problem(competition: Competition, problems: Problems, problem_id: str) -> Problem:
    if problem_id not in competition.problem_ids:
        choices = ", ".join(full_name(PROBLEMS, choice) for choice in competition.problem_ids)
        text = f"{problem_id!r} is not a problem of competition {competition.competition_id!r}; take one of: {choices}"
        raise InvalidSubmission([FieldViolation("problem", text)])
    return problem_for(competition, problems.get(problem_id))


def _check_mode(competition: Competition, device_kinds: Sequence[str], kind: str, submission: NewSubmission, problem: Problem) -> None:
    if submission.mode in (wire.Mode.PROFILE, wire.Mode.SANITIZE):
        # What they find comes from processes that begin after secret workloads were run, and could carry what those left behind.
        text = f"a competition takes no MODE_{submission.mode.name}; leave `competition` out to run it on the public workloads"
        raise InvalidSubmission([FieldViolation("mode", text)])
    if submission.mode is not competition.mode and problem.first_shown(kind.partition(":")[0]) is None:
        text = f"only MODE_{competition.mode.name} runs hidden workloads, and {kind!r} has no other here; take that mode"
        raise InvalidSubmission([FieldViolation("mode", text)])
    if not devices.is_offered(kind, device_kinds):
        raise NoSuchDevice(kind, tuple(offer for offer in competition.device_kinds if devices.is_offered(offer, device_kinds)))


def check_admission(competition: Competition, connection: sa.Connection, now: datetime, user: str) -> None:
    """CompetitionClosed, with the time, before the start and from the end on; UserBanned."""
    match competition.phase(now):
        case Phase.UPCOMING:
            raise CompetitionClosed(competition.competition_id, Phase.UPCOMING, shown_time(competition.start_time))
        case Phase.ENDED:
            raise CompetitionClosed(competition.competition_id, Phase.ENDED, shown_time(competition.end_time))
    query = sa.select(bans.c.reason).where(bans.c.competition_id == competition.competition_id, bans.c.user_name == user)
    if (reason := connection.execute(query).scalar_one_or_none()) is not None:
        raise UserBanned(competition.competition_id, reason)


def for_competition(competition: Competition) -> tuple[Quota, ...]:
    """Return what the competition allows each user."""
    return for_server(competition.hourly_limit, competition.daily_limit, competition.competition_id)
