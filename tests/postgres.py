"""A PostgreSQL server for tests: in a temporary directory, on a unix socket only, without flushes to disk."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from grader.ledger import migrate
from grader.ledger.postgres import engine
from grader.ledger.tables import metadata
from tests.requirements import absent

READY_S = 300
_FAST = ("listen_addresses=", "fsync=off", "full_page_writes=off", "shared_buffers=16MB", "max_connections=200", "autovacuum=off")


def programs() -> Path | None:
    """The directory of the newest PostgreSQL's programs; Debian keeps them off the path."""
    if executable := shutil.which("postgres"):
        return Path(executable).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return versions[-1].parent if versions else None


class Postgres:
    """A server that can be stopped and started again, and databases in it."""

    def __init__(self, directory: Path, bin_dir: Path) -> None:
        self.directory, self.bin_dir = directory, bin_dir
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: list[str] = []
        self._as: dict[str, object] = {}
        if os.geteuid() == 0:  # it refuses root
            users = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = users.get("postgres") or users["nobody"]
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(directory, user.pw_uid, user.pw_gid)

    def make(self) -> None:
        """Make the cluster and start it, with one database that is migrated, to copy."""
        words = [
            "--no-sync",
            "--auth=trust",
            "--username=grader",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-D",
            str(self.directory / "data"),
        ]
        subprocess.run([self.bin_dir / "initdb", *words], check=True, capture_output=True, cwd="/", **self._as)
        self.start()
        self.administer('CREATE DATABASE "migrated"')
        database_engine = engine(self.url("migrated"))
        with database_engine.begin() as connection:
            migrate.migrate(connection)
        database_engine.dispose()

    def start(self) -> None:
        """Start, and wait until it answers."""
        settings = [word for setting in _FAST for word in ("-c", setting)]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.bin_dir / "postgres", "-D", self.directory / "data", "-k", self.directory, *settings],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._as,
            )
        deadline = time.monotonic() + READY_S
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline and self._process.poll() is None, (self.directory / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """Stop: SIGQUIT at once, as if it crashed; SIGINT ends connections in order."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(READY_S)

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://grader@/{name}?host={self.directory}"

    def database(self, *, migrated: bool = True, language: str = "") -> str:
        """The URL of a new database, with the newest tables or with none. language: it has none, and sorts as this language does."""
        name, of = f"t{secrets.token_hex(6)}", ' TEMPLATE "migrated"' if migrated else ""
        if language:
            of = f" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '{language}'"
        self.administer(f'CREATE DATABASE "{name}"{of}')
        return self.url(name)

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of a migrated and empty database; it is emptied afterwards, which is quicker than another one."""
        url = self._spare.pop() if self._spare else self.database()
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            names = ", ".join(f'"{table.name}"' for table in metadata.sorted_tables)
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY")
        self._spare.append(url)

    def administer(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL of this test session; skips where there is none, unless that is a failure."""
    bin_dir = programs()
    if bin_dir is None:
        absent("postgres", "PostgreSQL is not installed")
    directory = Path(tempfile.mkdtemp(prefix="gp-"))
    server = Postgres(directory, bin_dir)
    try:
        server.make()
        yield server
    finally:
        if server._process is not None and server._process.poll() is None:
            server.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    """The URL of a migrated and empty database."""
    with postgres.lent() as lent:
        yield lent


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    """Return the rows of a statement, on a connection of its own."""
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()
