"""`grader-server backup FILE`: a copy of the ledger as it is at one moment, while a server runs. Of PostgreSQL, `pg_dump` makes one.

Where the copy is wrong or the disk is full, what was at FILE before is still there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from grader.config import Settings
from grader.errors import GraderError, LedgerUnreachable
from grader.ledger.postgres import shown_url
from grader.server.settings import add_ledger_options, print_line, run_command, usage_error

PROGRAM = "grader-server backup"


class BackupFailed(GraderError):
    """There is no backup."""

    detail: str


def main(arguments: Sequence[str]) -> int:
    """0 with a backup, 1 where it failed, 2 where it was not tried."""
    options = parser().parse_args(arguments)
    return run_command(PROGRAM, options, partial(_backup, options), failed=1)


def _backup(options: argparse.Namespace, settings: Settings) -> int:
    target = options.file.absolute()
    if target.exists() and not options.force:
        return usage_error(PROGRAM, f"{target} is there already; take another name, or --force")
    if settings.database:
        command = f"pg_dump --format=custom --no-owner --file={shlex.quote(str(target))} {shlex.quote(shown_url(settings.database))}"
        return usage_error(PROGRAM, f"this copies SQLite only; run, where PostgreSQL's client is installed: {command}")
    restore = backup(settings.ledger_path, target, force=options.force)
    print_line(f"{target}: {target.stat().st_size} bytes, read back and whole. To restore it: {restore}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Copies the ledger to FILE, while a server runs: submissions with sources, verdicts and keys. "
        "Only its owner may read FILE. Of a PostgreSQL database it says how to have pg_dump make one.",
    )
    command_parser.add_argument("file", type=Path, metavar="FILE", help="where to")
    command_parser.add_argument("--force", action="store_true", help="overwrite FILE, once the copy is whole")
    add_ledger_options(command_parser)
    return command_parser


def backup(source: Path, target: Path, *, force: bool) -> str:
    """Make the copy next to the target, look at it, then give it its name. Returns how to restore it."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # 0600
    os.close(descriptor)
    copy = Path(name)
    try:
        _copy(source, copy)
        _flush(copy)
        if force:
            copy.replace(target)
        else:
            try:
                os.link(copy, target)  # unlike a rename, this overwrites nothing
            except FileExistsError:
                raise BackupFailed(f"{target} has come into being meanwhile; take another name, or --force") from None
        _flush(target.parent)
    finally:
        copy.unlink(missing_ok=True)
    files = f"{shlex.quote(str(source))}-wal {shlex.quote(str(source))}-shm"
    return f"stop the server, rm -f {files}, cp {shlex.quote(str(target))} {shlex.quote(str(source))}"


def _copy(source: Path, copy: Path) -> None:
    if not source.is_file():
        raise LedgerUnreachable(str(source), "there is no such file; say where with --state-dir or --database")
    try:
        with (
            closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True)) as there,
            closing(sqlite3.connect(copy, isolation_level=None)) as here,
        ):
            there.backup(here)  # in one step: one state, and writers go on in the WAL
            here.execute("PRAGMA journal_mode = DELETE")  # one file, without a second one next to it
            wrong = [row[0] for row in here.execute("PRAGMA integrity_check") if row[0] != "ok"]
    except sqlite3.Error as error:
        raise BackupFailed(f"{source} can't be copied, and no backup was made: {error}; see `grader-server check`") from None
    if wrong:
        raise BackupFailed(f"{source} is damaged, and no backup was made: {wrong[0]}; see `grader-server check`")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
