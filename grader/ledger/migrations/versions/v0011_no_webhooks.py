"""Webhooks and their deliveries are no longer there; `WatchSubmissions` replaces them."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("hooks")
