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
from sqlalchemy.exc import OperationalError

from grader.errors import LedgerBusy
from grader.ledger.group_commit import GroupCommit
from grader.ledger.migrate import migrate
from grader.model import WriteTotals
from grader.state_dir import writable_directory

BUSY_TIMEOUT_MS = 10_000
AGAIN_S = 0.005
READER_COUNT = 2
# What was written is moved from the log into the file by a thread of its own, which holds no writer up. The log begins anew only when the
# writer has moved the rest: the more often, the less there is to be moved while everybody waits. At 20 MB it takes some 10 ms, at 80 MB 90.
CHECKPOINT_S = 0.25
CHECKPOINT_PAGES = 5000

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
    made = sa.create_engine(f"sqlite:///{path}", connect_args=arguments, hide_parameters=True)

    @sa.event.listens_for(made, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, never by the driver
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged submission survives a power cut
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    @sa.event.listens_for(made, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return made


class SqliteDatabase:
    """Runs functions in transactions on threads of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
    async def open(cls, path: Path) -> AsyncIterator[SqliteDatabase]:
        """Open the file, making or migrating it if need be; SettingsInvalid where it can't lie there."""
        with writable_directory(path.parent):
            path.touch(mode=0o600)  # sources and webhook secrets are in it; what SQLite makes next to it has the same mode
        database = cls(path)
        try:
            await database.write(migrate)
            yield database
        finally:
            database._close()

    @property
    def shown(self) -> str:
        """The file."""
        return str(self._path)

    @property
    def written(self) -> WriteTotals:
        """Of the one thread that writes."""
        return self._writer.totals

    def now(self) -> datetime:
        """The host's time: there is one server."""
        return datetime.now(UTC)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a write transaction; it is on disk when this returns. Writes run in the order of the calls."""
        return await _busy_where_locked(self._writer.submit(work))

    async def write_rows(self, work: Callable[[sa.Connection], T]) -> T:
        """As `write`: SQLite has one writer at a time."""
        return await self.write(work)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the database."""

        def transact() -> T:
            with self._read_engine.begin() as connection:
                return work(connection)

        return await _busy_where_locked(asyncio.get_running_loop().run_in_executor(self._readers, transact))

    def _checkpoint(self) -> None:
        while not self._closing.wait(CHECKPOINT_S):
            with suppress(OperationalError), self._read_engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)")

    def _close(self) -> None:
        self._closing.set()
        self._checkpoints.join()
        self._writer.close()
        self._readers.shutdown(wait=True)
        for one in (self._write_engine, self._read_engine):
            one.dispose()


async def _busy_where_locked(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except OperationalError as error:
        # The lower eight bits are the kind, the others its details.
        code = error.orig.sqlite_errorcode & 0xFF if isinstance(error.orig, sqlite3.OperationalError) else None
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            text = f"the ledger was locked for over {BUSY_TIMEOUT_MS / 1000:.0f} s; is another program using it?"
            raise LedgerBusy(text) from error
        if code == sqlite3.SQLITE_FULL:
            raise LedgerBusy("the ledger's disk is full; make room") from error
        raise
