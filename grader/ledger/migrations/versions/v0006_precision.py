"""How precisely and for how long a submission asks to be measured."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    for name in ("precision", "measure_s"):
        op.add_column("submissions", sa.Column(name, sa.Float))
