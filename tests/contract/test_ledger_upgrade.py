"""A database that an older grader wrote is upgraded with all that is in it; one of a newer grader is left alone."""

import asyncio
import hashlib
import json
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from grader.api import messages
from grader.errors import LedgerInUse, LedgerNewer, SettingsInvalid
from grader.ledger import Ledger, migrate, records, sqlite
from grader.ledger.database import EARLIER_NAME, connected_servers, connection_name
from grader.ledger.postgres import WRITE_ALONE
from grader.ledger.postgres import engine as postgres_engine
from grader.ledger.tables import LongText, competition_actions, metadata
from grader.model import Verdict
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from sandbox.protocol import wire
from tests import fakes

# Rows as the code of version 0001 wrote them, dumped from its SQLite file.
FIRST_VERSION = json.loads((Path(__file__).parents[1] / "fixtures" / "ledger_0001.json").read_text())
STATES = {row["submission_id"]: row["state"] for row in FIRST_VERSION["submissions"]}
RETIRED = frozenset().union(*wire.RETIRED.values()) - {"flops"}  # a Measurement has them
GRADED = next(row for row in FIRST_VERSION["submissions"] if row["submission_id"] == "graded")


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path):
    """Where there is a database without tables."""
    return tmp_path / "l" if request.param == "sqlite" else request.getfixturevalue("postgres").database(migrated=False)


@pytest.fixture
def opened(empty):
    """An engine on it."""
    database = sqlite.engine(empty, "BEGIN IMMEDIATE") if not isinstance(empty, str) else postgres_engine(empty)
    yield database
    database.dispose()


def set_version(connection, version):
    connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{version}'"))


def write_first_version(connection):
    """Today's tables without all that came later, and rows by raw SQL."""
    migrate.migrate(connection)
    set_version(connection, "0001")
    for table in reversed(metadata.sorted_tables):
        if (rows := FIRST_VERSION.get(table.name)) is None:
            table.drop(connection)
            continue
        for index in table.indexes:
            index.drop(connection)
        for name in table.c.keys() - rows[0].keys():
            connection.execute(sa.text(f"ALTER TABLE {table.name} DROP COLUMN {name}"))
        for name in rows[0].keys() - table.c.keys():
            connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {name} TEXT"))
    for table, rows in FIRST_VERSION.items():
        types = {column["name"]: column["type"] for column in sa.inspect(connection).get_columns(table)}
        for row in rows:
            values = {name: written(types[name], value) for name, value in row.items()}
            marks = ", ".join(f":{name}" for name in values)
            connection.execute(sa.text(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"), values)
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT setval('submissions_number_seq', (SELECT max(number) FROM submissions))"))


def shape(connection):
    """Columns, keys and indexes of all tables, in any order."""
    inspector = sa.inspect(connection)
    looks = (inspector.get_columns, inspector.get_foreign_keys, inspector.get_unique_constraints, inspector.get_indexes)
    parts = (f"{table}: {part}" for table in inspector.get_table_names() for look in looks for part in look(table))
    return {re.sub(r" object at 0x\w+", "", part) for part in parts}


def written(kind, value):
    return bool(value) if isinstance(kind, sa.Boolean) else value


def contains(now, before):
    """All that was there before is there now, and is the same, but for what no fact has any more; new fields may be next to it."""
    if isinstance(before, dict):
        return all(contains(now[name], value) for name, value in before.items() if name not in RETIRED)
    if isinstance(before, list):
        return len(now) == len(before) and all(map(contains, now, before))
    return now == before


@pytest.fixture
async def upgraded(empty, opened):
    with opened.begin() as connection:
        write_first_version(connection)
    async with Ledger.open(empty) as ledger:
        yield ledger


async def test_submissions_of_the_first_version_are_all_there(upgraded):
    """In their states, with sources, problem and times, and as the API shows them."""
    for row in FIRST_VERSION["submissions"]:
        submission = await upgraded.get(row["submission_id"])
        shown = messages.submission_to_proto(submission, Redactor.for_problem(await upgraded.problem(submission.problem_digest)), full=True)
        assert submission_pb2.SubmissionState.Name(shown.state) == f"SUBMISSION_STATE_{row['state'].upper()}"
        assert [{"path": source.path, "content": source.content} for source in shown.sources] == json.loads(row["sources"])
        assert submission.create_time == datetime.fromisoformat(row["create_time"]).replace(tzinfo=UTC)
        assert (submission.attempt_count, submission.new.user, submission.new.competition_id) == (row["attempt"], "", "")
    assert [entry.submission_id for entry in (await upgraded.page(size=9))[0]] == list(STATES)[::-1]
    assert (await upgraded.get("broken")).failure.reason == "ATTEMPTS_EXHAUSTED"
    (row,) = FIRST_VERSION["problems"]  # what they were judged by is what they will be judged by again
    assert contains(json.loads(records.to_text(await upgraded.problem(row["digest"]))), json.loads(row["document"]))


async def test_a_report_and_events_of_the_first_version_read_as_before(upgraded):
    """Infinite errors and samples too, and it counts as one judgement; facts and states in order, as a watch sends them."""
    submission, before = await upgraded.get("graded"), json.loads(GRADED["report"])
    assert contains(json.loads(records.to_text(submission.report)), before) and before["trials"][0]["max_absolute_error"] == float("inf")
    mask = Redactor.for_problem(await upgraded.problem(submission.problem_digest))
    shown = messages.submission_to_proto(submission, mask, full=True)
    assert shown.report.verdict == report_pb2.VERDICT_ACCEPTED and len(shown.report.measurements) == 2
    (judgement,) = await upgraded.judgements("graded")
    assert (judgement.sequence, judgement.verdict, judgement.summary) == (1, Verdict.ACCEPTED, GRADED["summary"])
    assert await upgraded.judgements("waiting") == []
    events = await upgraded.events("graded")
    rows = [row for row in FIRST_VERSION["events"] if row["number"] == GRADED["number"]]
    assert [event.state and event.state.value for event in events] == [row["state"] for row in rows]
    stored = [(event.fact, json.loads(row["fact"])) for event, row in zip(events, rows, strict=True) if event.fact]
    assert all(contains(json.loads(wire.encode(fact)), data) for fact, data in stored)
    shown = [messages.event_to_proto(event, submission, mask) for event in events]
    assert shown[-1].submission.report.verdict == report_pb2.VERDICT_ACCEPTED and shown[-1].sequence == GRADED["event_count"]


def test_compressed_texts_of_earlier_versions_stay_readable():
    """Those of version 0016 were compressed with words that must never change. SQLite keeps a long text so; what is short, and what
    PostgreSQL compresses itself, is kept as it is."""
    kind, sqlite_dialect = LongText(), sa.create_engine("sqlite://").dialect
    stored = bytes.fromhex("783fcdceca692310da796626408d740cf35a0070952fe3")
    text = kind.process_result_value(stored, sqlite_dialect)
    fields = {"hidden": False, "key": "", "element_count": 0, "mismatched_count": 0}
    fact = {"type": "Trial", "workload_id": "n64", "phase": "verify", "index": 0, "outcome": "passed", **fields}
    assert json.loads(text) == fact
    assert len(kind.process_bind_param(text, sqlite_dialect)) < len(text) / 4
    assert kind.process_bind_param("{}", sqlite_dialect) == "{}" and kind.process_result_value("{}", sqlite_dialect) == "{}"
    assert kind.process_bind_param(text, postgres_engine("postgresql://nowhere/x").dialect) == text


async def test_what_waited_in_the_first_version_is_graded(upgraded):
    """The queue goes on, a request that is sent again finds its submission, and new ones get new numbers."""
    assert [expired.submission_id for expired in await upgraded.expire()] == ["taken"]
    again = await upgraded.submit(fakes.new_submission(), fakes.problem(), request_id="r-waiting")
    assert again.submission_id == "waiting"
    submission = await upgraded.submit(fakes.new_submission(), fakes.problem())
    leases = [await upgraded.lease("w2", ttl_s=60) for _ in range(3)]
    assert {lease.submission.submission_id for lease in leases} == {"waiting", "taken", submission.submission_id}
    await upgraded.settle(leases[0], fakes.report())
    assert [judgement.sequence for judgement in await upgraded.judgements(leases[0].submission.submission_id)] == [1]


def test_an_upgrade_makes_the_tables_that_a_new_ledger_has(opened):
    with opened.begin() as connection:
        migrate.migrate(connection)
        newest = shape(connection)
        write_first_version(connection)
        assert not shape(connection) >= newest
        migrate.migrate(connection)
        assert shape(connection) == newest and migrate.current(connection) == migrate.HEAD


def test_nobody_changes_a_table_without_a_new_version():
    """If it fails: add a version to `migrate.VERSIONS`, a step to `_STEPS` where it is more than an addition, and its digest here."""
    columns = [f"{column} {column.type!r} {column.nullable} {column.primary_key}" for table in metadata.sorted_tables for column in table.c]
    indexes = [f"{index.name} {index.columns.keys()}" for table in metadata.sorted_tables for index in table.indexes]
    digest = hashlib.sha256("\n".join(sorted(columns + indexes)).encode()).hexdigest()
    assert (migrate.HEAD, digest[:16]) == ("0018", "845b9e5f5bb152be")


async def test_a_ledger_of_a_newer_grader_is_refused_and_left_as_it_is(empty, opened):
    """By a text that says what to do."""
    with opened.begin() as connection:
        migrate.migrate(connection)
        set_version(connection, "9999")
    with pytest.raises(LedgerNewer, match=r"'9999'.*newer grader.*restore a backup"):
        async with Ledger.open(empty):
            pass
    with opened.begin() as connection:
        assert migrate.current(connection) == "9999"


@pytest.mark.parametrize("name", [EARLIER_NAME, connection_name("0.0.9", "gpu-1", "0.0.0.0:50551")])
async def test_a_ledger_that_older_servers_use_is_not_upgraded(postgres, name):
    """Its tables stay as they are, and the text names the servers and says what to do. Once they have ended, it is upgraded."""
    url = postgres.database(migrated=False)
    database = postgres_engine(url)
    with database.begin() as connection:
        write_first_version(connection)
    with psycopg.connect(url, application_name=name):
        with pytest.raises(LedgerInUse, match=r"'0001'.*upgrades it to '00\d\d'.*servers of the older version use it.*stop them") as raised:
            async with Ledger.open(url):
                pass
        (shown,) = raised.value.servers
        assert shown == ("a local socket (an earlier version)" if name == EARLIER_NAME else "gpu-1 0.0.0.0:50551 (0.0.9)")
        with database.begin() as connection:
            assert migrate.current(connection) == "0001"
    with database.connect() as watching:
        while connected_servers(watching):
            watching.rollback()
    async with Ledger.open(url):
        with database.begin() as connection:
            assert migrate.current(connection) == migrate.HEAD
            assert connected_servers(connection) == []  # whoever opened it is a command
    database.dispose()


async def test_rows_of_deleted_features_do_not_keep_a_ledger_from_opening(empty, opened):
    """Their tables go, with webhooks that waited; keys, submissions and what organisers did stay."""
    time = "'2026-01-01 00:00:00'"
    tables = (
        "hooks (hook_id VARCHAR(32) PRIMARY KEY, url TEXT)",
        "deliveries (hook_id VARCHAR(32) REFERENCES hooks, number INTEGER REFERENCES submissions, state VARCHAR(16))",
        "announcements (competition_id VARCHAR(64), text TEXT)",
    )
    rows = {
        "hooks": "'h', 'https://example.org'",
        "deliveries": f"'h', {GRADED['number']}, 'waiting'",
        "announcements": "'spring', 'Welcome'",
        "competition_actions (competition_id, action, user_name, subject, reason, create_time)": (
            f"'spring', 'announced', 'root', 'a', 'Welcome', {time}"
        ),
        "keys (key_id, secret_digest, user_name, scopes, note, create_time, registered_for)": (
            f"'k', 's', 'ann', 'read', '', {time}, 'spring'"
        ),
    }
    with opened.begin() as connection:
        write_first_version(connection)
        migrate.migrate(connection)
        set_version(connection, "0010")
        connection.execute(sa.text("ALTER TABLE submissions ADD COLUMN report TEXT"))
        connection.execute(sa.text("ALTER TABLE keys ADD COLUMN registered_for VARCHAR(64) DEFAULT '' NOT NULL"))
        for table in tables:
            connection.execute(sa.text(f"CREATE TABLE {table}"))
        for table, values in rows.items():
            connection.execute(sa.text(f"INSERT INTO {table} VALUES ({values})"))
    async with Ledger.open(empty) as ledger:
        assert (await ledger.get("graded")).report is not None
        assert [key.user for key in await ledger.keys.all()] == ["ann"]
        query = sa.select(competition_actions.c.action, competition_actions.c.reason)
        assert await ledger.database.read(lambda connection: connection.execute(query).all()) == [("announced", "Welcome")]
    with opened.begin() as connection:
        assert not {"hooks", "deliveries", "announcements"} & set(sa.inspect(connection).get_table_names())


async def test_servers_that_start_at_once_migrate_once(empty, opened):
    """Whoever comes second finds the tables made."""

    async def start():
        async with Ledger.open(empty) as ledger:
            return await fakes.queued_count(ledger)

    assert await asyncio.gather(*(start() for _ in range(4))) == [0] * 4
    with opened.begin() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM alembic_version")).scalar_one() == 1


def test_without_the_lock_the_second_migration_fails(postgres):
    """Control: two that see no tables both make them, and one is told that they are there; with the lock it waits and finds them."""
    url = postgres.database(migrated=False)
    database, failures, reached = postgres_engine(url), [], threading.Event()

    def second(lock):
        try:
            with database.begin() as connection:
                if lock:
                    connection.exec_driver_sql(WRITE_ALONE)
                migrate.current(connection)
                reached.set()
                migrate.migrate(connection)
        except sa.exc.DBAPIError as error:
            failures.append(error)

    with database.connect() as first:
        first.exec_driver_sql(WRITE_ALONE)
        migrate.migrate(first)
        unlocked, locked = (threading.Thread(target=second, args=(lock,)) for lock in (False, True))
        unlocked.start()
        assert reached.wait(300)
        locked.start()
        waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")
        with database.connect() as watching:
            while watching.execute(waiting).scalar_one() < 2:
                watching.rollback()
        first.commit()
    unlocked.join(300)
    locked.join(300)
    assert len(failures) == 1 and "already exists" in str(failures[0])
    database.dispose()


async def test_a_database_of_another_encoding_is_refused(postgres):
    """Before a source that it can't hold comes."""
    postgres.administer("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(SettingsInvalid, match=r"LATIN1.*--encoding=UTF8"):
        async with Ledger.open(postgres.url("latin")):
            pass
