"""Flag: whether a failed test is not followed by the sanitizer."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("skip_sanitizer", sa.Boolean, nullable=False, server_default=sa.false()))
