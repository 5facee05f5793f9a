"""Brings a database to the newest schema.  Where it is there already, Alembic is not even asked.

Two servers that start at once migrate once: SQLite's write lock, and on PostgreSQL the lock of `Database.write`, are held until it is done.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from grader.errors import LedgerInUse, LedgerNewer
from grader.ledger.servers import connected_servers

HEAD = "0011"
MIGRATIONS = Path(__file__).with_name("migrations")


def configuration(connection: sa.Connection) -> Config:
    """Alembic's settings, on a connection of ours: there is no alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def migrate(connection: sa.Connection) -> None:
    """Bring the database up to HEAD, inside the caller's transaction.

    LedgerNewer where it is none of our versions; LedgerInUse where servers of an older version use the tables.
    """
    version = current(connection)
    if version == HEAD:
        return
    config = configuration(connection)
    if version is not None and version not in {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}:
        raise LedgerNewer(version, HEAD)
    if version is not None and (servers := connected_servers(connection)):
        raise LedgerInUse(version, HEAD, [server.shown for server in servers])
    command.upgrade(config, "head")


def current(connection: sa.Connection) -> str | None:
    """The schema's version; None in an empty database."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(sa.text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])
