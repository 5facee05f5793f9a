"""Statements that are run past SQLAlchemy write, answer and fail as with it."""

import os
import signal
from datetime import UTC, datetime

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError, PendingRollbackError

from grader.ledger import postgres, sqlite
from grader.ledger.statements import FIRST_USE, USE, USED, Prepared
from grader.ledger.tables import LongText, UtcTime, metadata, problems

SECRET = "a text with a secret"


@pytest.fixture(params=["sqlite", "postgresql"])
def connection(request, tmp_path):
    if request.param == "sqlite":
        opened = sqlite.engine(tmp_path / "l", "BEGIN IMMEDIATE")
    else:
        opened = postgres.engine(request.getfixturevalue("url"))
    with opened.begin() as connection:
        metadata.create_all(connection)
        yield connection
    opened.dispose()


def rows(*digests):
    create_time = datetime(2026, 11, 29, 17, tzinfo=UTC)
    return [{"digest": digest, "problem_id": "p", "document": SECRET, "create_time": create_time} for digest in digests]


def test_rows_are_written_as_sqlalchemy_writes_them(connection):
    """A single row and several, with times converted."""
    insert = Prepared(sa.insert(problems))
    insert.run(connection, *rows("a"))
    insert.run(connection, *rows("b", "c"))
    connection.execute(sa.insert(problems), rows("d"))
    written = connection.execute(sa.select(problems).order_by(problems.c.digest)).mappings().all()
    assert [dict(row) for row in written] == rows("a", "b", "c", "d")


def test_rows_are_read_as_sqlalchemy_reads_them(connection):
    """By name and by place, with times converted and texts unpacked."""
    notes = sa.Table(
        "notes",
        sa.MetaData(),
        *(sa.Column(name, kind) for name, kind in {"time": UtcTime, "text": LongText, "seen": sa.Boolean}.items()),
        prefixes=["TEMPORARY"],
    )
    notes.create(connection)
    time = datetime(2026, 11, 29, 17, tzinfo=UTC)
    Prepared(sa.insert(notes)).run(connection, *({"time": time, "text": SECRET * count, "seen": count > 1} for count in (1, 99)))
    query = sa.select(notes).order_by(notes.c.seen)
    read = Prepared(query).run(connection)
    assert read == connection.execute(query).all() == [(time, SECRET, False), (time, SECRET * 99, True)]
    assert read[1].text == read[1]._mapping["text"] == SECRET * 99


@pytest.mark.parametrize("choices", [("",), ("", "emulated", "x'y")])
def test_a_list_in_a_statement_finds_its_members(connection, choices):
    """A list has as many parameters as members."""
    Prepared(sa.insert(problems)).run(connection, *rows("emulated", "other", "x'y"))
    query = sa.select(problems.c.digest).where(problems.c.digest.in_([sa.literal(choice) for choice in choices]))
    assert {row.digest for row in Prepared(query).run(connection)} == {"emulated", "x'y"} & set(choices)


def test_parameters_are_those_of_each_call(connection):
    """Parameters in the statement itself stay, and a name that is missing is an error, not NULL."""
    for user, weight in (("u", 1.0), ("v", 2.0)):
        FIRST_USE.run(connection, {"user_name": user, "log2_weight": weight})
    USE.run(connection, {"by_user": "v", "log2_weight": 3.0})
    assert [USED.run(connection, {"by_user": user}) for user in ("u", "v", "w")] == [[(1.0,)], [(3.0,)], []]
    with pytest.raises(DBAPIError):
        USED.run(connection, {"by_users": "u"})


def test_an_error_is_sqlalchemys_and_quotes_no_parameter(connection):
    """The ledger tells errors apart by these, and sources are among the parameters."""
    insert = Prepared(sa.insert(problems))
    insert.run(connection, *rows("a"))
    with pytest.raises(IntegrityError) as raised:
        insert.run(connection, *rows("a"))
    assert SECRET not in str(raised.value)


def test_a_connection_that_ended_is_said_to_have(url):
    """Its transaction is lost with it; the next caller gets a new one, also where idle ones ended at the same time."""
    opened = postgres.engine(url)
    with opened.connect() as idle, opened.connect() as ended, psycopg.connect(url, autocommit=True) as administrator:
        USED.run(idle, {"by_user": "u"})
        idle.close()
        ended.begin()
        FIRST_USE.run(ended, {"user_name": "u", "log2_weight": 1.0})
        administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grader-server'")
        with pytest.raises(DBAPIError) as raised:
            USED.run(ended, {"by_user": "u"})
        assert raised.value.connection_invalidated
        with pytest.raises(PendingRollbackError):
            FIRST_USE.run(ended, {"user_name": "v", "log2_weight": 1.0})
    with opened.connect() as connection:
        assert USED.run(connection, {"by_user": "u"}) == USED.run(connection, {"by_user": "v"}) == []
    opened.dispose()


@pytest.mark.parametrize("end", [lambda driver: os.kill(driver.info.backend_pid, signal.SIGTERM), lambda driver: driver.close()])
def test_a_connection_that_ended_leaves_none_behind(url, end):
    """Those that were lent meanwhile work on, and are closed before they are lent again: a server has no more than its pool holds."""
    opened = postgres.engine(url, pool_size=2)
    with opened.connect() as ended, opened.connect() as lent:
        drivers = [connection.connection.driver_connection for connection in (ended, lent)]
        end(drivers[0])
        with pytest.raises(DBAPIError) as raised:
            USED.run(ended, {"by_user": "u"})
        assert raised.value.connection_invalidated
        assert USED.run(lent, {"by_user": "u"}) == []
    with opened.connect() as first, opened.connect() as second:
        assert USED.run(first, {"by_user": "u"}) == USED.run(second, {"by_user": "u"}) == []
        assert all(driver.closed for driver in drivers)
    opened.dispose()
