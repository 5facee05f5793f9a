"""PostgreSQL that goes away and comes back, is not there at all, or has another clock; and that no password is shown."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from grader.config import Settings
from grader.errors import LedgerBusy, LedgerUnreachable, SettingsInvalid
from grader.ledger import Ledger
from grader.ledger.changes import Changes, NewsKind
from grader.ledger.postgres import PostgresDatabase, shown_url
from tests import fakes

SOON_S = 300
SECRET = "s3cr3t-w0rd"
WITH_PASSWORD = f"postgresql://grader:{SECRET}@db.example:5433/ledger?application_name=x"


@asynccontextmanager
async def opened(url, patience_s):
    """A ledger that waits so long for its database."""
    changes = Changes()
    async with PostgresDatabase.open(url, changes, patience_s=patience_s) as database:
        yield Ledger(database, database.now, changes)


async def submit(ledger):
    return (await ledger.submit(fakes.new_submission(), fakes.problem())).submission_id


@pytest.mark.slow
async def test_a_database_that_crashed_is_busy_and_then_used_again(postgres, url):
    """Reads and writes say LedgerBusy while it is away; afterwards all that was acknowledged is there, and news are heard again."""
    async with opened(url, 0.2) as ledger, opened(url, 0.2) as second:
        before = await submit(ledger)
        lease = await ledger.lease("w1", ttl_s=60)
        heard = asyncio.Queue()
        with second.changes.elsewhere(heard.put_nowait):
            postgres.stop()
            try:
                for call in (submit(ledger), ledger.get(before), ledger.heartbeat(lease, ttl_s=60), ledger.settle(lease, fakes.report())):
                    with pytest.raises(LedgerBusy):
                        await call
            finally:
                postgres.start()
            await ledger.settle(lease, fakes.report())
            async with asyncio.timeout(SOON_S):
                while (await heard.get()).kind is not NewsKind.MISSED:
                    pass
            after = await submit(ledger)
            async with asyncio.timeout(SOON_S):
                while (await heard.get()).submission_id != after:
                    pass


async def test_a_restart_of_the_database_goes_unnoticed(postgres, url):
    """Calls that come while it is away wait for a while; none is lost and none is written twice."""
    async with opened(url, 120) as ledger:
        held_id = await submit(ledger)
        lease = await ledger.lease("w1", ttl_s=60)
        postgres.stop()
        calls = [asyncio.create_task(call) for call in (submit(ledger), ledger.append(lease, [fakes.trial()]), ledger.get(held_id))]
        await asyncio.to_thread(postgres.start)
        submission_id, _, read = await asyncio.wait_for(asyncio.gather(*calls), SOON_S)
        assert read.submission_id == held_id and await fakes.queued_count(ledger) == 1
        assert [event.sequence for event in await ledger.events(held_id)] == [1, 2, 3]
        assert (await ledger.lease("w1", ttl_s=60)).submission.submission_id == submission_id


async def test_a_database_that_is_not_there_is_named_when_a_server_starts(tmp_path):
    """Without the password, and with what libpq says."""
    url = f"postgresql://grader:{SECRET}@/ledger?host={tmp_path}"
    with pytest.raises(LedgerUnreachable, match=r"postgresql://grader@/ledger: .*is it running") as caught:
        async with opened(url, 0.1):
            pass
    assert SECRET not in str(caught.value)


async def test_the_time_is_the_databases(postgres, url):
    """A server whose clock is an hour behind gives and ends leases as the others do."""
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA hour_ahead")
        body = "SELECT pg_catalog.clock_timestamp() + interval '1 hour'"
        connection.execute(f"CREATE FUNCTION hour_ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ {body} $$")
        connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, hour_ahead, pg_catalog')
    try:
        async with Ledger.open(url) as ledger:
            submission = await ledger.get(await submit(ledger))
        assert timedelta(minutes=59) < submission.create_time - datetime.now(UTC) < timedelta(minutes=61)
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{name}" RESET search_path')
            connection.execute("DROP SCHEMA hour_ahead CASCADE")
    async with Ledger.open(url) as ledger:
        assert abs((await ledger.get(await submit(ledger))).create_time - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_password_is_never_shown(tmp_path):
    """Not by settings, by what is logged, nor by what is said of a wrong URL."""
    settings = Settings(database=WITH_PASSWORD, state_dir=tmp_path)
    assert SECRET not in repr(settings) and settings.ledger == WITH_PASSWORD
    assert shown_url(WITH_PASSWORD) == "postgresql://grader@db.example:5433/ledger"
    assert shown_url(f"postgresql:///ledger?password={SECRET}&host=/run") == "postgresql:///ledger"
    with pytest.raises(SettingsInvalid) as caught:
        shown_url(f"postgresql://grader:{SECRET}@db/ledger?no_such_word={SECRET}")
    assert SECRET not in str(caught.value)
    with pytest.raises(ValueError, match="write postgresql://USER@HOST/DATABASE") as refused:
        Settings(database=f"mysql://grader:{SECRET}@db/ledger")
    assert SECRET not in refused.value.errors(include_input=False)[0]["msg"]


async def test_an_error_of_the_database_quotes_no_source(url):
    """The values of a statement are not in its error, which is logged."""
    async with Ledger.open(url) as ledger:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER TABLE submissions RENAME COLUMN sources TO sources_was")
        try:
            with pytest.raises(Exception, match="sources") as caught:
                await submit(ledger)
        finally:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("ALTER TABLE submissions RENAME COLUMN sources_was TO sources")
    assert "grade: accept" not in str(caught.value)


async def test_a_user_who_may_make_no_tables_is_told_so(postgres):
    """As PostgreSQL is since version 15 for all but the database's owner."""
    postgres.administer("CREATE ROLE guest LOGIN")
    url = postgres.database(migrated=False).replace("grader@", "guest@")
    with pytest.raises(LedgerUnreachable, match=r"guest@.*permission denied for schema public.*make tables"):
        async with Ledger.open(url):
            pass
