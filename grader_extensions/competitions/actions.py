"""Actions of organisers, and of owners of submissions, while a competition runs.  Functions on a connection; each leaves its record."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import sqlalchemy as sa

from grader.errors import FieldViolation, InvalidRequest, SubmissionNotFound
from grader.ledger import transactions
from grader.ledger.tables import bans, competition_actions, submissions
from grader.model import Caller, Submission
from grader.rules.quotas import shown_time
from grader_extensions.competitions.model import ActionKind, Ban, Competition, CompetitionAction, Phase
from grader_extensions.competitions.refusals import WithdrawalRefused

REASON_LIMIT_CHARS = 400


def checked_reason(reason: str, *, required: bool) -> str:
    """The reason without blanks around it; InvalidRequest where it is too long, not one printable line, or missing."""
    stripped = reason.strip()
    if not stripped and required:
        text = "is missing; say why, in one line"
    elif len(stripped) > REASON_LIMIT_CHARS:
        text = f"has {len(stripped)} characters; write at most {REASON_LIMIT_CHARS}"
    elif not stripped.isprintable():
        text = "has a character that does not print, such as a line end; write one line of text"
    else:
        return stripped
    raise InvalidRequest([FieldViolation("reason", text)])


def withdraw(
    connection: sa.Connection, now: datetime, submission_id: str, competition: Competition | None, caller: Caller, reason: str
) -> Submission:
    """Take a submission off the boards of its competition, None where it has none. WithdrawalRefused; SubmissionNotFound.

    Its owner may until the end, so that nobody changes a result that is known; an administrator may at any time. Of one that is withdrawn
    only an administrator's reason replaces what is there.
    """
    submission = _submission(connection, submission_id)
    if competition is None:
        raise WithdrawalRefused(submission_id, "it is in no competition, so it is on no board")
    if not caller.admin and competition.phase(now) is Phase.ENDED:
        ended = f"competition {competition.competition_id!r} ended at {shown_time(competition.end_time)}"
        raise WithdrawalRefused(submission_id, f"{ended}; ask its organisers")
    before = submission.withdrawal
    if before is not None and (not caller.admin or (before.user, before.reason) == (caller.user, reason)):
        return submission
    values = {"withdraw_time": now, "withdraw_user": caller.user, "withdraw_reason": reason}
    return _changed(connection, now, submission, ActionKind.WITHDRAWN, caller.user, reason, values)


def restore(connection: sa.Connection, now: datetime, submission_id: str, user: str, reason: str) -> Submission:
    """Put a submission back on the boards; one that is not withdrawn stays so. SubmissionNotFound."""
    submission = _submission(connection, submission_id)
    if submission.withdrawal is None:
        return submission
    values = dict.fromkeys(("withdraw_time", "withdraw_user", "withdraw_reason"))
    return _changed(connection, now, submission, ActionKind.RESTORED, user, reason, values)


def ban(connection: sa.Connection, now: datetime, competition_id: str, user: str, administrator: str, reason: str) -> Ban:
    """Let a user take no part in a competition any more. A second time the reason is replaced."""
    this = (bans.c.competition_id == competition_id, bans.c.user_name == user)
    before = connection.execute(sa.select(bans.c.reason).where(*this).with_for_update()).scalar_one_or_none()
    if before != reason:
        values = {"reason": reason, "administrator": administrator, "create_time": now}
        if before is None:
            connection.execute(sa.insert(bans).values(competition_id=competition_id, user_name=user, **values))
        else:
            connection.execute(sa.update(bans).where(*this).values(values))
        _record(connection, now, competition_id, ActionKind.BANNED, administrator, user, reason)
    return next(entry for entry in bans_of(connection, competition_id) if entry.user == user)


def lift_ban(connection: sa.Connection, now: datetime, competition_id: str, user: str, administrator: str, reason: str) -> bool:
    """Let the user take part again; whether there was a ban."""
    this = sa.delete(bans).where(bans.c.competition_id == competition_id, bans.c.user_name == user)
    lifted = connection.execute(this).rowcount > 0
    if lifted:
        _record(connection, now, competition_id, ActionKind.BAN_LIFTED, administrator, user, reason)
    return lifted


def record_reload(connection: sa.Connection, now: datetime, user: str, differences: Mapping[str, str]) -> None:
    """Write down that the files were read again. differences: what was changed, by competition."""
    for competition_id, text in differences.items():
        _record(connection, now, competition_id, ActionKind.FILE_RELOADED, user, "competition.toml", text)


def page(
    connection: sa.Connection, competition_id: str, *, size: int, before: int | None = None
) -> tuple[list[CompetitionAction], int | None]:
    """Return what was done in a competition, newest first; and `before` of the next page."""
    this = competition_actions.c
    query = sa.select(competition_actions).where(this.competition_id == competition_id).order_by(this.sequence.desc()).limit(size + 1)
    if before is not None:
        query = query.where(this.sequence < min(before, transactions.LARGEST))
    rows = connection.execute(query).all()
    names = ("competition_id", "subject", "reason", "create_time")
    logged = [
        CompetitionAction(kind=ActionKind(row.action), user=row.user_name, **{name: row._mapping[name] for name in names})
        for row in rows[:size]
    ]
    return logged, rows[size - 1].sequence if len(rows) > size else None


def bans_of(connection: sa.Connection, competition_id: str) -> list[Ban]:
    """Return who is banned from a competition, by name."""
    same = (submissions.c.competition_id == bans.c.competition_id, submissions.c.user_name == bans.c.user_name)
    count = sa.select(sa.func.count()).where(*same, submissions.c.rejudge_id.is_(None)).scalar_subquery()
    query = sa.select(bans, count.label("submission_count")).where(bans.c.competition_id == competition_id).order_by(bans.c.user_name)
    names = ("competition_id", "reason", "create_time", "administrator", "submission_count")
    return [Ban(user=row.user_name, **{name: row._mapping[name] for name in names}) for row in connection.execute(query)]


def _submission(connection: sa.Connection, submission_id: str) -> Submission:
    """A submission of a user, which stays so until the transaction ends; what a rejudge runs is on no board."""
    submission = transactions.get(connection, submission_id, lock=True)
    if submission.rejudge_id:
        raise SubmissionNotFound(submission_id)
    return submission


def _changed(
    connection: sa.Connection, now: datetime, submission: Submission, kind: ActionKind, user: str, reason: str, values: Mapping[str, object]
) -> Submission:
    connection.execute(sa.update(submissions).where(submissions.c.submission_id == submission.submission_id).values(values))
    _record(connection, now, submission.new.competition_id, kind, user, submission.submission_id, reason)
    return transactions.get(connection, submission.submission_id)


def _record(connection: sa.Connection, now: datetime, competition_id: str, kind: ActionKind, user: str, subject: str, reason: str) -> None:
    connection.execute(
        sa.insert(competition_actions).values(
            competition_id=competition_id, action=kind, user_name=user, subject=subject, reason=reason, create_time=now
        )
    )
