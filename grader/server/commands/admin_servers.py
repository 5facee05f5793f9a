"""`grader-server admin servers`: which servers use this state directory or share this database."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from grader.config import Settings
from grader.errors import GraderError
from grader.ledger.servers import ServerConnection, connected_servers
from grader.server.commands.check import reading
from grader.server.commands.ledger_options import add_ledger_options, ledger_settings
from grader.server.commands.text_table import aligned
from grader.server.server_state import running_server
from grader.server.settings_given import misused, say

PROGRAM = "grader-server admin servers"
FAILED = 3
HEADINGS = ("host", "address", "version", "from", "since", "last sign of life")


def main(arguments: Sequence[str]) -> int:
    """Print the servers; the exit code: 0, 2 where the words are wrong, 3 where the ledger fails."""
    given = parser().parse_args(arguments)
    settings = ledger_settings(given)
    if settings is None:
        return 2
    try:
        found = _of_database(settings) if settings.database else _of_state_dir(settings)
    except (GraderError, OSError, SQLAlchemyError) as error:
        misused(PROGRAM, str(error))
        return FAILED
    if given.json:
        say(json.dumps({"servers": [_data(one) for one in found]}, indent=2))
    elif found:
        say(aligned([HEADINGS, *map(_row, found)]))
    else:
        say("no server uses this database" if settings.database else f"no server runs on {settings.state_dir}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Lists the servers that share a PostgreSQL database, or the one that has the state directory. Times are UTC.",
        epilog="A server of a database gives a sign of life each minute, and is left out after three minutes without one.",
    )
    add_ledger_options(made)
    made.add_argument("--json", action="store_true", help="print JSON, and nothing else, on stdout")
    return made


def _of_database(settings: Settings) -> list[ServerConnection]:
    """The database is read as it is: a newer program does not upgrade it for this question."""
    with reading(settings.ledger) as connection:
        return connected_servers(connection)


def _of_state_dir(settings: Settings) -> list[ServerConnection]:
    """The server that has the lock, as it says itself; nothing of it is known while it starts."""
    found = running_server(settings)
    if found is None:
        return []
    return [
        ServerConnection(
            host=found.host,
            address=found.address,
            version=found.version,
            client="",
            start_time=found.start_time,
            seen_time=found.write_time,
        )
    ]


def _data(one: ServerConnection) -> dict[str, Any]:
    return {
        "host": one.host,
        "address": one.address,
        "version": one.version,
        "client": one.client,
        "since": one.start_time.isoformat(),
        "last_sign_of_life": one.seen_time.isoformat(),
    }


def _row(one: ServerConnection) -> tuple[str, ...]:
    version = one.version or "earlier"
    return (one.host or "-", one.address or "-", version, one.client or "this host", _time(one.start_time), _time(one.seen_time))


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"
