"""The index of boards changed; 0009 makes it anew."""

from __future__ import annotations

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    pass
