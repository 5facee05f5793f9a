"""Answers a submission with the result of an identical one of the same user, where its caller allows that.

Identical means the same sources, problem, language, entry, mode, wish for a device, and wishes for precision and time. What was graded more
than a day ago is graded again: compilers, drivers and this grader change.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from grader.ledger import records
from grader.ledger.tables import judgements, submissions
from grader.model import NewSubmission, Problem, Report, SubmissionState

REUSED_FOR = timedelta(days=1)

_NEWEST = (
    sa.select(submissions, judgements.c.source_number, judgements.c.attempt.label("source_attempt"))
    .join(judgements, sa.and_(judgements.c.number == submissions.c.number, judgements.c.sequence == submissions.c.judgement_count))
    .where(
        submissions.c.content_digest == sa.bindparam("by_content"),
        submissions.c.state == SubmissionState.SUCCEEDED,
        submissions.c.rejudge_id.is_(None),
        submissions.c.attempt > 0,  # it was graded itself, so that a result does not get younger
    )
    .order_by(submissions.c.number.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierResult:
    """A report that says whose it is, and where its facts are."""

    report: Report
    source_number: int
    source_attempt: int


def content_digest(new: NewSubmission, problem: Problem, sources: str) -> str:
    """What is the same in identical submissions. sources: the text of those of new, as the ledger keeps it."""
    settings = new.user, new.language, new.entry, new.device_kind, new.mode, new.competition_id, new.precision, new.measure_s
    unset = ("skip_sanitizer",) if new.skip_sanitizer else ()
    data = json.dumps([problem.digest, *settings, *unset, sources])
    return hashlib.sha256(data.encode()).hexdigest()


def find(connection: sa.Connection, now: datetime, digest: str) -> EarlierResult | None:
    """The last result of a submission with this content."""
    row = connection.execute(_NEWEST, {"by_content": digest}).one_or_none()
    if row is None or row.end_time < now - REUSED_FOR:
        return None
    report = records.submission(row).report
    if report is None:
        return None
    report = replace(report, cached_from=row.submission_id, timeline=())  # the time was another's
    return EarlierResult(report=report, source_number=row.source_number, source_attempt=row.source_attempt)
