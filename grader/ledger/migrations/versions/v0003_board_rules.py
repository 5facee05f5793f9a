"""Boards ask by which problem an entry was judged."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.drop_index("ix_submissions_board", "submissions")
    op.create_index(
        "ix_submissions_board",
        "submissions",
        [
            *("competition_id", "problem_id", "mode", "state", "verdict", "rejudge_id", "create_time", "submission_id", "user_name"),
            *("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest"),
        ],
        sqlite_where=sa.text("score IS NOT NULL"),
        postgresql_where=sa.text("score IS NOT NULL"),
    )
