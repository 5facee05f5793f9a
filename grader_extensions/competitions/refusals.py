"""Refusals of calls about competitions, boards and rejudges.  A client that makes such calls imports them, and gets them back."""

from __future__ import annotations

from grader.errors import CallRefused


class WithdrawalRefused(CallRefused):
    """The submission can't be taken off the boards of its competition, or not by this caller, or not any more."""

    reason, code, precondition = "WITHDRAWAL_REFUSED", "FAILED_PRECONDITION", ("WITHDRAWAL", "submissions/")
    submission_id: str
    detail: str
    text = "submission {submission_id!r} can't be withdrawn: {detail}"


class ReloadRefused(CallRefused):
    """The files of the competitions are wrong, or would change what competitors rely on; nothing was changed."""

    reason, code = "RELOAD_REFUSED", "FAILED_PRECONDITION"
    detail: str
    text = "the competitions stay as they are: {detail}"


class RejudgeNotFound(CallRefused):
    """There is no such rejudge here."""

    reason, code, resource = "REJUDGE_NOT_FOUND", "NOT_FOUND", ("Rejudge", "rejudges")
    rejudge_id: str
    text = "there is no rejudge {rejudge_id!r}; list them with `grader-cli rejudge show`"


class RejudgeNotReady(CallRefused):
    """The rejudge is in a state in which this can't be done."""

    reason, code, precondition = "REJUDGE_NOT_READY", "FAILED_PRECONDITION", ("REJUDGE_STATE", "rejudges/")
    rejudge_id: str
    state: str

    def __str__(self) -> str:
        remedy = "wait until it is ready" if self.state == "running" else "make a new one"
        return f"rejudge {self.rejudge_id!r} is {self.state.upper()}; {remedy}"


class RejudgeOutdated(CallRefused):
    """Another rejudge was applied to a submission since this one was made; nothing is overwritten."""

    reason, code, precondition = "REJUDGE_OUTDATED", "FAILED_PRECONDITION", ("REJUDGE_STATE", "rejudges/")
    rejudge_id: str
    submission_id: str
    text = (
        "submission {submission_id!r} was judged again since rejudge {rejudge_id!r} was made, so that one can't be applied any more; "
        "discard it, and make a new one"
    )
