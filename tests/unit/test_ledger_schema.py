"""How the ledger's SQLite file is opened."""

import sqlite3

import pytest
import sqlalchemy as sa

from grader.errors import LedgerBusy
from grader.ledger import Ledger, sqlite
from grader.ledger.tables import UtcTime
from tests import fakes

PRAGMAS = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")


async def test_the_file_is_opened_so_that_it_survives_a_power_cut(tmp_path):
    """WAL, synchronous FULL, a busy timeout and foreign keys, on both engines."""
    async with Ledger.open(tmp_path / "l") as ledger:
        for run in (ledger._database.read, ledger._database.write):
            pragmas = await run(lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS])
            assert pragmas == ["wal", 2, sqlite.BUSY_TIMEOUT_MS, 1]


async def test_a_locked_ledger_is_busy_and_no_mystery(tmp_path, monkeypatch):
    """Another program's lock gives LedgerBusy, which callers may retry."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    async with Ledger.open(tmp_path / "l") as ledger:
        other = sqlite3.connect(tmp_path / "l", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="locked"):
            await ledger.reclaim_all()
        other.execute("ROLLBACK")
        assert await ledger.reclaim_all() == []


async def test_a_full_disk_is_busy_until_there_is_room(tmp_path):
    """What does not fit is an error, and a server that polls goes on."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await ledger._database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1"))  # no more than now
        with pytest.raises(LedgerBusy, match="full; make room"):
            for _ in range(100):
                await ledger.submit(fakes.new_submission("x" * 5000), fakes.problem())
        taken = await ledger.queued_count()
        await ledger._database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 100000"))
        await ledger.submit(fakes.new_submission("x" * 5000), fakes.problem())
        assert await ledger.queued_count() == taken + 1


def test_a_time_without_zone_is_refused():
    """Times are UTC by construction, not by hope."""
    from datetime import datetime

    with pytest.raises(ValueError, match="no time zone"):
        UtcTime().process_bind_param(datetime(2026, 1, 1), sa.create_engine("sqlite://").dialect)
