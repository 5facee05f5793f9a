"""`grader-server check`: whether the ledger is whole, with a server running or without one.  Changes nothing."""

from __future__ import annotations

import argparse
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from grader.config import Settings
from grader.errors import GraderError, LedgerUnreachable
from grader.ledger import migrate, postgres, sqlite
from grader.ledger.tables import FOUND, events, judgements, metadata, submissions
from grader.model import SubmissionState
from grader.server.settings import USAGE_ERROR, add_ledger_options, print_line, run_command

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


SHOWN = 5  # broken ones that are named
_FINAL = [state for state in SubmissionState if state.final]

Ask = Callable[[sa.Connection], Iterable[str]]  # what is wrong, if anything


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerCheck:
    """Result of a check. detail: what is wrong, or how much was looked at."""

    name: str
    ok: bool
    detail: str


def schema(connection: sa.Connection) -> LedgerCheck:
    """Return whether the tables are those of this program; without that nothing else can be asked."""
    version = migrate.current(connection)
    detail = {migrate.HEAD: f"version {version}", None: "there is no ledger here"}.get(
        version, f"version {version}, and this program has {migrate.HEAD}: start its server once, which upgrades, or take a newer program"
    )
    return LedgerCheck(name="schema", ok=version == migrate.HEAD, detail=detail)


def contents(connection: sa.Connection) -> list[LedgerCheck]:
    """Everything else, one after the other."""
    queries = _SQLITE if connection.dialect.name == "sqlite" else _POSTGRESQL
    return [
        *(_looked(connection, name, "nothing wrong", ask) for name, ask in queries.items()),
        *(_looked(connection, name, claim, partial(_broken, broken)) for name, claim, broken in _INVARIANTS),
    ]


def _looked(connection: sa.Connection, name: str, claim: str, ask: Ask) -> LedgerCheck:
    """The claim, or what speaks against it; a database that is damaged may not even answer."""
    try:
        with connection.begin_nested():
            wrong = list(ask(connection))
    except sa.exc.DBAPIError as error:
        wrong = [str(error.orig).splitlines()[0]]
    return LedgerCheck(name=name, ok=not wrong, detail="; ".join(wrong[:SHOWN]) or claim)


def _broken(query: sa.Select[tuple[str]], connection: sa.Connection) -> Iterable[str]:
    ids = [row.submission_id for row in connection.execute(query.order_by(submissions.c.number))]
    if ids:
        yield f"not so for {len(ids)}: {', '.join(ids[:SHOWN])}{', ...' if len(ids) > SHOWN else ''}"


def _postgresql_integrity(connection: sa.Connection) -> Iterable[str]:
    """Read every value of every table: a damaged page, or a value that was cut off, is an error then."""
    for table in metadata.sorted_tables:
        try:
            with connection.begin_nested():
                connection.execute(sa.select(*(sa.func.sum(sa.func.length(sa.cast(column, sa.Text))) for column in table.c))).one()
        except sa.exc.DBAPIError as error:
            yield f"{table.name} can't be read: {str(error.orig).splitlines()[0]}"


def _postgresql_foreign_keys(connection: sa.Connection) -> Iterable[str]:
    """Those that are declared are kept by the database; here, that each is there and was not switched off."""
    keys = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND convalidated AND connamespace = current_schema()::regnamespace"
    keys_of_tables = set(connection.exec_driver_sql(keys).scalars())
    expected = {str(key.name) for table in metadata.sorted_tables for key in table.foreign_key_constraints}
    return (f"{name} is not enforced" for name in sorted(expected - keys_of_tables))


_SQLITE: dict[str, Ask] = {
    "integrity": lambda connection: (str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check") if row[0] != "ok"),
    "foreign_keys": lambda connection: (
        f"{row[0]} row {row[1]} names none of {row[2]}" for row in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ),
}
_POSTGRESQL: dict[str, Ask] = {"integrity": _postgresql_integrity, "foreign_keys": _postgresql_foreign_keys}


def _unequal_judgement() -> sa.Select[tuple[str]]:
    last = sa.and_(judgements.c.number == submissions.c.number, judgements.c.sequence == submissions.c.judgement_count)
    differs = sa.or_(*(judgements.c[name].is_distinct_from(submissions.c[name]) for name in FOUND))
    return _those(submissions.c.state == SubmissionState.SUCCEEDED, sa.or_(judgements.c.number.is_(None), differs)).select_from(
        submissions.outerjoin(judgements, last)
    )


def _gaps(table: sa.Table, count: sa.Column[int], complete: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    """Sequences that do not begin with 1, do not end with count, or have gaps where they are to be complete."""
    counted = _sequences(table, table.c.number)
    wrong = sa.or_(sa.func.coalesce(counted.c.last, 0) != count, counted.c.first != 1, sa.and_(counted.c.missing != 0, complete))
    return _those(wrong).select_from(submissions.outerjoin(counted, counted.c.number == submissions.c.number))


def _judged_event_gaps() -> sa.Select[tuple[str]]:
    counted = _sequences(events, events.c.number, events.c.attempt)
    judged = sa.exists().where(judgements.c.source_number == counted.c.number, judgements.c.attempt == counted.c.attempt)
    return _those(counted.c.missing != 0, judged).select_from(submissions.join(counted, counted.c.number == submissions.c.number))


def _sequences(table: sa.Table, *by: sa.Column[int]) -> sa.Subquery:
    """The first and the last sequence of each, and how many are missing in between."""
    first, last = sa.func.min(table.c.sequence), sa.func.max(table.c.sequence)
    missing = last - first + 1 - sa.func.count()
    return sa.select(*by, first.label("first"), last.label("last"), missing.label("missing")).group_by(*by).subquery()


def _those(*where: sa.ColumnElement[bool]) -> sa.Select[tuple[str]]:
    return sa.select(submissions.c.submission_id).where(*where)


_RUNNING = submissions.c.state == SubmissionState.RUNNING
_HELD = sa.or_(submissions.c.worker_id.is_not(None), submissions.c.lease_expire_time.is_not(None))
_UNHELD = sa.or_(submissions.c.worker_id.is_(None), submissions.c.lease_expire_time.is_(None))
_WITHDRAWN = submissions.c.withdraw_time.is_not(None)
_UNEXPLAINED = sa.or_(submissions.c.withdraw_user.is_(None), submissions.c.withdraw_reason.is_(None), submissions.c.competition_id == "")
_ENDED = submissions.c.end_time.is_not(None)
_INVARIANTS = (
    ("judgements", "every graded submission has a last judgement, equal to its row", _unequal_judgement()),
    ("judgement_sequences", "judgements count from 1 without gaps", _gaps(judgements, submissions.c.judgement_count, sa.true())),
    # Of what is finished the retention may have removed facts in between; never the first or the last event.
    (
        "event_sequences",
        "events count from 1 to the last, without gaps while it is not finished",
        _gaps(events, submissions.c.event_count, submissions.c.state.not_in(_FINAL)),
    ),
    ("judged_events", "no event of an attempt that was judged is missing", _judged_event_gaps()),
    ("leases", "only what runs is leased", _those(sa.not_(_RUNNING), _HELD)),
    ("workers", "all that runs has a worker and a time until which", _those(_RUNNING, _UNHELD)),
    ("end_times", "what is finished says when, and nothing else does", _those(submissions.c.state.in_(_FINAL) != _ENDED)),
    ("withdrawals", "what is withdrawn says by whom and why", _those(_WITHDRAWN, _UNEXPLAINED)),
    ("failures", "what failed says why", _those(submissions.c.state == SubmissionState.FAILED, submissions.c.failure.is_(None))),
)
