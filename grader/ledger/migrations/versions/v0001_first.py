"""The first tables: problems, submissions, events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "problems",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("problem_id", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_problems"),
    )
    op.create_table(
        "submissions",
        sa.Column("number", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("submission_id", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.Column("body_digest", sa.String(64), nullable=False),
        sa.Column("problem_id", sa.String(64), nullable=False),
        sa.Column("problem_digest", sa.String(64), nullable=False),
        sa.Column("language", sa.String(64), nullable=False),
        sa.Column("entry", sa.String(256), nullable=False),
        sa.Column("device_kind", sa.String(64), nullable=False),
        sa.Column("mode", sa.String(32), nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.Column("start_time", sa.DateTime),
        sa.Column("end_time", sa.DateTime),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("fault_count", sa.Integer, nullable=False),
        sa.Column("worker_id", sa.String(64)),
        sa.Column("lease_expire_time", sa.DateTime),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("event_count", sa.Integer, nullable=False),
        sa.Column("verdict", sa.String(32)),
        sa.Column("reason", sa.String(64)),
        sa.Column("summary", sa.Text),
        sa.Column("report", sa.Text),
        sa.Column("failure", sa.Text),
        sa.PrimaryKeyConstraint("number", name="pk_submissions"),
        sa.UniqueConstraint("submission_id", name="uq_submissions_submission_id"),
        sa.UniqueConstraint("request_id", name="uq_submissions_request_id"),
        sa.ForeignKeyConstraint(["problem_digest"], ["problems.digest"], name="fk_submissions_problem_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_submissions_state_number", "submissions", ["state", "number"])
    op.create_index("ix_submissions_problem_id_number", "submissions", ["problem_id", "number"])
    op.create_table(
        "events",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("event_time", sa.DateTime, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16)),
        sa.Column("fact", sa.Text),
        sa.PrimaryKeyConstraint("number", "sequence", name="pk_events"),
        sa.ForeignKeyConstraint(["number"], ["submissions.number"], name="fk_events_number"),
    )
