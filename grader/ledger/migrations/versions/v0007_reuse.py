"""Digest that identical submissions have in common."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("content_digest", sa.String(64)))
    op.create_index("ix_submissions_content_digest_number", "submissions", ["content_digest", "number"])
