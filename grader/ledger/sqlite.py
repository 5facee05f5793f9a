"""The ledger in one SQLite file, of one server: how it is opened, migrated, and used from asyncio.

One thread writes, so that writers queue here and not on SQLite's lock, and those that wait together share a flush; two read next to it,
which WAL allows.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, OperationalError

from grader.errors import LedgerBusy, LedgerUnreachable
from grader.ledger.group_commit import GroupCommit
from grader.ledger.migrate import migrate
from grader.ledger.tables import metadata
from grader.model import WriteTotals
from grader.state_dir import writable_directory

BUSY_TIMEOUT_MS = 10_000
AGAIN_S = 0.005
READER_COUNT = 2
# What was written is moved from the log into the file by a thread of its own, which holds no writer up. The log begins anew only when the
# writer has moved the rest: the more often, the less there is to be moved while everybody waits. At 20 MB it takes some 10 ms, at 80 MB 90.
CHECKPOINT_S = 0.25
CHECKPOINT_PAGES = 5000
CHECK_BYTES = 256 * 1024 * 1024  # SQLite looks at half a GB in a second; it can't be stopped
DAMAGED = "the ledger is damaged ({}); stop the server, look with `grader-server check`, and restore a backup"
LOST = "the ledger's file {} was removed or replaced while it is open; stop the server, and restore a backup"

T = TypeVar("T")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Use a write-ahead log. Where several do so with a new file at once, SQLite refuses all but one and waits for nobody."""
    end_s = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end_s:
                raise
            time.sleep(AGAIN_S)


def engine(path: Path, begin: str) -> sa.Engine:
    """An engine whose transactions start with `begin`. Its errors quote no parameters: there are sources among them."""
    arguments = {"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000}
    database_engine = sa.create_engine(f"sqlite:///{path}", connect_args=arguments, hide_parameters=True, paramstyle="named")

    @sa.event.listens_for(database_engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, never by the driver
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged submission survives a power cut
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # or each lease makes a file in /var/tmp, and removes it
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def _begin(dbapi_connection: Any) -> None:
        dbapi_connection.execute(begin)

    # Not by a listener to "begin": with one, SQLAlchemy looks for listeners at every statement.
    database_engine.dialect.do_begin = _begin  # type: ignore[method-assign]
    return database_engine


class SqliteDatabase:
    """Runs functions in transactions on threads of its own."""

    def __init__(self, path: Path) -> None:
        self._path, self._log, self.shown = path, path.with_name(f"{path.name}-wal"), str(path)
        self._file: tuple[int, int] | None = None  # the one that is open
        self._damage = ""
        # IMMEDIATE: a transaction that reads before it writes must not find, when it writes, that another was quicker.
        self._write_engine = engine(path, "BEGIN IMMEDIATE")
        self._read_engine = engine(path, "BEGIN")
        self._writer = GroupCommit(self._write_engine, "ledger-write")
        self._readers = ThreadPoolExecutor(READER_COUNT, "ledger-read")
        self._closing = threading.Event()
        self._checkpoints = threading.Thread(target=self._checkpoint, name="ledger-checkpoint", daemon=True)
        self._checkpoints.start()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, checked: bool = False) -> AsyncIterator[SqliteDatabase]:
        """Open the file, making or migrating it if need be; SettingsInvalid where it can't lie
        there. checked: `look` for damage first. LedgerUnreachable where it is damaged."""
        with writable_directory(path.parent):
            path.touch(mode=0o600)  # sources are in it; what SQLite makes next to it has the same mode
        database = cls(path)
        try:
            try:
                await database.write(migrate)
                database._damage = await database.read(look) if checked else ""
            except LedgerBusy:
                if not database._damage:
                    raise
            if database._damage:
                raise LedgerUnreachable(str(path), database._damage)
            database._file = _identity(path, database._log)
            yield database
        finally:
            database._close()

    @property
    def written(self) -> WriteTotals:
        return self._writer.totals

    def now(self) -> datetime:
        """The host's time: there is one server."""
        return datetime.now(UTC)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a write transaction; it is on disk when this returns. Writes run in the order of the calls."""
        if self._damage:
            raise LedgerBusy(self._damage)
        self._refuse_lost()
        return await self._busy_where_locked(self._writer.submit(work))

    write_rows = write  # SQLite has one writer at a time

    async def prove(self) -> None:
        """Write a page: SQLite writes the first one anew for this, whatever it was."""
        await self.write(lambda connection: connection.exec_driver_sql("PRAGMA user_version = 1"))

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        self._refuse_lost()

        def transact() -> T:
            with self._read_engine.begin() as connection:
                return work(connection)

        return await self._busy_where_locked(asyncio.get_running_loop().run_in_executor(self._readers, transact))

    read_once = read

    def _refuse_lost(self) -> None:
        """Raise where the file is gone: what is written to it would be lost, and a new connection would make a new file."""
        if self._file is not None and _identity(self._path, self._log) != self._file:
            raise LedgerBusy(LOST.format(self._path))

    def _checkpoint(self) -> None:
        while not self._closing.wait(CHECKPOINT_S):
            with suppress(OperationalError), self._read_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def _close(self) -> None:
        self._closing.set()
        self._checkpoints.join()
        self._writer.close()
        self._readers.shutdown(wait=True)
        for open_engine in (self._write_engine, self._read_engine):
            open_engine.dispose()

    async def _busy_where_locked(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except DatabaseError as error:
            # The lower eight bits are the kind, the others its details.
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                text = f"the ledger was locked for over {BUSY_TIMEOUT_MS / 1000:.0f} s; is another program using it?"
            elif code == sqlite3.SQLITE_FULL:
                text = "the ledger's disk is full; make room"
            elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                text = self._damage = DAMAGED.format(error.orig)
            elif code in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
                text = f"the ledger's disk fails ({error.orig}); look at it"
            else:
                raise
            raise LedgerBusy(text) from error


def look(connection: sa.Connection) -> str:
    """Look for damage, within a second or two at any size; what is wrong.  It reads the first and
    the last row of each table, and every page of a ledger of up to CHECK_BYTES."""
    for table in metadata.sorted_tables:
        for order in ("ASC", "DESC"):
            connection.exec_driver_sql(f"SELECT * FROM {table.name} ORDER BY rowid {order} LIMIT 1").all()
    pages, page_bytes = (int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()) for name in ("page_count", "page_size"))
    if pages * page_bytes > CHECK_BYTES:
        return ""
    damage = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    return "" if damage == "ok" else DAMAGED.format(damage)


def _identity(path: Path, log: Path) -> tuple[int, int] | None:
    """Of the file that is there, as long as its log is, too: SQLite has that while a ledger is open."""
    try:
        log.stat()
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
