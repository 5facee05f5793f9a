"""Rules on what organisers, and owners of submissions, may do while a competition runs.  Pure."""

from __future__ import annotations

from datetime import datetime

from grader.errors import FieldViolation, InvalidRequest, WithdrawalRefused
from grader.model import Caller, Competition, Phase, Submission
from grader.rules.quotas import shown_time

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


def check_withdrawal(caller: Caller, submission: Submission, competition: Competition | None, now: datetime) -> None:
    """WithdrawalRefused where this caller may not take it off the boards now. competition: that of the submission; None: it has none. Who
    owns it may until the end, so that nobody changes a result that is known; an administrator may at any time."""
    if competition is None:
        raise WithdrawalRefused(submission.submission_id, "it is in no competition, so it is on no board")
    if not caller.admin and competition.phase(now) is Phase.ENDED:
        ended = f"competition {competition.competition_id!r} ended at {shown_time(competition.end_time)}"
        raise WithdrawalRefused(submission.submission_id, f"{ended}; ask its organisers")


def needs_reason(caller: Caller, submission: Submission) -> bool:
    """Return whether the submission is another user's, who has to get a reason."""
    return caller.user != submission.new.user
