"""Brings a database to the newest schema: a new one gets every table, an older one the tables, columns and indexes that it lacks.

Two servers that start at once migrate once: SQLite's write lock, and on PostgreSQL the lock of `Database.write`, are held until it is done.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from grader.errors import LedgerInUse, LedgerNewer
from grader.ledger.database import connected_servers
from grader.ledger.tables import metadata

VERSIONS = tuple(f"{number:04}" for number in range(1, 19))  # 0016: long texts may be compressed, which earlier programs do not read
HEAD = VERSIONS[-1]

_versions = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))  # Alembic made it once
# What is more than an addition, by the version that it came with: run once the tables and columns are there, and before the indexes.
_STEPS = (
    # Submissions that were graded before there were judgements have one too: the one in their row.
    (
        "0002",
        "INSERT INTO judgements (number, sequence, source_number, attempt, problem_digest, verdict, reason, summary, report, create_time) "
        "SELECT number, 1, number, attempt, problem_digest, verdict, reason, summary, report, end_time FROM submissions "
        "WHERE state = 'succeeded'",
    ),
    ("0002", "UPDATE submissions SET judgement_count = 1 WHERE state = 'succeeded'"),
    ("0009", "DROP INDEX IF EXISTS ix_submissions_board"),  # made again, of other columns
    # Added where it is missing, so that 0011 may drop it everywhere: SQLite has no DROP COLUMN IF EXISTS.
    ("0009", "ALTER TABLE keys ADD COLUMN registered_for VARCHAR(64)"),
    ("0011", "ALTER TABLE keys DROP COLUMN registered_for"),
    *(("0011", f"DROP TABLE IF EXISTS {table_name}") for table_name in ("deliveries", "hooks", "announcements")),
    ("0013", "DROP INDEX IF EXISTS ix_submissions_competition_id_problem_id_number"),
    ("0014", "ALTER TABLE submissions DROP COLUMN report"),  # the last judgement has the same
    ("0015", "UPDATE submissions SET share = user_name WHERE state IN ('queued', 'running')"),
    ("0015", "DROP INDEX IF EXISTS ix_submissions_queue"),  # made again, with shares
)


def migrate(connection: sa.Connection) -> None:
    """Bring the database up to HEAD, inside the caller's transaction.

    LedgerNewer where it is none of our versions; LedgerInUse where servers of an older version use the tables.
    """
    version = current(connection)
    if version == HEAD:
        return
    if version is not None and version not in VERSIONS:
        raise LedgerNewer(version, HEAD)
    if version is not None and (servers := connected_servers(connection)):
        raise LedgerInUse(version, HEAD, servers)
    metadata.create_all(connection, checkfirst=version is not None)  # a table of another program is not taken for ours
    if version is not None:
        _upgrade(connection, version)
    _versions.create(connection, checkfirst=True)
    connection.execute(sa.delete(_versions))
    connection.execute(sa.insert(_versions).values(version_num=HEAD))


def current(connection: sa.Connection) -> str | None:
    """The schema's version; None in an empty database."""
    if not sa.inspect(connection).has_table(_versions.name):
        return None
    return connection.scalar(sa.select(_versions.c.version_num))


def _upgrade(connection: sa.Connection, version: str) -> None:
    """Add to the tables what an older version lacks, but for foreign keys: no column got one later."""
    inspector = sa.inspect(connection)
    for table in metadata.sorted_tables:
        names = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.c:
            if column.name not in names:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")
    for step_version, statement in _STEPS:
        if step_version > version:
            connection.exec_driver_sql(statement)
    for table in metadata.sorted_tables:
        for index in table.indexes:
            index.create(connection, checkfirst=True)
