"""Tags and parents of submissions, and what a watch of many submissions reads.  Plain functions on a connection."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from grader.errors import FieldViolation, InvalidSubmission
from grader.ledger import records, statements
from grader.ledger.tables import submission_tags, submissions
from grader.model import NewSubmission, Submission

_WITH_REPORT = [column for column in submissions.c if column.name != "sources"]
_BY_TAG = (submission_tags.c.tag == sa.bindparam("by_tag"), submission_tags.c.user_name == sa.bindparam("by_user"))
_PARENT = sa.select(submissions.c.number).where(
    submissions.c.submission_id == sa.bindparam("by_parent"),
    submissions.c.user_name == sa.bindparam("by_user"),
    submissions.c.rejudge_id.is_(None),
)
_TAGGED = (
    sa.select(submissions.c.number, submissions.c.submission_id)
    .join(submission_tags, submission_tags.c.number == submissions.c.number)
    .where(*_BY_TAG, submission_tags.c.number > sa.bindparam("by_number"))
    .limit(sa.bindparam("by_limit"))
)
_NEWEST, _FOLLOWING = (_TAGGED.order_by(order) for order in (submission_tags.c.number.desc(), submission_tags.c.number))


def check_parent(connection: sa.Connection, new: NewSubmission) -> None:
    """InvalidSubmission where this user has no such submission; the text is the same where it is somebody else's."""
    if not new.parent_id:
        return
    if connection.execute(_PARENT, {"by_parent": new.parent_id, "by_user": new.user}).first() is None:
        text = f"you have no submission 'submissions/{new.parent_id}'; name one of your own, or leave it out"
        raise InvalidSubmission([FieldViolation("parent", text)])


def insert(connection: sa.Connection, number: int, new: NewSubmission) -> None:
    """Make a new submission known by its tags."""
    if new.tags:
        rows = [{"tag": tag, "user_name": new.user, "number": number} for tag in new.tags]
        connection.execute(sa.insert(submission_tags), rows)


def tagged(connection: sa.Connection, user: str, tag: str, after_number: int, limit: int) -> list[tuple[int, str]]:
    """Numbers and ids of this user's submissions with this tag, oldest first: those that follow a number; after 0, the newest."""
    asked = {"by_tag": tag, "by_user": user, "by_number": after_number, "by_limit": limit}
    rows = connection.execute(_FOLLOWING if after_number else _NEWEST, asked).all()
    return sorted((row.number, row.submission_id) for row in rows)


def heads(connection: sa.Connection, submission_ids: Sequence[str]) -> list[Submission]:
    """These submissions as they are now, oldest first, without sources and with the head of the report."""
    query = sa.select(*statements.LISTED).where(submissions.c.submission_id.in_(submission_ids)).order_by(submissions.c.number)
    return [records.submission(row) for row in connection.execute(query)]


def with_reports(connection: sa.Connection, submission_ids: Sequence[str]) -> list[Submission]:
    """These submissions as they are now, oldest first, with reports and without sources."""
    query = sa.select(*_WITH_REPORT).where(submissions.c.submission_id.in_(submission_ids)).order_by(submissions.c.number)
    return [records.submission(row) for row in connection.execute(query)]
