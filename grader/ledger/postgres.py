"""The ledger in a PostgreSQL database, which several servers share.

Work of `write` runs one at a time over all servers, under an advisory lock: that is what SQLite gives, and what makes "count, then
insert" right. Work of `write_rows`, which is most of it, runs in parallel and locks rows.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa
import structlog
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.string import StrDumperUnknown
from sqlalchemy.exc import DBAPIError, PendingRollbackError

from grader.errors import LedgerBusy, LedgerUnreachable, SettingsInvalid
from grader.ledger.changes import CHANNEL, SERVER, Changes, NewsKind, tell
from grader.ledger.group_commit import GroupCommit
from grader.ledger.migrate import migrate
from grader.ledger.records import plain
from grader.model import WriteTotals

log = structlog.get_logger()

RETRY_S = 1.0
MEASURE_S = 60.0  # how often the clocks are compared, which also finds a connection that died quietly
ANSWER_S = 10.0


def first_line(error: BaseException) -> str:
    """Return what a driver says, without its hints."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


ROW_WRITER_COUNT, READER_COUNT = 4, 4  # and one that writes alone, and one that listens: ten connections a server
PATIENCE_S = 5.0  # how long a call waits for a database that does not answer, so that its restart goes unnoticed
PAUSE_S = 0.02
RACE_LIMIT = 8  # transactions that were in the way of one
SKEW_S = 0.1  # clocks that differ by less are the same: the measurement is no better
WRITE_ALONE = f"SELECT pg_advisory_xact_lock({0x67726164}, 1)"  # "grad"

LISTENER = "grader-ledger-listener"  # in pg_stat_activity, of what is no server: a command
# Ours to ask for, where the URL does not say otherwise.
_CONNECTION = {"application_name": "grader-server", "connect_timeout": "5", "keepalives_idle": "20", "tcp_user_timeout": "20000"}
_SESSION = (
    "SET lock_timeout = '10s'",
    "SET idle_in_transaction_session_timeout = '20s'",  # a server that was stopped with a lock in hand must not stop the others
    "SET timezone = 'UTC'",
    # An acknowledged submission survives a power cut; who asks for more than `on` keeps it.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')",
)
_NOT_UNIQUE, _LOCKED = "23505", "55P03"
_RACES = frozenset({"40001", "40P01", _NOT_UNIQUE})  # serialization, deadlock, and a row that another inserted just before us
_AWAY = "the ledger's database does not answer; try again"
_WENT_AWAY = "the ledger's database went away while it wrote; try again with the same request id"

T = TypeVar("T")


class _TextDumper(StrDumperUnknown):
    """Text as PostgreSQL takes it: it refuses NUL, and UTF-8 has no half of a surrogate pair."""

    def dump(self, obj: str) -> bytes:
        return plain(obj).encode()


def connection_words(url: str) -> dict[str, Any]:
    """Return what a URL says, as libpq reads it."""
    try:
        return dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError:  # it may quote the URL, password and all
        raise SettingsInvalid("database", "is not a URL that libpq reads; write postgresql://USER@HOST/DATABASE") from None


def shown_url(url: str) -> str:
    """The URL without password and options."""
    words = connection_words(url)
    user, host, port = (str(words.get(name) or "") for name in ("user", "host", "port"))
    place = (f"{user}@" if user else "") + ("" if host.startswith("/") else host) + (f":{port}" if port else "")
    return f"postgresql://{place}/{words.get('dbname') or ''}"


def engine(url: str, changes: Changes | None = None, pool_size: int = 5) -> sa.Engine:
    """An engine by libpq's rules, PGPASSWORD and pgpass included. Its errors quote no parameters: there are sources among them. changes: of
    the server whose connections these are."""
    conninfo = make_conninfo(**(_CONNECTION | connection_words(url)))

    def connect() -> psycopg.Connection[Any]:
        connection = psycopg.connect(conninfo, autocommit=True)
        for statement in _SESSION:
            connection.execute(statement)
        connection.adapters.register_dumper(str, _TextDumper)
        connection.autocommit = False
        return connection

    database_engine = sa.create_engine("postgresql+psycopg://", creator=connect, pool_size=pool_size, max_overflow=0, hide_parameters=True)

    @sa.event.listens_for(database_engine, "connect")
    def _connect(_connection: Any, record: Any) -> None:
        record.info[SERVER] = changes

    return database_engine


def alone(of: sa.Engine) -> sa.Engine:
    """The same engine, but of its transactions one runs at a time, over all servers."""
    option_engine = of.execution_options()

    @sa.event.listens_for(option_engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(WRITE_ALONE)

    return option_engine


class PostgresDatabase:
    """Runs functions in transactions on threads of its own."""

    def __init__(self, url: str, changes: Changes, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._changes, self._unsaid = changes, dict[tuple[NewsKind, str], None]()
        self.shown = shown_url(url)  # without password
        self._engine = engine(url, changes, 1 + ROW_WRITER_COUNT + READER_COUNT)
        self._statement_engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        self._read_engine = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._writer = GroupCommit(alone(self._engine), "ledger-write")
        self._row_writers = ThreadPoolExecutor(ROW_WRITER_COUNT, "ledger-rows")
        self._readers = ThreadPoolExecutor(READER_COUNT, "ledger-read")
        self._ahead = timedelta(0)
        self._away = False  # whether the last transaction found no database

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, changes: Changes, *, listener_name: str = LISTENER, patience_s: float = PATIENCE_S
    ) -> AsyncIterator[PostgresDatabase]:
        """Connect, making or migrating the tables if need be, and listen to other servers. listener_name: as `database.py` reads it."""
        database = cls(url, changes, patience_s)
        try:
            await database._begin()
            conninfo = make_conninfo(**(_CONNECTION | connection_words(url) | {"application_name": listener_name}))
            listening = asyncio.Event()
            raised: Exception | None = None
            async with asyncio.TaskGroup() as group:
                changes.say = partial(database._say, group)
                listener = group.create_task(database._keep_listening(conninfo, listening))
                with suppress(TimeoutError):
                    await asyncio.wait_for(listening.wait(), PATIENCE_S)
                try:
                    yield database
                except Exception as error:  # noqa: BLE001  # the caller's own; out of the group, so that it comes back as it was
                    raised = error
                finally:
                    changes.say = lambda kind, submission_ids: None
                    listener.cancel()
            if raised is not None:
                raise raised
        finally:
            database._close()

    async def _begin(self) -> None:
        try:
            encoding = await self.read(lambda connection: str(connection.exec_driver_sql("SHOW server_encoding").scalar_one()))
            if encoding != "UTF8":
                raise SettingsInvalid(
                    "database", f"its encoding is {encoding}; make one with `createdb --encoding=UTF8 --template=template0`"
                )
            time_there = await self.read(lambda connection: connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one())
            self._measured(time_there - datetime.now(UTC))
            await self.write(migrate)
        except (LedgerBusy, DBAPIError) as error:
            message = error if isinstance(error, DBAPIError) else error.__cause__
            raise LedgerUnreachable(self.shown, first_line(getattr(message, "orig", None) or error)) from None

    @property
    def written(self) -> WriteTotals:
        return self._writer.totals

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def _measured(self, ahead: timedelta) -> None:
        skewed = abs(ahead) > timedelta(seconds=SKEW_S)
        if skewed and abs(ahead - self._ahead) > timedelta(seconds=SKEW_S):
            log.warning("clock_differs_from_the_database", ahead_s=ahead.total_seconds())
        self._ahead = ahead if skewed else timedelta(0)

    def _say(self, group: asyncio.TaskGroup, kind: NewsKind, submission_ids: Sequence[str]) -> None:
        """Tell other servers soon, together with what else there is to tell."""
        if not self._unsaid:
            group.create_task(self._tell_unsaid())
        self._unsaid.update(dict.fromkeys((kind, submission_id) for submission_id in submission_ids))

    async def _tell_unsaid(self) -> None:
        unsaid, self._unsaid = list(self._unsaid), {}

        def work(connection: sa.Connection) -> None:
            for kind, submission_id in unsaid:
                tell(connection, kind, submission_id)

        try:
            await self.write_rows(work)
        except (LedgerBusy, DBAPIError) as error:  # they look again, later
            log.warning("not_told", detail=first_line(error))

    async def _keep_listening(self, conninfo: str, listening: asyncio.Event) -> None:
        """Hear of other servers, on a connection that is opened again when it is lost. Nothing depends on it but how soon: all poll too."""
        while True:
            try:
                await self._listen(conninfo, listening)
            except (psycopg.Error, TimeoutError) as error:
                log.warning("listening_failed", detail=first_line(error))
            await asyncio.sleep(RETRY_S)

    async def _listen(self, conninfo: str, listening: asyncio.Event) -> None:
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            listening.set()
            self._changes.miss()  # from now on nothing is missed; before, nobody knows
            while True:
                before = datetime.now(UTC)
                async with asyncio.timeout(ANSWER_S):
                    row = await (await connection.execute("SELECT clock_timestamp()")).fetchone()
                after = datetime.now(UTC)
                if row is not None:
                    self._measured(row[0] - (before + (after - before) / 2))
                async for sentence in connection.notifies(timeout=MEASURE_S):
                    self._changes.receive(sentence.payload)

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run work while no other server writes so. Of one server, in the order of the calls, and those that wait share a commit."""

        async def submitted() -> T:
            try:
                return await self._writer.submit(work)
            except (DBAPIError, PendingRollbackError) as error:
                if isinstance(error, PendingRollbackError) or (error.connection_invalidated and error.statement != WRITE_ALONE):
                    raise LedgerBusy(_WENT_AWAY) from error  # not to be run again: it may be written
                raise

        return await self._insist(submitted, time.monotonic() + self._patience_s)

    async def write_rows(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._on(self._row_writers, self._engine, work)

    async def prove(self) -> None:
        """Write a message to the log of the database, which nobody reads."""
        await self.write_rows(lambda connection: connection.exec_driver_sql("SELECT pg_logical_emit_message(true, 'grader', '')"))

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._on(self._readers, self._read_engine, work)

    async def read_once(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._on(self._readers, self._statement_engine, work)

    async def _on(self, threads: ThreadPoolExecutor, on: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
        loop, deadline = asyncio.get_running_loop(), time.monotonic() + self._patience_s

        def transact() -> T:
            if self._away and time.monotonic() > deadline:  # waited for a thread; each try may take as long as a connection does
                raise LedgerBusy(_AWAY)
            with on.connect() as connection:  # rolls back what is not committed
                transaction = connection.begin()
                result = work(connection)
                try:
                    transaction.commit()
                except DBAPIError as error:
                    if _lost(error):  # not to be run again: it may be written
                        raise LedgerBusy(_WENT_AWAY) from error
                    raise
                return result

        return await self._insist(lambda: loop.run_in_executor(threads, transact), deadline)

    async def _insist(self, transact: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Run a transaction, again where it was certainly not written: because of another one, or of a database that is away."""
        # Until a deadline from the call on, and not from when a thread has time: many may wait, and none for long.
        races = tries = 0
        while True:
            try:
                answer = await transact()
            except DBAPIError as error:
                self._away = _lost(error)
                races += _again(error, races, deadline)
            else:
                self._away = False
                return answer
            tries += 1
            await asyncio.sleep(random.uniform(0.5, 1.5) * PAUSE_S * 2 ** min(tries, 4))

    def _close(self) -> None:
        self._writer.close()
        for threads in (self._row_writers, self._readers):
            threads.shutdown(wait=True)
        self._engine.dispose()


def _again(error: DBAPIError, races: int, deadline: float) -> bool:
    """Return whether another transaction was in the way, and not the database away; raises where it is not to be tried again."""
    state = getattr(error.orig, "sqlstate", None)
    if state in _RACES:
        if races + 1 < RACE_LIMIT:
            return True
        if state == _NOT_UNIQUE:
            raise error  # no race: the row is there for good
        raise LedgerBusy("others were in the way of this write too often; try again") from error
    if state == _LOCKED:
        raise LedgerBusy("the ledger was locked for over 10 s; is another program using it?") from error
    if not _lost(error):
        raise error
    if time.monotonic() >= deadline:
        log.warning("ledger_away", detail=first_line(error.orig or error))
        raise LedgerBusy(_AWAY) from error
    return False


def _lost(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    gone = state is None or state[:2] in ("08", "57", "53")  # connection, operator's intervention, out of resources
    return error.connection_invalidated or (isinstance(error.orig, psycopg.OperationalError) and gone)
