"""The interface of a database to the ledger; and which servers use one, by the PostgreSQL connections on which they listen: nothing is
written for it. A server names its connection `grader-server/VERSION HOST ADDRESS`; versions before that called it
`grader-server-listener`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
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

    async def read_once(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work that reads by one statement only."""


PREFIX = "grader-server/"
EARLIER_NAME = "grader-server-listener"
NAME_LIMIT_BYTES = 63  # PostgreSQL cuts an application_name there
HOST_LIMIT_CHARS = 24
GONE_AFTER = timedelta(minutes=3)  # a server asks for the time each minute; a connection of a lost host may stay for hours

_SERVERS = sa.text(
    """
    SELECT application_name, coalesce(host(client_addr), '')
    FROM pg_stat_activity
    WHERE datname = current_database() AND (application_name = :earlier OR starts_with(application_name, :prefix))
      AND coalesce(state_change, backend_start) > clock_timestamp() - make_interval(secs => :gone_s)
    ORDER BY backend_start, pid
    """
)


def connection_name(version: str, host: str, address: str) -> str:
    """Return what a server calls its connection."""
    return f"{PREFIX}{version} {host[:HOST_LIMIT_CHARS]} {address}".encode("ascii", "replace")[:NAME_LIMIT_BYTES].decode()


def connected_servers(connection: sa.Connection) -> list[str]:
    """The servers that use this database, as a sentence shows them, the oldest first; none on SQLite, which has one server."""
    if connection.dialect.name != "postgresql":
        return []
    parameters = {"earlier": EARLIER_NAME, "prefix": PREFIX, "gone_s": GONE_AFTER.total_seconds()}
    return [_shown(*row) for row in connection.execute(_SERVERS, parameters)]


def _shown(name: str, client: str) -> str:
    """Its host and address, or the address that it connects from. An earlier version did not say them."""
    version, host, address = [*name.removeprefix(PREFIX).split(" ", 2), "", ""][:3] if name.startswith(PREFIX) else ("", "", "")
    where = " ".join(filter(None, (host, address))) or client or "a local socket"
    return f"{where} ({version or 'an earlier version'})"
