"""Retention: what it removes and what it leaves alone, on both databases."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from grader.cli.submissions import show_command
from grader.extensions import NoCompetitions
from grader.ledger import Ledger
from grader.ledger.tables import rejudge_items, rejudges, submissions
from grader.model import Failure
from grader_extensions.operation import server_part
from grader_extensions.operation.retention import Retention
from tests import fakes
from tests.board_rows import filled, rows
from tests.vm_steps import vm_steps

MONTH = {"sources_days": 30, "events_days": 30}
START = datetime(2026, 1, 1, tzinfo=UTC)
FAILURE = Failure(reason="SANDBOX_BROKEN", message="no box")


class Cup(NoCompetitions):
    """A competition that ends at this time."""

    def __init__(self, end_time):
        self.end_time = end_time

    def ended(self, before):
        return ("cup",) if self.end_time < before else ()


async def remove_due(ledger, days, policy):
    return await Retention(ledger, policy, **days).remove_due()


async def submit(ledger, **fields):
    return (await ledger.submit(fakes.new_submission(**fields), fakes.problem())).submission_id


async def graded(ledger, *, spoiled=0, **fields):
    """A submission with its verdict, after so many attempts that we spoiled."""
    submission_id = await submit(ledger, **fields)
    for _ in range(spoiled):
        lease = await ledger.lease("w", ttl_s=30)
        await ledger.append(lease, [fakes.ENVIRONMENT, fakes.trial()])
        await ledger.release(lease, FAILURE)
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.append(lease, [fakes.ENVIRONMENT, fakes.trial(), fakes.measurement()])
    await ledger.settle(lease, fakes.report())
    return submission_id


async def has_sources(ledger, submission_id):
    submission = await ledger.get(submission_id)
    assert submission.sources_removed is not bool(submission.new.sources)
    return bool(submission.new.sources)


async def rejudged(ledger, state, chosen):
    """Put submissions into a rejudge."""

    def work(connection):
        values = {"rejudge_id": f"r-{state}", "user_name": "", "document": "{}", "state": state, "create_time": START}
        connection.execute(sa.insert(rejudges).values(values))
        columns = (sa.literal(f"r-{state}"), submissions.c.number, sa.literal(1), submissions.c.problem_digest)
        names = ("rejudge_id", "number", "judgement_count", "problem_digest")
        connection.execute(sa.insert(rejudge_items).from_select(names, sa.select(*columns).where(chosen)))

    await ledger.database.write(work)


async def test_sources_go_and_what_was_judged_stays(ledger, clock):
    """Report, judgements, score and the facts that they are drawn from are as they were."""
    submission_id = await graded(ledger)
    before = await ledger.get(submission_id), await ledger.judgements(submission_id), await ledger.events(submission_id)
    clock.now += timedelta(days=31)
    assert await remove_due(ledger, MONTH, NoCompetitions()) == Counter(sources=1)
    after = await ledger.get(submission_id)
    assert after.sources_removed and after == dataclasses.replace(
        before[0], new=dataclasses.replace(before[0].new, sources=()), sources_removed=True
    )
    assert (await ledger.judgements(submission_id), await ledger.events(submission_id)) == before[1:]


async def test_what_is_younger_or_not_final_is_kept(ledger, clock):
    """The time counts from the end; what waits and what runs has none."""
    old, running, waiting = await graded(ledger), await submit(ledger), await submit(ledger)
    assert (await ledger.lease("w", ttl_s=1e9)).submission.submission_id == running
    clock.now += timedelta(days=31)
    young = await submit(ledger)
    await ledger.cancel(young)
    assert await remove_due(ledger, MONTH, NoCompetitions()) == Counter(sources=1)
    assert [await has_sources(ledger, submission_id) for submission_id in (old, running, waiting, young)] == [False, True, True, True]


async def test_nothing_is_removed_where_nothing_is_asked_for(ledger, clock):
    submission_id = await graded(ledger, spoiled=1)
    clock.now += timedelta(days=10_000)
    assert await remove_due(ledger, {}, NoCompetitions()) == Counter()
    assert await has_sources(ledger, submission_id)


async def test_facts_of_attempts_that_do_not_count_go_alone(ledger, clock):
    """Of the spoiled attempts only the changes of state are left; a reader goes on over the gap."""
    submission_id = await graded(ledger, spoiled=2)
    before = await ledger.events(submission_id)
    clock.now += timedelta(days=31)
    assert await remove_due(ledger, {"events_days": 30}, NoCompetitions()) == Counter(events=1)
    after = await ledger.events(submission_id)
    assert after == [event for event in before if event.state or event.attempt == 3]
    assert await ledger.events(submission_id, after=after[2].sequence, limit=2) == after[3:5]
    assert await remove_due(ledger, {"events_days": 30}, NoCompetitions()) == Counter()
    assert await has_sources(ledger, submission_id)


class CountedDatabase:
    """Runs each transaction of a ledger, and counts its steps."""

    def __init__(self, ledger):
        self._ledger, self.steps = ledger, 0

    async def read(self, work):
        results = []
        self.steps += await vm_steps(self._ledger, lambda connection: results.append(work(connection)))
        return results[0]

    write = read


async def test_a_pass_takes_steps_by_the_number_of_submissions(tmp_path):
    """Neither an open rejudge of half of them, nor those that were cancelled and have no sources left, are read again for each batch."""
    steps, ended = [], {"end_time": START, "competition_id": "cup"}
    cancelled = {**ended, "state": "cancelled", "sources": "", "competition_id": ""}
    for count in (500, 2000):
        async with Ledger.open(tmp_path / f"{count}", now=lambda: START + timedelta(days=31)) as ledger:
            await filled(ledger, [row | (ended if index % 4 else cancelled) for index, row in enumerate(rows(count))])
            await rejudged(ledger, "ready", submissions.c.number % 2 == 0)
            counted = CountedDatabase(ledger)
            retention = Retention(SimpleNamespace(database=counted, now=ledger.now), Cup(START), sources_days=30)
            assert await retention.remove_due() == Counter(sources=count // 4)
            steps.append(counted.steps)
    assert steps[1] <= 4.2 * steps[0]


async def test_a_later_pass_begins_behind_what_is_finished(ledger, clock):
    """Sources that are put back there by hand stay; what became due since is removed."""
    old, retention = await graded(ledger), Retention(ledger, NoCompetitions(), **MONTH)
    clock.now += timedelta(days=20)
    young = await graded(ledger)
    clock.now += timedelta(days=15)
    assert await retention.remove_due() == Counter(sources=1)
    put_back = sa.update(submissions).where(submissions.c.submission_id == old).values(sources="[]")
    await ledger.database.write(lambda connection: connection.execute(put_back))
    clock.now += timedelta(days=20)
    assert await retention.remove_due() == Counter(sources=1)
    assert not (await ledger.get(old)).sources_removed and not await has_sources(ledger, young)


@pytest.mark.parametrize(("ends", "remains"), [(timedelta(days=90), True), (timedelta(days=40), True), (timedelta(days=5), False)])
async def test_a_competitions_sources_stay_as_long_after_its_end(ledger, clock, ends, remains):
    """While it runs, and for its final after that; those of no competition go meanwhile."""
    inside, outside = await graded(ledger, competition_id="cup"), await graded(ledger)
    clock.now += timedelta(days=60)
    await remove_due(ledger, MONTH, Cup(START + ends))
    assert (await has_sources(ledger, inside), await has_sources(ledger, outside)) == (remains, False)


async def test_a_competition_that_this_server_does_not_know_is_left_alone(ledger, clock):
    """Another server of the same ledger may run it."""
    submission_id = await graded(ledger, competition_id="cup")
    clock.now += timedelta(days=60)
    await remove_due(ledger, MONTH, NoCompetitions())
    assert await has_sources(ledger, submission_id)


@pytest.mark.parametrize(("state", "remains"), [("running", True), ("ready", True), ("applied", False), ("discarded", False)])
async def test_a_rejudge_that_is_not_applied_keeps_what_it_is_drawn_from(ledger, clock, state, remains):
    submission_id = await graded(ledger, spoiled=1)
    await rejudged(ledger, state, submissions.c.submission_id == submission_id)
    clock.now += timedelta(days=31)
    assert await remove_due(ledger, MONTH, NoCompetitions()) == (Counter() if remains else Counter(sources=1, events=1))


async def test_a_request_that_comes_again_finds_a_submission_whose_sources_are_gone(ledger, clock):
    """The digest of what was sent is kept: nobody pays twice for a retry."""
    submission = await ledger.submit(fakes.new_submission(), fakes.problem(), request_id="r1")
    await ledger.cancel(submission.submission_id)
    clock.now += timedelta(days=31)
    await remove_due(ledger, MONTH, NoCompetitions())
    again = await ledger.submit(fakes.new_submission(), fakes.problem(), request_id="r1")
    assert again.submission_id == submission.submission_id and again.sources_removed


async def test_a_server_removes_by_itself_what_is_due(ledger, clock):
    """Without being asked for, nothing runs at all."""
    submission_id = await graded(ledger)
    clock.now += timedelta(days=31)
    await asyncio.wait_for(Retention(ledger, NoCompetitions()).run(), 60)
    assert await has_sources(ledger, submission_id)
    async with asyncio.timeout(300):
        task = asyncio.create_task(Retention(ledger, NoCompetitions(), **MONTH).run(first_s=0))
        while await has_sources(ledger, submission_id):
            await asyncio.sleep(0.02)
    task.cancel()


async def test_a_submission_says_that_its_sources_are_kept_no_longer(serve, settings, kernel, finished, capsys):
    """Verdict and report are as they were."""
    async with serve() as client:
        submission = await finished(client, await client.submit(kernel("accept")))
        before = await client.get_submission(submission.name)
        assert before.sources and not before.sources_removed
        async with Ledger.open(settings.ledger, now=lambda: datetime.now(UTC) + timedelta(days=2)) as ledger:
            assert await remove_due(ledger, {"sources_days": 1}, NoCompetitions()) == Counter(sources=1)
        after = await client.get_submission(submission.name)
        await show_command(submission.name, server=client.address)
    assert "its sources are kept no longer" in capsys.readouterr().out
    assert after.sources_removed and not after.sources and after.report == before.report


async def test_a_server_removes_what_its_settings_say(serve, monkeypatch):
    """The part is made of both settings, and its task is started."""
    calls, started = [], asyncio.Event()

    class RecordedRetention(Retention):
        def __init__(self, ledger, policy, **days):
            calls.append(days)
            super().__init__(ledger, policy, **days)

        async def run(self):
            started.set()

    monkeypatch.setattr(server_part, "Retention", RecordedRetention)
    async with serve(retain_sources_days=3, retain_events_days=4), asyncio.timeout(60):
        await started.wait()
    assert calls == [{"sources_days": 3, "events_days": 4}]
