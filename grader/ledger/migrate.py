"""Brings a database to the newest schema.  Where it is there already, Alembic is not even asked."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config

HEAD = "0001"
MIGRATIONS = Path(__file__).with_name("migrations")


def configuration(connection: sa.Connection) -> Config:
    """Alembic's settings, on a connection of ours: there is no alembic.ini."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def migrate(connection: sa.Connection) -> None:
    """Bring the database up to HEAD, inside the caller's transaction."""
    if current(connection) != HEAD:
        command.upgrade(configuration(connection), "head")


def current(connection: sa.Connection) -> str | None:
    """The schema's version; None in an empty database."""
    known = connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'")).first()
    if known is None:
        return None
    row = connection.execute(sa.text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])
