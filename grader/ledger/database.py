"""The interface of a database to the ledger, and the choice of a database by its address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Protocol, TypeVar

import sqlalchemy as sa

from grader.ledger.changes import News
from grader.ledger.postgres import LISTENER, PostgresDatabase
from grader.ledger.sqlite import SqliteDatabase
from grader.model import WriteTotals

T = TypeVar("T")


class Database(Protocol):
    """Runs functions in transactions on threads of its own.

    A function may be run again, in a new transaction, where another was in its way: it changes nothing but what is in the database.
    LedgerBusy where the database does not answer or another keeps it locked for too long.
    """

    @property
    def shown(self) -> str:
        """Where it is, without what is secret."""

    @property
    def written(self) -> WriteTotals:
        """Return what `write` has done so far, for this server."""

    def now(self) -> datetime:
        """The time, by a clock that all servers on this database share."""

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work while no other such work runs, of this server or of another; on disk when this returns.

        What work reads stays true until it has written, except for rows that `write_rows` may change.
        """

    async def write_rows(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that locks the rows that it decides by; others may run next to it. On disk when this returns."""

    async def prove(self) -> None:
        """Write something that changes nothing: LedgerBusy where a submission could not be taken or settled now."""

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work in a transaction that sees one state of the database."""


@asynccontextmanager
async def open_database(location: Path | str, hear: Callable[[News], None], server_name: str = "") -> AsyncIterator[Database]:
    """Open the SQLite file or the PostgreSQL database of a URL, made or migrated if need be. hear is called with what other servers do.
    server_name: what a server calls itself, which has the file looked at for damage; "": this is none."""
    if isinstance(location, Path):
        async with SqliteDatabase.open(location, checked=server_name != "") as sqlite:
            yield sqlite
    else:
        async with PostgresDatabase.open(location, hear, listener_name=server_name or LISTENER) as postgres:
            yield postgres
