"""The index of boards changed; 0009 makes it anew."""

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    pass
