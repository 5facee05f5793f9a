"""Webhooks, registration codes and announcements are no longer there."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    for table in ("deliveries", "hooks", "announcements"):  # of a database of an earlier version; no new one has them
        op.drop_table(table, if_exists=True)
    op.drop_column("keys", "registered_for")
