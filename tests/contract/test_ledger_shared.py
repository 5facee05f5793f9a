"""Promises of the ledger where several use it at once: two ledgers on one database, as two servers have."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from grader.errors import AlreadyFinished, LeaseLost, QueueFull, SubmissionNotFound
from grader.ledger import Ledger, sqlite, transactions
from grader.ledger.changes import NewsKind
from grader.ledger.postgres import LISTENER, WRITE_ALONE, engine
from grader.ledger.statements import QUEUED_COUNT
from grader.ledger.tables import submissions
from grader.model import Failure, Submission, SubmissionState
from grader.rules.quotas import AdmissionPolicy
from tests import fakes
from tests.postgres import rows

FAILURE = Failure(reason="SANDBOX_BROKEN", message="no box")
SOON_S = 300


@pytest.fixture
async def pair(location):
    """Two ledgers on one database."""
    async with Ledger.open(location) as first, Ledger.open(location) as second:
        yield first, second


@pytest.fixture
async def two_servers(url):
    """Two ledgers on one PostgreSQL."""
    async with Ledger.open(url) as first, Ledger.open(url) as second:
        yield first, second


async def submit(ledger, count=1, **options):
    entries = await asyncio.gather(*(ledger.submit(fakes.new_submission(), fakes.problem(), **options) for _ in range(count)))
    return [submission.submission_id for submission in entries]


async def outcomes(*calls):
    return await asyncio.gather(*calls, return_exceptions=True)


async def whole(ledger, submission_ids):
    """Every one of them has events that count from 1 without gaps."""
    for submission_id in submission_ids:
        events = await ledger.events(submission_id)
        assert [event.sequence for event in events] == list(range(1, len(events) + 1))


@pytest.mark.slow
async def test_two_hundred_submissions_are_leased_once_each(pair):
    """Eight workers on two ledgers, none told what the others take, and all of it is settled."""
    submission_ids = await submit(pair[0], 100) + await submit(pair[1], 100)
    leased_ids = []

    async def work(ledger, worker_id):
        while (lease := await ledger.lease(worker_id, ttl_s=60)) is not None:
            leased_ids.append(lease.submission.submission_id)
            await ledger.append(lease, [fakes.ENVIRONMENT, fakes.trial()])
            await ledger.settle(lease, fakes.report())

    await asyncio.gather(*(work(pair[index % 2], f"w{index}") for index in range(8)))
    assert Counter(leased_ids) == Counter(submission_ids)
    await whole(pair[0], submission_ids[::10])


async def test_a_lease_passes_over_what_another_transaction_holds(url):
    """Servers that lease at the same moment get different submissions, and none waits: not for another lease, nor for a submission."""
    async with Ledger.open(url) as ledger:
        submission_ids = await submit(ledger, 3)
        opened = engine(url)
        with opened.connect() as first, opened.connect() as second:
            first.exec_driver_sql(WRITE_ALONE)
            until = datetime(2999, 1, 1, tzinfo=UTC)
            leases = [transactions.lease(connection, datetime.now(UTC), "w", until, ("",)) for connection in (first, second)]
            leases.append(await ledger.lease("w", ttl_s=60))
            first.commit()
            second.rollback()
        opened.dispose()
        assert [lease.submission.submission_id for lease in leases] == await in_order(ledger, submission_ids)
        again = await ledger.lease("w", ttl_s=60)
        assert again.submission.submission_id == leases[1].submission.submission_id
        assert await ledger.lease("w", ttl_s=60) is None


async def in_order(ledger, submission_ids):
    """As they were taken in, which is not always as they were sent."""
    newest_first = [submission.submission_id for submission in (await ledger.page(size=100))[0]]
    return [submission_id for submission_id in newest_first[::-1] if submission_id in submission_ids]


async def test_one_request_at_two_servers_makes_one_submission(pair):
    """A client that was cut off asks the other server, while the first still writes."""
    batches = await asyncio.gather(*(submit(pair[index % 2], request_id="r1") for index in range(12)))
    assert len({submission_id for (submission_id,) in batches}) == 1 and await fakes.queued_count(pair[0]) == 1


async def test_the_queue_limit_holds_for_all_servers_together(pair):
    """Thirty at once, five places: five are taken, and the others are refused."""
    answers = await outcomes(*(submit(pair[index % 2], queue_limit=5) for index in range(30)))
    assert Counter(type(answer) for answer in answers) == {list: 5, QueueFull: 25}
    assert await fakes.queued_count(pair[0]) == 5


def test_without_the_lock_the_queue_limit_would_not_hold(url):
    """Control: two transactions that count before either commits take one place twice; with the lock the second one waits."""

    def take(connection, name):
        transactions.submit(connection, datetime.now(UTC), name, fakes.new_submission(), fakes.problem(), "", 2, AdmissionPolicy())

    database = engine(url)
    with database.begin() as connection:
        take(connection, "before")
    with database.connect() as first, database.connect() as second:
        take(first, "a")
        take(second, "b")
        first.commit()
        second.commit()
        assert QUEUED_COUNT.run(first)[0][0] == 3
        first.rollback()
        first.exec_driver_sql(WRITE_ALONE)
        second.execute(sa.text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            second.exec_driver_sql(WRITE_ALONE)
    database.dispose()


async def test_a_reaper_and_a_heartbeat_never_both_win(pair):
    """A lease that was kept alive is not taken away, and one that was taken away is not kept alive."""
    submission_ids = await submit(pair[0], 20)
    leases = [await pair[0].lease("w1", ttl_s=-1) for _ in submission_ids]
    beats = [pair[0].heartbeat(lease, ttl_s=60) for lease in leases]
    answers = await outcomes(*beats[:10], pair[1].expire(), *beats[10:])
    ended = answers.pop(10)
    lost = {lease.submission.submission_id for lease, answer in zip(leases, answers, strict=True) if isinstance(answer, LeaseLost)}
    assert lost == {submission.submission_id for submission in ended}
    assert {type(answer) for answer in answers} <= {bool, LeaseLost}
    assert await pair[0].expire() == []


async def test_a_reaper_leaves_alone_whose_row_is_being_written(url):
    """A heartbeat that is under way counts, although nobody can see it yet; without it the lease is taken."""
    async with Ledger.open(url) as ledger:
        await submit(ledger)
        lease = await ledger.lease("w1", ttl_s=-1)
        database = engine(url)
        with database.begin() as beating:
            transactions.heartbeat(beating, lease, lease.submission.create_time.replace(year=2999))
            assert await ledger.expire() == []
        assert await ledger.expire() == []
        database.dispose()
        await ledger.heartbeat(lease, ttl_s=-1)
        assert len(await ledger.expire()) == 1


async def test_a_verdict_and_a_reaper_never_both_win(pair):
    """A settled verdict stays settled, an expired lease is graded again, and no event is lost or doubled."""
    submission_ids = await submit(pair[0], 20)
    leases = [await pair[0].lease("w1", ttl_s=-1) for _ in submission_ids]
    verdicts = [pair[0].settle(entry, fakes.report()) for entry in leases]
    *settled, _, _ = await outcomes(*verdicts, pair[1].expire(), pair[1].expire())
    states = {submission.submission_id: submission.state for submission in (await pair[0].page(size=100))[0]}
    for lease, answer in zip(leases, settled, strict=True):
        wanted = SubmissionState.QUEUED if isinstance(answer, LeaseLost) else SubmissionState.SUCCEEDED
        assert states[lease.submission.submission_id] is wanted
    await whole(pair[0], submission_ids)


async def test_a_cancellation_and_a_lease_never_miss_each_other(pair):
    """A cancel that answers RUNNING reaches the worker; one that answers CANCELLED is of a submission that was never leased."""
    submission_ids = await submit(pair[0], 20)
    leases = [pair[1].lease("w1", ttl_s=60) for _ in submission_ids]
    answers = await outcomes(*(call for both in zip(map(pair[0].cancel, submission_ids), leases, strict=True) for call in both))
    by_id = {lease.submission.submission_id: lease for lease in answers[1::2] if lease is not None}
    for submission_id, answer in zip(submission_ids, answers[::2], strict=True):
        assert (answer.state is SubmissionState.RUNNING) == (submission_id in by_id)
        if submission_id in by_id:
            assert await pair[1].heartbeat(by_id[submission_id], ttl_s=60) is True


async def test_a_cancellation_and_a_verdict_never_both_win(pair):
    """A cancellation is refused only because there is a verdict."""
    submission_ids = await submit(pair[0], 20)
    leases = [await pair[0].lease("w1", ttl_s=60) for _ in submission_ids]
    calls = [call for lease in leases for call in (pair[1].cancel(lease.submission.submission_id), pair[0].settle(lease, fakes.report()))]
    answers = await outcomes(*calls)
    assert {type(answer) for answer in answers[::2]} <= {Submission, AlreadyFinished}
    assert {submission.state for submission in (await pair[0].page(size=100))[0]} == {SubmissionState.SUCCEEDED}


async def test_facts_that_are_written_at_once_are_counted_without_gaps(pair):
    """The counter is the row's, and whoever holds the row counts."""
    (submission_id,) = await submit(pair[0])
    lease = await pair[0].lease("w1", ttl_s=60)
    await asyncio.gather(*(pair[index % 2].append(lease, [fakes.trial(), fakes.trial()]) for index in range(20)))
    assert [event.sequence for event in await pair[0].events(submission_id)] == list(range(1, 43))


async def test_a_starting_server_takes_only_its_own_leases(pair):
    """The other server's runs go on; only the ids of one's own workers begin so."""
    mine, _ = await submit(pair[0], 2)
    await pair[0].lease("here-1", ttl_s=60)
    lease = await pair[1].lease("there-1", ttl_s=60)
    assert [submission.submission_id for submission in await pair[0].reclaim_all("here-")] == [mine]
    await pair[1].settle(lease, fakes.report())


async def test_a_watcher_at_another_server_is_woken(two_servers):
    """By every write, and a server does not hear itself."""
    writer, reader = two_servers
    own_news = []
    (submission_id,) = await submit(writer)
    with reader.changes.of(submission_id) as changed, writer.changes.elsewhere(own_news.append):
        reader.changes.follow([submission_id])
        lease = await writer.lease("w1", ttl_s=60)
        for write in (None, writer.append(lease, [fakes.trial()]), writer.release(lease, FAILURE, counted=False)):
            if write is not None:
                await write
            await asyncio.wait_for(changed.wait(), SOON_S)
            changed.clear()
    assert [news for news in own_news if news.kind is not NewsKind.MISSED] == []


async def test_other_servers_hear_only_of_what_they_follow(two_servers):
    """And of what waits only where its server does not take it. Of what changed before it was known who follows, one hears then."""
    writer, reader = two_servers
    heard = asyncio.Queue()
    writer.changes.takes = lambda device_kind: True
    with reader.changes.elsewhere(heard.put_nowait):
        quiet, followed = await submit(writer, 2)
        for lease in await writer.lease_some("w1", 2, ttl_s=60):
            await writer.append(lease, [fakes.trial()])
            await writer.settle(lease, fakes.report())
        reader.changes.follow([followed])
        while (news := await asyncio.wait_for(heard.get(), SOON_S)).kind is NewsKind.MISSED:
            pass
        assert (news.kind, news.submission_id) == (NewsKind.CHANGED, followed) and quiet != followed
        writer.changes.takes = lambda device_kind: False
        (waiting,) = await submit(writer)
        assert (await asyncio.wait_for(heard.get(), SOON_S)).submission_id == waiting and heard.empty()


async def test_a_change_that_began_before_one_followed_is_told_after_its_commit(two_servers):
    """Its transaction told nobody, for nobody followed; the reader may have looked before the commit."""
    writer, reader = two_servers
    (submission_id,) = await submit(writer)
    writer.changes.receive(f"another {NewsKind.FOLLOWED} {submission_id}")
    with reader.changes.of(submission_id) as changed:
        await asyncio.wait_for(changed.wait(), SOON_S)  # what had changed by then
        changed.clear()
        writer.changes.notify(submission_id)  # as after a commit
        await asyncio.wait_for(changed.wait(), SOON_S)


async def test_a_server_that_missed_news_keeps_nothing_to_itself(two_servers):
    """Others may have said what they follow meanwhile: they look again, and hear of all that was made before."""
    writer, reader = two_servers
    heard = asyncio.Queue()
    (submission_id,) = await submit(writer)
    with reader.changes.elsewhere(heard.put_nowait):
        writer.changes.miss()
        while (await asyncio.wait_for(heard.get(), SOON_S)).kind is not NewsKind.MISSED:
            pass
        await writer.lease("w1", ttl_s=60)
        while (news := await asyncio.wait_for(heard.get(), SOON_S)).kind is not NewsKind.CHANGED:
            pass
    assert news.submission_id == submission_id


async def test_listening_goes_on_after_its_connection_was_cut(url):
    """Everybody learns that something may have been missed, and then hears again."""
    heard = asyncio.Queue()
    async with Ledger.open(url) as writer, Ledger.open(url) as reader:
        with reader.changes.elsewhere(heard.put_nowait):
            rows(url, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{LISTENER}'")
            assert (await asyncio.wait_for(heard.get(), SOON_S)).kind is NewsKind.MISSED
            (submission_id,) = await submit(writer)
            while (news := await asyncio.wait_for(heard.get(), SOON_S)).kind is NewsKind.MISSED:  # the writer's was cut, too
                pass
    assert (news.kind, news.submission_id) == (NewsKind.QUEUED, submission_id)


async def test_no_text_of_a_kernel_can_keep_a_verdict_from_being_written(location):
    """PostgreSQL refuses NUL, UTF-8 has no half of a surrogate pair, and a column has a width."""
    async with Ledger.open(location) as ledger:
        (submission_id,) = await submit(ledger)
        lease = await ledger.lease("w1", ttl_s=60)
        await ledger.append(lease, [replace(fakes.trial(), message="a\0b\udc80")])
        report = replace(fakes.report(), summary="a\0b\udc80c", reason="R" * 100, output="x\0\udc80", flags=("F" * 300, "G" * 300))
        await ledger.settle(lease, report)
        settled = await ledger.get(submission_id)
    assert settled.report == report
    (listed,) = rows_of(location, sa.select(submissions.c.summary, submissions.c.reason))
    assert tuple(listed) == ("a\N{REPLACEMENT CHARACTER}b?c", "R" * 64)


async def test_what_no_column_can_hold_is_not_found(location):
    """A name with NUL, and a number that is too large, are nobody's: no error of ours."""
    async with Ledger.open(location) as ledger:
        (submission_id,) = await submit(ledger)
        for wrong in ("a\0b", "x" * 10_000):
            with pytest.raises(SubmissionNotFound):
                await ledger.get(wrong)
        assert await ledger.events(submission_id, after=2**62) == []
        assert len((await ledger.page(size=5, before=2**62))[0]) == 1


def rows_of(location, query):
    database = sqlite.engine(location, "BEGIN") if isinstance(location, Path) else engine(location)
    with database.begin() as connection:
        answer = connection.execute(query).all()
    database.dispose()
    return answer
