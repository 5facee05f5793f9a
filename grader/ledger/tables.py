"""The tables.  A change here needs a migration; a test compares the two."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa


class UtcTime(sa.TypeDecorator[datetime]):
    """A time-zone aware time, kept as UTC where the database knows no zones."""

    impl = sa.DateTime
    cache_ok = True

    def bind_processor(self, dialect: sa.Dialect) -> Any:
        """Convert the time of a transaction once, and not for each of its columns."""
        convert = super().bind_processor(dialect)
        return convert and lru_cache(maxsize=64)(convert)

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


COMPRESSED_CHARS = 128  # shorter texts stay as they are
# What facts have in common. It is a part of every compressed text: never change it.
_FACTS = b""""speedups":[],"reported_baselines":{},"physical_floor_ns":null,"moved_bytes":null,"flops":null,"conditions":{},"turn_count":0,\
"half_width":null,"end":null{"type":"Measurement","certified":{"durations_ns":[{"type":"Trial","workload_id":"phase":"verify","index":0,\
"outcome":"passed","hidden":false,"key":"","element_count":0,"mismatched_count":0,"unwritten_count":0,"nonfinite_count":0,\
"max_absolute_error":null,"max_relative_error":null,"budget_ratio":null,"message":"","duration_ns":0,"run_count":1,"wrong_elements":[],\
"symptom":null,"cuda_error":"","wrong_pattern":null}"""


class LongText(sa.TypeDecorator[str]):
    """A text that is compressed in SQLite. PostgreSQL does so itself; what earlier versions wrote is read as it is."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> Any:
        """Compress what is long."""
        if value is None or dialect.name != "sqlite" or len(value) < COMPRESSED_CHARS:
            return value
        packer = zlib.compressobj(1, zdict=_FACTS)
        return packer.compress(value.encode()) + packer.flush()

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        """Return the text; of what is damaged one that is no JSON."""
        try:
            return zlib.decompressobj(zdict=_FACTS).decompress(value).decode() if isinstance(value, bytes) else value
        except (zlib.error, UnicodeDecodeError):
            return "damaged"


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def texts(**lengths: int) -> list[sa.Column[Any]]:
    """Make columns of texts of at most so many characters, which every row has."""
    return [sa.Column(name, sa.String(length), nullable=False) for name, length in lengths.items()]


def judged_columns(*, nullable: bool = True) -> list[sa.Column[Any]]:
    """Make the columns that a judgement has of its own: of a report, for lists, and those that boards read. flags: joined by commas."""
    judged = {"verdict": sa.String(32), "reason": sa.String(64), "summary": sa.Text(), "report": LongText()}
    boards = {"device": sa.String(128), "clock": sa.String(32), "flags": sa.String(400)}
    return [
        *(sa.Column(name, kind, nullable=nullable) for name, kind in judged.items()),
        *(sa.Column(name, kind) for name, kind in boards.items()),
        *(sa.Column(name, sa.Float) for name in ("score", "score_low", "score_high")),
    ]


FOUND = tuple(column.name for column in judged_columns() if column.name != "report")  # in three tables; reports are in judgements

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
    sa.Column("problem_digest", sa.ForeignKey("problems.digest"), nullable=False),
    *texts(body_digest=64, problem_id=64, language=64, entry=256, device_kind=64, mode=32, state=16),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("start_time", UtcTime),
    sa.Column("end_time", UtcTime),
    sa.Column("attempt", sa.Integer, nullable=False),  # only ever goes up: with worker_id it is the fence
    sa.Column("fault_count", sa.Integer, nullable=False),  # attempts that we spoiled: the sum of their `transactions.Fault`
    sa.Column("worker_id", sa.String(64)),
    sa.Column("lease_expire_time", UtcTime),
    sa.Column("cancel_requested", sa.Boolean, nullable=False),
    sa.Column("event_count", sa.Integer, nullable=False),  # the last sequence given
    sa.Column("failure", sa.Text),
    sa.Column("user_name", sa.String(64), nullable=False, server_default=""),  # "": nobody was asked
    sa.Column("competition_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("priority", sa.Integer, nullable=False, server_default="1"),  # the queue's first order; smaller is sooner
    sa.Column("rejudge_id", sa.String(64)),  # of a run that a rejudge asked for: no user's submission, and on no list
    *(column for column in judged_columns() if column.name in FOUND),
    sa.Column("judgement_count", sa.Integer, nullable=False, server_default="0"),
    sa.Column("tags", sa.Text, nullable=False, server_default=""),  # joined by commas; also in submission_tags
    sa.Column("parent_id", sa.String(64), nullable=False, server_default=""),
    sa.Column("annotations", sa.Text, nullable=False, server_default=""),  # JSON; "": none
    sa.Column("precision", sa.Float),  # this and the next: as the submission asks for; null: the server's
    sa.Column("measure_s", sa.Float),
    sa.Column("skip_sanitizer", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("cascade", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("content_digest", sa.String(64)),  # what identical submissions have in common; null: from before this was kept
    sa.Column("withdraw_time", UtcTime),  # this and the next two: while it is withdrawn from its competition
    sa.Column("withdraw_user", sa.String(64)),
    sa.Column("withdraw_reason", sa.String(400)),
    sa.Column("share", sa.String(64), nullable=False, server_default=""),  # whose turns it takes: the user's, or a client's without a key
    sa.Column("sources", LongText, nullable=False),  # last: SQLite reads all of it to get at what lies behind
    sa.Index(None, "state", "number"),
    # All that the queue's order needs, so that no row is read for it: sources lie in the way of what comes behind them.
    sa.Index(
        "ix_submissions_queue",
        *("state", "priority", "number", "user_name", "device_kind", "rejudge_id", "mode", "submission_id", "share"),
    ),
    sa.Index(None, "problem_id", "number"),
    sa.Index(None, "content_digest", "number"),
    sa.Index(None, "user_name", "create_time"),
    *(sa.Index(None, name, "number") for name in ("user_name", "competition_id", "verdict")),
    *(sa.Index(None, name, "verdict", "number") for name in ("user_name", "competition_id", "problem_id")),
    sa.Index(None, "competition_id", "user_name", "number"),
    # All that a board is made of: the rows themselves, with sources and reports, need not be read.
    sa.Index(
        "ix_submissions_board",
        *("competition_id", "problem_id", "mode", "state", "verdict", "rejudge_id", "create_time", "submission_id", "user_name"),
        *("device", "clock", "score", "score_low", "score_high", "flags", "problem_digest", "withdraw_time"),
        sqlite_where=sa.text("score IS NOT NULL"),
        postgresql_where=sa.text("score IS NOT NULL"),
    ),
    sqlite_autoincrement=True,
)

# Finds submissions by tag. The user is here too, so that nobody's list takes longer because of what others have tagged.
submission_tags = sa.Table(
    "submission_tags",
    metadata,
    sa.Column("tag", sa.String(64), primary_key=True),
    sa.Column("user_name", sa.String(64), primary_key=True),
    sa.Column("number", sa.ForeignKey("submissions.number"), primary_key=True),
    sa.Index(None, "tag", "number"),
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
    sa.Column("fact", LongText),
)

# Files that an attempt left: their bytes lie by digest in a directory of the server that graded it (`grader/artifacts`).
artifacts = sa.Table(
    "artifacts",
    metadata,
    sa.Column("number", sa.ForeignKey("submissions.number"), primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), primary_key=True),
    *texts(tool=64, digest=64),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Index(None, "digest"),
    sa.Index(None, "create_time"),
)

# Every judgement of a submission; the last one, but for its report, is also in its row. Append-only, but for findings that come after the
# first verdict. source_number: whose events hold its facts.
judgements = sa.Table(
    "judgements",
    metadata,
    sa.Column("number", sa.ForeignKey("submissions.number"), primary_key=True),
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("source_number", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("problem_digest", sa.ForeignKey("problems.digest"), nullable=False),
    *judged_columns(nullable=False),
    sa.Column("rejudge_id", sa.String(64)),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Index(None, "source_number", "attempt"),
)

# Of a key only a digest is kept: what is read here opens nothing.
keys = sa.Table(
    "keys",
    metadata,
    sa.Column("key_id", sa.String(32), primary_key=True),
    *texts(secret_digest=64, user_name=64, scopes=64, note=200),  # scopes: joined by commas
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("expire_time", UtcTime),
    sa.Column("revoke_time", UtcTime),
)

# Users of an identity provider. session_key_id: of a key whose secret nobody knows, which carries the user's sessions; api_key_id: of the
# newest key that the user made.
identities = sa.Table(
    "identities",
    metadata,
    sa.Column("issuer", sa.String(500), primary_key=True),
    sa.Column("subject", sa.String(255), primary_key=True),
    sa.Column("user_name", sa.String(64), nullable=False, unique=True),
    sa.Column("session_key_id", sa.ForeignKey("keys.key_id"), nullable=False, unique=True),
    sa.Column("api_key_id", sa.ForeignKey("keys.key_id")),
    sa.Column("create_time", UtcTime, nullable=False),
)

# What each share took of the devices recently, for fair shares: log2 of a sum of seconds, each times 2 ** (its time / half-life).
usage = sa.Table(
    "usage", metadata, sa.Column("user_name", sa.String(64), primary_key=True), sa.Column("log2_weight", sa.Float, nullable=False)
)

rejudges = sa.Table(
    "rejudges",
    metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("rejudge_id", sa.String(64), nullable=False, unique=True),
    sa.Column("request_id", sa.String(64), unique=True),
    sa.Column("user_name", sa.String(64), nullable=False),
    sa.Column("document", sa.Text, nullable=False),  # what was asked for
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Column("end_time", UtcTime),
    sqlite_autoincrement=True,
)

# One submission of a rejudge. What it found out is null until it is decided; run_number: the run that decides, where facts do not;
# judgement_count: how many judgements the submission had when it was chosen, for nothing else may be overwritten.
rejudge_items = sa.Table(
    "rejudge_items",
    metadata,
    sa.Column("rejudge_id", sa.String(64), primary_key=True),
    sa.Column("number", sa.ForeignKey("submissions.number"), primary_key=True),
    sa.Column("run_number", sa.ForeignKey("submissions.number")),
    sa.Column("judgement_count", sa.Integer, nullable=False),
    sa.Column("problem_digest", sa.ForeignKey("problems.digest"), nullable=False),
    *judged_columns(),
    sa.Index(None, "rejudge_id", "verdict", "run_number", "number"),  # what is not decided, and counts; rows have reports in them
)

# Who may not take part in which competition.
bans = sa.Table(
    "bans",
    metadata,
    sa.Column("competition_id", sa.String(64), primary_key=True),
    sa.Column("user_name", sa.String(64), primary_key=True),
    *texts(reason=400, administrator=64),
    sa.Column("create_time", UtcTime, nullable=False),
)

# Append-only: what organisers, and owners of submissions, did while a competition ran.
competition_actions = sa.Table(
    "competition_actions",
    metadata,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    *texts(competition_id=64, action=32, user_name=64, subject=64),  # user_name: who did it; subject: a submission, a user or a file
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("create_time", UtcTime, nullable=False),
    sa.Index(None, "competition_id", "sequence"),
    sqlite_autoincrement=True,
)
