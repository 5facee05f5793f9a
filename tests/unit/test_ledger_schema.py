"""How the ledger's file is made."""

import sqlite3

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from grader.errors import LedgerBusy
from grader.ledger import Ledger, database, migrate
from grader.ledger.tables import UtcTime, metadata

PRAGMAS = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")


def test_the_migrations_make_the_tables_that_the_code_uses(tmp_path):
    """Nobody changes a table without a migration."""
    engine = database.engine(tmp_path / "l", "BEGIN IMMEDIATE")
    with engine.begin() as connection:
        migrate.migrate(connection)
        different = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)
        assert different == []
        assert migrate.current(connection) == migrate.HEAD
        assert ScriptDirectory.from_config(migrate.configuration(connection)).get_heads() == [migrate.HEAD]


async def test_the_file_is_opened_so_that_it_survives_a_power_cut(tmp_path):
    """WAL, synchronous FULL, a busy timeout and foreign keys, on both engines."""
    async with Ledger.open(tmp_path / "l") as ledger:
        for run in (ledger._database.read, ledger._database.write):
            pragmas = await run(lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS])
            assert pragmas == ["wal", 2, database.BUSY_TIMEOUT_MS, 1]


async def test_a_locked_ledger_is_busy_and_no_mystery(tmp_path, monkeypatch):
    """Another program's lock gives LedgerBusy, which callers may retry."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 50)
    async with Ledger.open(tmp_path / "l") as ledger:
        other = sqlite3.connect(tmp_path / "l", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="locked"):
            await ledger.reclaim_all()
        other.execute("ROLLBACK")
        assert await ledger.reclaim_all() == []


def test_a_time_without_zone_is_refused():
    """Times are UTC by construction, not by hope."""
    from datetime import datetime

    with pytest.raises(ValueError, match="no time zone"):
        UtcTime().process_bind_param(datetime(2026, 1, 1), sa.create_engine("sqlite://").dialect)
