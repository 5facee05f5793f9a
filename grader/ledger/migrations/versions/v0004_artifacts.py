"""Files that an attempt left."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("tool", sa.String(64), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.PrimaryKeyConstraint("number", "attempt", "name", name="pk_artifacts"),
        sa.ForeignKeyConstraint(["number"], ["submissions.number"], name="fk_artifacts_number"),
    )
    op.create_index("ix_artifacts_digest", "artifacts", ["digest"])
    op.create_index("ix_artifacts_create_time", "artifacts", ["create_time"])
