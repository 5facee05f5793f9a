"""Tags, parent and annotations of submissions."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for column in (
        sa.Column("tags", sa.Text, nullable=False, server_default=""),
        sa.Column("parent_id", sa.String(64), nullable=False, server_default=""),
        sa.Column("annotations", sa.Text, nullable=False, server_default=""),
    ):
        op.add_column("submissions", column)
    op.create_table(
        "submission_tags",
        sa.Column("tag", sa.String(64), nullable=False),
        sa.Column("user_name", sa.String(64), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("tag", "user_name", "number", name="pk_submission_tags"),
        sa.ForeignKeyConstraint(["number"], ["submissions.number"], name="fk_submission_tags_number"),
    )
