"""Users, competitions, scores, keys, fair shares, rejudges."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for column in (
        sa.Column("user_name", sa.String(64), nullable=False, server_default=""),
        sa.Column("competition_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("priority", sa.Integer, nullable=False, server_default="1"),
        sa.Column("rejudge_id", sa.String(64)),
        sa.Column("device", sa.String(128)),
        sa.Column("clock", sa.String(32)),
        sa.Column("score", sa.Float),
        sa.Column("score_low", sa.Float),
        sa.Column("score_high", sa.Float),
        sa.Column("flags", sa.String(400)),
        sa.Column("judgement_count", sa.Integer, nullable=False, server_default="0"),
    ):
        op.add_column("submissions", column)
    op.create_index("ix_submissions_user_name_create_time", "submissions", ["user_name", "create_time"])
    op.create_index("ix_submissions_competition_id_problem_id_number", "submissions", ["competition_id", "problem_id", "number"])
    queue = ["state", "priority", "number", "user_name", "device_kind", "rejudge_id", "mode", "submission_id"]
    op.create_index("ix_submissions_queue", "submissions", queue)
    _judgements()
    op.create_table(
        "keys",
        sa.Column("key_id", sa.String(32), nullable=False),
        sa.Column("secret_digest", sa.String(64), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("note", sa.String(200), nullable=False),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.Column("expire_time", sa.DateTime),
        sa.Column("revoke_time", sa.DateTime),
        sa.PrimaryKeyConstraint("key_id", name="pk_keys"),
    )
    op.create_table(
        "usage",
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("log2_weight", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("user_name", name="pk_usage"),
    )
    _rejudges()


def _found() -> list[sa.Column[object]]:
    floats = [sa.Column(name, sa.Float) for name in ("score", "score_low", "score_high")]
    return [sa.Column("device", sa.String(128)), sa.Column("clock", sa.String(32)), *floats, sa.Column("flags", sa.String(400))]


def _judgements() -> None:
    op.create_table(
        "judgements",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("source_number", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("problem_digest", sa.String(64), nullable=False),
        sa.Column("verdict", sa.String(32), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("report", sa.Text, nullable=False),
        *_found(),
        sa.Column("rejudge_id", sa.String(64)),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.PrimaryKeyConstraint("number", "sequence", name="pk_judgements"),
        sa.ForeignKeyConstraint(["number"], ["submissions.number"], name="fk_judgements_number"),
        sa.ForeignKeyConstraint(["problem_digest"], ["problems.digest"], name="fk_judgements_problem_digest"),
    )
    # Submissions that were graded before have one judgement too: the one in their row.
    op.execute(
        "INSERT INTO judgements (number, sequence, source_number, attempt, problem_digest, verdict, reason, summary, report, create_time) "
        "SELECT number, 1, number, attempt, problem_digest, verdict, reason, summary, report, end_time FROM submissions "
        "WHERE state = 'succeeded'"
    )
    op.execute("UPDATE submissions SET judgement_count = 1 WHERE state = 'succeeded'")


def _rejudges() -> None:
    op.create_table(
        "rejudges",
        sa.Column("sequence", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("rejudge_id", sa.String(64), nullable=False),
        sa.Column("request_id", sa.String(64)),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.Column("end_time", sa.DateTime),
        sa.PrimaryKeyConstraint("sequence", name="pk_rejudges"),
        sa.UniqueConstraint("rejudge_id", name="uq_rejudges_rejudge_id"),
        sa.UniqueConstraint("request_id", name="uq_rejudges_request_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "rejudge_items",
        sa.Column("rejudge_id", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("run_number", sa.Integer),
        sa.Column("judgement_count", sa.Integer, nullable=False),
        sa.Column("problem_digest", sa.String(64), nullable=False),
        sa.Column("verdict", sa.String(32)),
        sa.Column("reason", sa.String(64)),
        sa.Column("summary", sa.Text),
        sa.Column("report", sa.Text),
        *_found(),
        sa.PrimaryKeyConstraint("rejudge_id", "number", name="pk_rejudge_items"),
        sa.ForeignKeyConstraint(["number"], ["submissions.number"], name="fk_rejudge_items_number"),
        sa.ForeignKeyConstraint(["run_number"], ["submissions.number"], name="fk_rejudge_items_run_number"),
        sa.ForeignKeyConstraint(["problem_digest"], ["problems.digest"], name="fk_rejudge_items_problem_digest"),
    )
