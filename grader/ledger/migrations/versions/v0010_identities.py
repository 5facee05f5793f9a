"""Users who sign in with an identity provider."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(500), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("session_key_id", sa.String(32), nullable=False),
        sa.Column("api_key_id", sa.String(32)),
        sa.Column("create_time", sa.DateTime, nullable=False),
        sa.PrimaryKeyConstraint("issuer", "subject", name="pk_identities"),
        sa.UniqueConstraint("user_name", name="uq_identities_user_name"),
        sa.UniqueConstraint("session_key_id", name="uq_identities_session_key_id"),
        sa.ForeignKeyConstraint(["session_key_id"], ["keys.key_id"], name="fk_identities_session_key_id"),
        sa.ForeignKeyConstraint(["api_key_id"], ["keys.key_id"], name="fk_identities_api_key_id"),
    )
