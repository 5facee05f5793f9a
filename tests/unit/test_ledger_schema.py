"""How the ledger's SQLite file is opened."""

import shutil
import sqlite3

import pytest
import sqlalchemy as sa

from grader.errors import LedgerBusy, LedgerUnreachable, SubmissionNotFound
from grader.ledger import Ledger, sqlite
from grader.ledger.tables import UtcTime
from tests import fakes

INDEX = "ix_submissions_board"
PRAGMAS = ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")


async def test_the_file_is_opened_so_that_it_survives_a_power_cut(tmp_path):
    async with Ledger.open(tmp_path / "l") as ledger:
        for run in (ledger.database.read, ledger.database.write):
            pragmas = await run(lambda connection: [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS])
            assert pragmas == ["wal", 2, sqlite.BUSY_TIMEOUT_MS, 1]


async def test_a_locked_ledger_is_busy_and_no_mystery(tmp_path, monkeypatch):
    """Another program's lock gives LedgerBusy, which callers may retry."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 50)
    async with Ledger.open(tmp_path / "l") as ledger:
        second_connection = sqlite3.connect(tmp_path / "l", isolation_level=None)
        second_connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerBusy, match="locked"):
            await ledger.reclaim_all()
        second_connection.execute("ROLLBACK")
        assert await ledger.reclaim_all() == []


async def test_a_full_disk_is_busy_until_there_is_room(tmp_path):
    async with Ledger.open(tmp_path / "l") as ledger:
        await ledger.database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1"))  # no more than now
        with pytest.raises(LedgerBusy, match="full; make room"):
            for _ in range(100):
                await ledger.submit(fakes.new_submission("x" * 5000), fakes.problem())
        accepted_count = await fakes.queued_count(ledger)
        await ledger.database.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 100000"))
        await ledger.submit(fakes.new_submission("x" * 5000), fakes.problem())
        assert await fakes.queued_count(ledger) == accepted_count + 1


def test_a_time_without_zone_is_refused():
    from datetime import datetime

    with pytest.raises(ValueError, match="no time zone"):
        UtcTime().process_bind_param(datetime(2026, 1, 1), sa.create_engine("sqlite://").dialect)


async def submit(ledger):
    return await ledger.submit(fakes.new_submission(), fakes.problem())


async def prove(ledger):
    await ledger.database.prove()


def remove(path):
    path.unlink()


def replace(path):
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def remove_the_log(path):
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("harm", [remove, replace, remove_the_log])
async def test_nothing_is_acknowledged_that_is_written_to_a_file_that_has_gone(tmp_path, harm):
    """SQLite would write on, to a file that nobody can open any more."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await submit(ledger)
        await prove(ledger)
        harm(tmp_path / "l")
        for call in (submit, prove, Ledger.expire, Ledger.depths):
            with pytest.raises(LedgerBusy, match="removed or replaced"):
                await call(ledger)


async def test_without_the_look_at_its_file_a_removed_ledger_takes_on(tmp_path):
    """The control: acknowledged, and gone."""
    async with Ledger.open(tmp_path / "l") as ledger:
        ledger.database._file = None
        remove(tmp_path / "l")
        lost = await submit(ledger)
    async with Ledger.open(tmp_path / "l") as ledger:
        with pytest.raises(SubmissionNotFound):
            await ledger.get(lost.submission_id)


def damage(path, table):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


async def test_a_damaged_ledger_takes_nothing_more_and_starts_no_server(tmp_path):
    """Every call names the damage; the next server refuses it, with what to do. The control: a reader opens it."""
    async with Ledger.open(tmp_path / "l", server_name="server") as ledger:
        await submit(ledger)
        damage(tmp_path / "l", "events")
        for call in (submit, prove, Ledger.expire):
            with pytest.raises(LedgerBusy, match=r"damaged \(.*\); stop the server, .* restore a backup"):
                await call(ledger)
    with pytest.raises(LedgerUnreachable, match="damaged"):
        async with Ledger.open(tmp_path / "l", server_name="server"):
            pass
    async with Ledger.open(tmp_path / "l"):
        pass


@pytest.mark.parametrize(("limit", "table", "refused"), [(1 << 30, INDEX, True), (0, INDEX, False), (0, "events", True)])
async def test_a_large_ledger_is_looked_at_in_part_when_a_server_starts(tmp_path, monkeypatch, limit, table, refused):
    """Of one over the limit the first and the last rows are read, whatever its size; every page of a smaller one, indexes too."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await submit(ledger)
    damage(tmp_path / "l", table)
    monkeypatch.setattr(sqlite, "CHECK_BYTES", limit)
    opened = Ledger.open(tmp_path / "l", server_name="server")
    if refused:
        with pytest.raises(LedgerUnreachable, match="damaged"):
            await opened.__aenter__()
    else:
        async with opened:
            pass
