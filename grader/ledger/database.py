"""The interface of a database to the ledger."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

import sqlalchemy as sa

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
