"""`grader-server backup FILE`: a copy of the ledger as it is at one moment, while a server runs.

Where the copy is wrong or the disk is full, what was at FILE before is still there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from psycopg.conninfo import make_conninfo

from grader.errors import GraderError, LedgerUnreachable
from grader.ledger.postgres import connection_words, shown_url
from grader.server.settings import add_ledger_options, ledger_settings

DONE, FAILED, MISUSED = 0, 1, 2


class BackupFailed(GraderError):
    """There is no backup."""

    detail: str


def main(arguments: Sequence[str]) -> int:
    """0 with a backup, 1 where it failed, 2 where it was not tried."""
    options = parser().parse_args(arguments)
    settings = ledger_settings(options)
    if settings is None:
        return MISUSED
    target = options.file.absolute()
    if target.exists() and not options.force:
        sys.stderr.write(f"grader-server backup: {target} is there already; take another name, or --force\n")
        return MISUSED
    try:
        restore = backup(settings.ledger, target, force=options.force)
    except (GraderError, OSError) as error:
        sys.stderr.write(f"grader-server backup: {error}\n")
        return FAILED
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes, read back and whole. To restore it: {restore}\n")
    return DONE


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog="grader-server backup",
        description="Copies the ledger to FILE, while a server runs: submissions with sources, verdicts and keys. "
        "Only its owner may read FILE. Of PostgreSQL it is what pg_dump makes, which has to be installed.",
    )
    command_parser.add_argument("file", type=Path, metavar="FILE", help="where to")
    command_parser.add_argument("--force", action="store_true", help="overwrite FILE, once the copy is whole")
    add_ledger_options(command_parser)
    return command_parser


def backup(location: Path | str, target: Path, *, force: bool) -> str:
    """Make the copy next to the target, look at it, then give it its name. Returns how to restore it."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # 0600
    os.close(descriptor)
    copy = Path(name)
    try:
        restore = _copy_sqlite(location, copy, target) if isinstance(location, Path) else _dump(location, copy, target)
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
    return restore


def _copy_sqlite(source: Path, copy: Path, target: Path) -> str:
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
    files = f"{shlex.quote(str(source))}-wal {shlex.quote(str(source))}-shm"
    return f"stop the server, rm -f {files}, cp {shlex.quote(str(target))} {shlex.quote(str(source))}"


def _dump(url: str, copy: Path, target: Path) -> str:
    words = connection_words(url)
    password = words.pop("password", None)
    conninfo = make_conninfo(**words)  # seen by all users of this host, in the list of processes: no password in it
    shown = shlex.quote(conninfo)
    if shutil.which("pg_dump") is None:
        command = f"pg_dump --format=custom --no-owner --file={shlex.quote(str(target))} --dbname={shown}"
        raise BackupFailed(f"pg_dump is not here; install PostgreSQL's client, or run this where it is:\n  {command}")
    environment = os.environ | ({"PGPASSWORD": str(password)} if password else {})
    _run(["pg_dump", "--format=custom", "--no-owner", f"--file={copy}", f"--dbname={conninfo}"], environment, shown_url(url))
    _run(["pg_restore", "--list", str(copy)], environment, shown_url(url))
    return f"make an empty database, then pg_restore --no-owner --dbname={shown} {shlex.quote(str(target))}"


def _run(command: list[str], environment: dict[str, str], shown: str) -> None:
    process = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if process.returncode:
        raise BackupFailed(f"{command[0]} of {shown} failed with {process.returncode}: {process.stderr.strip()}")


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
