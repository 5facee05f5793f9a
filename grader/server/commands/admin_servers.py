"""`grader-server admin servers`: which servers use this state directory or share this database."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from grader.config import Settings
from grader.ledger.servers import ServerConnection, connected_servers
from grader.server.commands.check import reading
from grader.server.server_state import running_server
from grader.server.settings import add_json_option, add_ledger_options, print_json, print_line, print_table, run_command

PROGRAM = "grader-server admin servers"
HEADINGS = ("host", "address", "version", "from", "since", "last sign of life")


def main(arguments: Sequence[str]) -> int:
    """Print the servers; the exit code: 0, 2 where the words are wrong, 3 where the ledger fails."""
    options = parser().parse_args(arguments)
    return run_command(PROGRAM, options, partial(_print, options))


def _print(options: argparse.Namespace, settings: Settings) -> int:
    connections = _of_database(settings) if settings.database else _of_state_dir(settings)
    if options.json:
        servers = [
            {
                "host": connection.host,
                "address": connection.address,
                "version": connection.version,
                "client": connection.client,
                "since": connection.start_time.isoformat(),
                "last_sign_of_life": connection.seen_time.isoformat(),
            }
            for connection in connections
        ]
        print_json({"servers": servers})
    elif connections:
        print_table(HEADINGS, *map(_row, connections))
    else:
        print_line("no server uses this database" if settings.database else f"no server runs on {settings.state_dir}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Lists the servers that share a PostgreSQL database, or the one that has the state directory. Times are UTC.",
        epilog="A server of a database gives a sign of life each minute, and is left out after three minutes without one.",
    )
    add_ledger_options(command_parser)
    add_json_option(command_parser)
    return command_parser


def _of_database(settings: Settings) -> list[ServerConnection]:
    """The database is read as it is: a newer program does not upgrade it for this question."""
    with reading(settings.ledger) as connection:
        return connected_servers(connection)


def _of_state_dir(settings: Settings) -> list[ServerConnection]:
    """The server that has the lock, as it says itself; nothing of it is known while it starts."""
    snapshot = running_server(settings)
    if snapshot is None:
        return []
    return [
        ServerConnection(
            host=snapshot.host,
            address=snapshot.address,
            version=snapshot.version,
            client="",
            start_time=snapshot.start_time,
            seen_time=snapshot.write_time,
        )
    ]


def _row(connection: ServerConnection) -> tuple[str, ...]:
    version = connection.version or "earlier"
    return (
        connection.host or "-",
        connection.address or "-",
        version,
        connection.client or "this host",
        _time(connection.start_time),
        _time(connection.seen_time),
    )


def _time(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S}"
