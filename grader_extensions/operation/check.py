"""`grader-server check`: whether the ledger is whole, with a server running or without one.  Changes nothing."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from grader.config import Settings
from grader.errors import GraderError, LedgerUnreachable
from grader.ledger import postgres, sqlite
from grader.server.settings import USAGE_ERROR, add_ledger_options, print_line, run_command
from grader_extensions.operation.ledger_checks import LedgerCheck, contents, schema

PROGRAM = "grader-server check"


class LedgerDamaged(GraderError):
    """The file is no database any more."""

    detail: str


def main(arguments: Sequence[str]) -> int:
    """0 where all is well, 1 where something is broken, 2 where there is no ledger to look at."""
    options = parser().parse_args(arguments)
    return run_command(PROGRAM, options, partial(_check, options), failed=USAGE_ERROR)


def _check(options: argparse.Namespace, settings: Settings) -> int:
    results = checks(settings.ledger)
    ok = all(check.ok for check in results)
    if options.json:
        print_line(json.dumps({"ok": ok, "checks": [asdict(check) for check in results]}))
    else:
        print_line("\n".join(f"{'ok    ' if check.ok else 'BROKEN'} {check.name}: {check.detail}" for check in results))
    return 0 if ok else 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Checks the ledger, a line a check. The exit code is 0: whole, 1: broken, 2: none to check. A server may be running.",
    )
    add_ledger_options(command_parser)
    command_parser.add_argument("--json", action="store_true", help="print one JSON object")
    return command_parser


def checks(location: Path | str) -> list[LedgerCheck]:
    """Every check of the ledger there; where its tables are others, only that one."""
    try:
        with reading(location) as connection:
            tables = schema(connection)
            return [tables, *(contents(connection) if tables.ok else ())]
    except LedgerDamaged as error:
        return [LedgerCheck(name="integrity", ok=False, detail=str(error))]


@contextmanager
def reading(location: Path | str) -> Iterator[sa.Connection]:
    """A transaction that sees one state; LedgerUnreachable."""
    if isinstance(location, Path):
        if not location.is_file():
            raise LedgerUnreachable(str(location), "there is no such file; say where with --state-dir or --database")
        engine, shown = sqlite.engine(location, "BEGIN"), str(location)
    else:
        engine, shown = postgres.engine(location), postgres.shown_url(location)
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        detail = str(error.orig).strip().splitlines()[0]
        if isinstance(error.orig, sqlite3.DatabaseError) and not isinstance(error.orig, sqlite3.OperationalError):
            raise LedgerDamaged(detail) from None
        raise LedgerUnreachable(shown, detail) from None
    finally:
        engine.dispose()
