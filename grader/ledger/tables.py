"""The tables.  A change here needs a migration; a test compares the two."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa


class UtcTime(sa.TypeDecorator[datetime]):
    """A time-zone aware time, kept as UTC where the database knows no zones."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Refuse naive times: nobody could say later what they meant."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value} has no time zone")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:
        """Say the zone again."""
        return None if value is None else value.replace(tzinfo=UTC)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# By digest, so that a submission is judged by the problem it was made for, whatever the files say now.
problems = sa.Table(
    "problems",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("problem_id", sa.String(64), nullable=False),
    sa.Column("document", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
)

submissions = sa.Table(
    "submissions",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),  # the queue's order
    sa.Column("submission_id", sa.String(64), nullable=False, unique=True),
    sa.Column("request_id", sa.String(64), unique=True),
    sa.Column("body_digest", sa.String(64), nullable=False),
    sa.Column("problem_id", sa.String(64), nullable=False),
    sa.Column("problem_digest", sa.ForeignKey("problems.digest"), nullable=False),
    sa.Column("language", sa.String(64), nullable=False),
    sa.Column("entry", sa.String(256), nullable=False),
    sa.Column("device_kind", sa.String(64), nullable=False),
    sa.Column("mode", sa.String(32), nullable=False),
    sa.Column("sources", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("start_time", UtcTime),
    sa.Column("end_time", UtcTime),
    sa.Column("attempt", sa.Integer, nullable=False),  # only ever goes up: with worker_id it is the fence
    sa.Column("fault_count", sa.Integer, nullable=False),  # attempts that we spoiled
    sa.Column("worker_id", sa.String(64)),
    sa.Column("lease_expire_time", UtcTime),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("event_count", sa.Integer, nullable=False),  # the last sequence given
    sa.Column("verdict", sa.String(32)),  # this and the next two are of the report, for lists
    sa.Column("reason", sa.String(64)),
    sa.Column("summary", sa.Text),
    sa.Column("report", sa.Text),
    sa.Column("failure", sa.Text),
    sa.Index(None, "state", "number"),
    sa.Index(None, "problem_id", "number"),
    sqlite_autoincrement=True,
)

# Append-only. Either a fact or a change of state.
events = sa.Table(
    "events",
    metadata,
    sa.Column("number", sa.ForeignKey("submissions.number"), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("event_time", UtcTime, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", sa.String(16)),
    sa.Column("fact", sa.Text),
)
