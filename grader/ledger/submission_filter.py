"""Whose submissions a list shows, and to what."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from grader.ledger.tables import submission_tags, submissions
from grader.model import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionFilter:
    """user, competition_id, tag: only of this one; "": of all that may be seen. seen_by: who asks; None may see everybody's.

    verdicts: only with one of these; none: with any, and with none yet. id_prefix: what the id begins with.
    """

    user: str = ""
    competition_id: str = ""
    seen_by: str | None = None
    open_competitions: Collection[str] = ()  # submissions to these everybody may see; their tags are not shown
    tag: str = ""
    verdicts: Collection[Verdict] = ()
    id_prefix: str = ""

    def where(self) -> list[sa.ColumnElement[bool]]:
        """Return what rows have to be."""
        conditions: list[sa.ColumnElement[bool]] = []
        if self.user:
            conditions.append(submissions.c.user_name == self.user)
        if self.competition_id:
            conditions.append(submissions.c.competition_id == self.competition_id)
        if self.seen_by is not None:
            is_theirs = submissions.c.user_name == self.seen_by
            opened = () if self.tag else sorted(self.open_competitions)
            conditions.append(sa.or_(is_theirs, submissions.c.competition_id.in_(opened)))
        if self.tag:
            by_tag = sa.select(submission_tags.c.number).where(submission_tags.c.tag == self.tag)
            user = self.user or self.seen_by
            conditions.append(submissions.c.number.in_(by_tag if user is None else by_tag.where(submission_tags.c.user_name == user)))
        if self.verdicts:
            conditions.append(submissions.c.verdict.in_(sorted(self.verdicts)))
        if self.id_prefix:  # not LIKE, which takes no account of case in SQLite
            conditions.append(sa.func.substr(submissions.c.submission_id, 1, len(self.id_prefix)) == self.id_prefix)
        return conditions


ALL_SUBMISSIONS = SubmissionFilter()
