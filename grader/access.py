"""Access to submissions, decided here for the API and for the pages.  What may not be seen is not there: SubmissionNotFound."""

from __future__ import annotations

from collections.abc import Collection

from grader.errors import FieldViolation, InvalidRequest, SubmissionNotFound
from grader.intake.gate import check_tag
from grader.ledger.statements import SubmissionFilter
from grader.model import Caller, Scope, Submission
from grader.rules.keys import check_user

ANYBODY = Caller(scopes=frozenset({Scope.READ}))  # who opens a page of a server that asks for keys: nobody's owner, no administrator


def check_seen(caller: Caller, submission: Submission, readable: Collection[str]) -> None:
    """SubmissionNotFound, the same as where there is none, unless it is the caller's or shown to the caller. readable: competitions whose
    submissions everybody may see. What a rejudge runs is for administrators only."""
    shown = caller.may_see(submission.new.user) or sees_competition(caller, submission.new.competition_id, readable)
    if not shown or (submission.rejudge_id and not caller.admin):
        raise SubmissionNotFound(submission.submission_id)


def sees_competition(caller: Caller, competition_id: str, readable: Collection[str]) -> bool:
    """Return whether all submissions to this competition ("": to none) are shown to the caller, for every user."""
    return caller.admin or competition_id in readable


def check_owned(caller: Caller, submission: Submission) -> None:
    """The same for what changes it: that an ended competition is open to readers is of no use here."""
    check_seen(caller, submission, readable=())


def check_name(user: str) -> None:
    """InvalidRequest where no user can have this name."""
    try:
        check_user(user)
    except ValueError as error:
        raise InvalidRequest([FieldViolation("user", str(error))]) from None


def submission_filter(caller: Caller, user: str, competition_id: str, readable: Collection[str], *, tag: str = "") -> SubmissionFilter:
    """Filter a list that asks for this user's ("": anybody's) submissions to this competition ("": any or none), with this tag."""
    if user:
        check_name(user)
    if tag and (wrong := check_tag(tag, "tag")):
        raise InvalidRequest(wrong)
    return SubmissionFilter(
        user=user,
        competition_id=competition_id,
        seen_by=None if caller.admin else caller.user,
        open_competitions=readable if user or competition_id else (),  # else one's own list, not all that was ever opened to readers
        tag=tag,
    )
