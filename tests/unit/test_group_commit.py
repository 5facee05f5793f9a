"""Transactions that wait together are committed together, and fail one by one."""

import asyncio
import threading

import pytest
import sqlalchemy as sa

from grader.ledger.group_commit import GroupCommit

TABLE = sa.Table("numbers", sa.MetaData(), sa.Column("number", sa.Integer, primary_key=True))


@pytest.fixture
def engine(tmp_path):
    database = sa.create_engine(f"sqlite:///{tmp_path / 'numbers'}", connect_args={"check_same_thread": False})
    sa.event.listen(database, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    sa.event.listen(database, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    TABLE.metadata.create_all(database)
    return database


@pytest.fixture
def commits(engine):
    counted = []
    sa.event.listen(engine, "commit", counted.append)
    return counted


@pytest.fixture
def writer(engine):
    group_commit = GroupCommit(engine, "write")
    yield group_commit
    group_commit.close()


def insert(number):
    return lambda connection: connection.execute(sa.insert(TABLE).values(number=number)).rowcount


def hold_writer(writer):
    """Hold the writer until the answer is called."""
    begun, go = threading.Event(), threading.Event()

    def hold(_):
        begun.set()
        go.wait()

    blocker = writer.submit(hold)
    blocker.add_done_callback(lambda future: future.exception())  # looked at: logging it later may happen inside another test
    assert begun.wait(60)
    return go.set


def numbers(engine):
    with engine.connect() as connection:
        return list(connection.execute(sa.select(TABLE.c.number).order_by(TABLE.c.number)).scalars())


async def test_what_waits_together_is_one_commit(writer, engine, commits):
    """A commit is counted once, however many wait for it; waiting for work is not being busy."""
    release = hold_writer(writer)
    futures = [writer.submit(insert(number)) for number in range(20)]
    release()
    assert await asyncio.gather(*futures) == [1] * 20
    assert len(commits) == 2 and numbers(engine) == list(range(20))
    await writer.submit(insert(20))
    writer.close()  # it is counted a moment after the answer
    assert writer.totals.commit_count == 3 and writer.totals.transaction_count == 22 and 0 < writer.totals.busy_s < 60


async def test_one_that_raises_leaves_the_others(writer, engine):

    def broken(connection):
        insert(7)(connection)
        raise KeyError("broken")

    release = hold_writer(writer)
    first, second, third, fourth = (writer.submit(work) for work in (insert(1), broken, insert(2), insert(1)))
    release()
    assert await first == await third == 1
    with pytest.raises(KeyError):
        await second
    with pytest.raises(sa.exc.IntegrityError):
        await fourth
    assert numbers(engine) == [1, 2]


async def test_where_the_commit_fails_all_are_told(writer, engine):

    def full(_):
        raise OSError("the disk is full")

    release = hold_writer(writer)
    futures = [writer.submit(insert(number)) for number in range(3)]
    sa.event.listen(engine, "commit", full)
    release()
    assert [type(error) for error in await asyncio.gather(*futures, return_exceptions=True)] == [OSError] * 3
    sa.event.remove(engine, "commit", full)
    assert numbers(engine) == [] and await writer.submit(insert(3)) == 1


async def test_a_commit_whose_answer_was_lost_is_not_tried_again(writer, engine, monkeypatch):
    """A transaction that is on disk, maybe, would be there twice."""
    runs, commit = list[int](), engine.dialect.do_commit

    def lose(connection):
        commit(connection)
        raise OSError("the connection is lost")

    def append(connection):
        runs.append(insert(len(runs))(connection))

    release = hold_writer(writer)
    futures = [writer.submit(append) for _ in range(3)]
    monkeypatch.setattr(engine.dialect, "do_commit", lose)
    release()
    assert [type(error) for error in await asyncio.gather(*futures, return_exceptions=True)] == [OSError] * 3
    assert numbers(engine) == [0, 1, 2] and runs == [1] * 3


async def test_what_is_cancelled_while_it_waits_is_not_done(writer, engine):
    release = hold_writer(writer)
    future = writer.submit(insert(1))
    assert future.cancel()
    release()
    await writer.submit(insert(2))
    with pytest.raises(asyncio.CancelledError):
        await future
    assert numbers(engine) == [2]


async def test_closing_waits_for_all(engine):
    writer = GroupCommit(engine, "write")
    futures = [writer.submit(insert(number)) for number in range(5)]
    writer.close()
    assert numbers(engine) == list(range(5)) and await asyncio.gather(*futures) == [1] * 5
    with pytest.raises(RuntimeError):
        writer.submit(insert(6))
