"""Actions of organisers while a competition runs: withdrawals, bans, and a record of them."""

import sqlalchemy as sa
from alembic import op

from grader.ledger.tables import UtcTime

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("withdraw_time", UtcTime))
    op.add_column("submissions", sa.Column("withdraw_user", sa.String(64)))
    op.add_column("submissions", sa.Column("withdraw_reason", sa.String(400)))
    op.drop_index("ix_submissions_board", "submissions", if_exists=True)  # of a database of 0002 to 0008
    op.create_index(
        "ix_submissions_board",
        "submissions",
        [
            *("competition_id", "problem_id", "mode", "state", "verdict", "rejudge_id", "create_time", "submission_id", "user_name"),
            *("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest", "withdraw_time"),
        ],
        sqlite_where=sa.text("score IS NOT NULL"),
        postgresql_where=sa.text("score IS NOT NULL"),
    )
    op.add_column("keys", sa.Column("registered_for", sa.String(64), nullable=False, server_default=""))
    op.create_table(
        "bans",
        sa.Column("competition_id", sa.String(64), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("reason", sa.String(400), nullable=False),
        sa.Column("administrator", sa.String(64), nullable=False),
        sa.Column("create_time", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("competition_id", "user_name", name="pk_bans"),
    )
    op.create_table(
        "competition_actions",
        sa.Column("sequence", sa.Integer, autoincrement=True, nullable=False),
        sa.Column("competition_id", sa.String(64), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("subject", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("create_time", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_competition_actions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_competition_actions_competition_id_sequence", "competition_actions", ["competition_id", "sequence"])
