"""The SQLite database: how it is opened, migrated, and used from asyncio.  The only module that knows it is SQLite.

One thread writes, so that writers queue here and not on SQLite's lock; two read beside it, which WAL allows.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from grader.errors import LedgerBusy
from grader.ledger.migrate import migrate

BUSY_TIMEOUT_MS = 10_000
READER_COUNT = 2

T = TypeVar("T")


def engine(path: Path, begin: str) -> sa.Engine:
    """An engine whose transactions start with `begin`."""
    made = sa.create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False, "timeout": BUSY_TIMEOUT_MS / 1000})

    @sa.event.listens_for(made, "connect")
    def _connect(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, never by the driver
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # an acknowledged submission survives a power cut
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(made, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(begin)

    return made


class Database:
    """Runs functions in transactions on threads of its own."""

    def __init__(self, path: Path) -> None:
        # IMMEDIATE: a transaction that reads before it writes must not find, when it writes, that another was quicker.
        self._write_engine = engine(path, "BEGIN IMMEDIATE")
        self._read_engine = engine(path, "BEGIN")
        self._writer = ThreadPoolExecutor(1, "ledger-write")
        self._readers = ThreadPoolExecutor(READER_COUNT, "ledger-read")

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[Database]:
        """Open the file, making or migrating it if need be."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = cls(path)
        try:
            await database.write(migrate)
            yield database
        finally:
            database._close()

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a write transaction; it is on disk when this returns. Writes run in the order of the calls."""
        return await self._run(self._writer, self._write_engine, work)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the database."""
        return await self._run(self._readers, self._read_engine, work)

    async def _run(self, threads: ThreadPoolExecutor, on: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
        def transact() -> T:
            try:
                with on.begin() as connection:
                    return work(connection)
            except OperationalError as error:
                if isinstance(error.orig, sqlite3.OperationalError) and "locked" in str(error.orig):
                    raise LedgerBusy(
                        f"the ledger was locked for over {BUSY_TIMEOUT_MS / 1000:.0f} s; is another program using it?"
                    ) from error
                raise

        return await asyncio.get_running_loop().run_in_executor(threads, transact)

    def _close(self) -> None:
        for threads in (self._writer, self._readers):
            threads.shutdown(wait=True)
        for one in (self._write_engine, self._read_engine):
            one.dispose()
