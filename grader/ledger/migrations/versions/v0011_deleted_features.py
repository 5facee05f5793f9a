"""Webhooks, registration codes and announcements are no longer there."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("hooks")
    op.drop_column("keys", "registered_for")
    op.drop_table("announcements")
