"""Promises of the ledger, whatever database is under it."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
import sqlalchemy as sa

from grader.errors import AlreadyFinished, LeaseLost, QueueFull, QueueShareUsed, RequestIdReused
from grader.ledger import Ledger, transactions
from grader.ledger.queue import positions
from grader.ledger.tables import submissions
from grader.model import Failure, SubmissionState
from grader.rules.quotas import AdmissionPolicy
from sandbox.protocol import wire
from tests import fakes
from tests.clock import Clock, Seconds

FAILURE = Failure(reason="SANDBOX_BROKEN", message="no box")


async def submit(ledger, order="accept", **options):
    return await ledger.submit(fakes.new_submission(order), fakes.problem(), **options)


async def lease(ledger, worker="w1", **options):
    return await ledger.lease(worker, **{"ttl_s": 30, **options})


async def sequences(ledger, submission_id):
    return [event.sequence for event in await ledger.events(submission_id)]


async def states(ledger, submission_id):
    return [event.state for event in await ledger.events(submission_id) if event.state]


async def test_a_submission_survives_reopening(location):
    """An acknowledged submission is there for the next server."""
    async with Ledger.open(location) as first:
        submission = await submit(first)
    async with Ledger.open(location) as second:
        assert await second.get(submission.submission_id) == submission


async def test_the_oldest_is_leased_first_and_only_once(ledger):
    """Two workers that ask at once never get the same submission."""
    first, second = await submit(ledger), await submit(ledger)
    leased = await lease(ledger)
    leases = [leased, *await asyncio.gather(*(lease(ledger, f"w{index}") for index in range(2, 5)))]
    assert [entry.submission.submission_id for entry in leases if entry] == [first.submission_id, second.submission_id]
    assert leased.problem == fakes.problem() and leased.submission.new.sources == first.new.sources
    await submit(ledger)
    await ledger.release(leased, FAILURE)
    assert (await lease(ledger)).submission.submission_id == first.submission_id  # a released one comes before younger ones


async def test_a_lease_is_of_a_device_kind_that_was_asked_for(ledger):
    """A submission for another device waits; one for any device does not."""
    await ledger.submit(fakes.new_submission(device_kind="cuda"), fakes.problem())
    anything = await submit(ledger)
    assert (await lease(ledger, device_kinds=("emulated",))).submission.submission_id == anything.submission_id
    assert await lease(ledger, device_kinds=("emulated",)) is None
    assert await lease(ledger, device_kinds=("cuda",)) is not None


async def test_what_waits_and_runs_is_counted_by_device(ledger):
    """Ended submissions are not counted."""
    for kind in ("", "emulated", "cuda:H200", "cuda:H200"):
        await ledger.submit(fakes.new_submission(device_kind=kind), fakes.problem())
    for kind in ("emulated", "cuda:H200"):
        await lease(ledger, device_kinds=(kind,))
    counts = {demand.device_kind: (demand.queued_count, demand.running_count) for demand in await ledger.device_demands()}
    assert counts == {"": (0, 1), "emulated": (1, 0), "cuda:H200": (1, 1)}
    ended = await ledger.submit(fakes.new_submission(device_kind="cuda:A100"), fakes.problem())
    await ledger.cancel(ended.submission_id)
    assert "cuda:A100" not in {demand.device_kind for demand in await ledger.device_demands()}


READY = ("emulated", "cuda", "cuda:1", "cuda:NVIDIA H200")


async def test_several_are_leased_and_no_more_are_looked_for(ledger, monkeypatch):
    """In their order, as many as are there and may be; of those for another device none is looked for."""
    looked, usual = [], transactions.lease
    monkeypatch.setattr(transactions, "lease", lambda *arguments: looked.append(1) or usual(*arguments))
    waiting = [await submit(ledger) for _ in range(3)]
    await ledger.submit(fakes.new_submission(device_kind="cuda:7"), fakes.problem())
    batches = [await ledger.lease_some("w", limit, ttl_s=30, device_kinds=READY) for limit in (2, 8, 8)]
    assert [[entry.submission.submission_id for entry in leased] for leased in batches] == [
        [submission.submission_id for submission in part] for part in (waiting[:2], waiting[2:], [])
    ]
    assert len(looked) == len(waiting)


@pytest.mark.parametrize("kind", ["cuda:0", "cuda:A100", "cuda:12"])
async def test_a_submission_waits_in_the_queue_until_its_own_device_is_ready(ledger, kind):
    """Another GPU that is ready does not draw it, and what waits behind it is not kept waiting."""
    submission = await ledger.submit(fakes.new_submission(device_kind=kind), fakes.problem())
    behind = await submit(ledger)
    leased = await ledger.lease_some("w", 8, ttl_s=30, device_kinds=READY)
    assert [entry.submission.submission_id for entry in leased] == [behind.submission_id]
    assert (await ledger.get(submission.submission_id)).state is SubmissionState.QUEUED
    assert (await lease(ledger, device_kinds=(*READY, kind))).submission.submission_id == submission.submission_id


async def test_what_asks_for_a_device_that_is_not_here_at_all_is_leased_to_be_refused(ledger):
    """A GPU may have gone while the server was down. The control: where nobody says what there is, it waits."""
    submission = await ledger.submit(fakes.new_submission(device_kind="cuda:A100"), fakes.problem())
    assert await ledger.lease_some("w", 8, ttl_s=30, device_kinds=READY) == []
    assert await ledger.lease_some("w", 8, ttl_s=30, device_kinds=READY, known_kinds=(*READY, "cuda:NVIDIA A100")) == []  # it is cordoned
    (leased,) = await ledger.lease_some("w", 8, ttl_s=30, device_kinds=READY, known_kinds=READY)
    assert leased.submission.submission_id == submission.submission_id


async def test_events_count_from_one_without_gaps(ledger):
    """State changes and facts share one sequence, over attempts too."""
    submission = await submit(ledger)
    leased = await lease(ledger)
    await ledger.append(leased, [fakes.ENVIRONMENT, fakes.trial()])
    await ledger.release(leased, FAILURE)
    leased = await lease(ledger)
    await ledger.append(leased, [fakes.measurement()])
    await ledger.settle(leased, fakes.report())
    assert await sequences(ledger, submission.submission_id) == list(range(1, 9))
    events = await ledger.events(submission.submission_id)
    assert [event.fact for event in events if event.fact] == [fakes.ENVIRONMENT, fakes.trial(), fakes.measurement()]
    assert [event.attempt for event in events] == [0, 1, 1, 1, 1, 2, 2, 2]
    assert await ledger.events(submission.submission_id, after=6, limit=1) == events[6:7]


async def test_a_verdict_is_recorded_once(ledger):
    """With infinite errors, samples and enums. A second settlement, or anything else under the old lease, is refused."""
    submission = await submit(ledger)
    leased = await lease(ledger)
    await ledger.settle(leased, fakes.report())
    settled = await ledger.get(submission.submission_id)
    assert settled.report == fakes.report() and settled.state is SubmissionState.SUCCEEDED and settled.end_time is not None
    for late in (ledger.settle(leased, fakes.report()), ledger.append(leased, [fakes.trial()]), ledger.heartbeat(leased, ttl_s=1)):
        with pytest.raises(LeaseLost):
            await late
    with pytest.raises(LeaseLost):
        await ledger.release(leased, FAILURE)
    assert await sequences(ledger, submission.submission_id) == [1, 2, 3]


async def test_an_old_attempt_can_not_write_over_a_new_one(ledger, clock):
    """A worker that slept through its lease finds its writes refused, even with the new attempt; so does another that knows its number."""
    await submit(ledger)
    old = await lease(ledger)
    clock.pass_s(31)
    await ledger.expire()
    second = await lease(ledger)
    for wrong in (old, replace(second, worker_id="another")):
        with pytest.raises(LeaseLost):
            await ledger.settle(wrong, fakes.report())
    await ledger.settle(second, fakes.report())


async def test_a_heartbeat_keeps_a_lease(ledger, clock):
    """Only leases that expired expire."""
    submission = await submit(ledger)
    leased = await lease(ledger)
    clock.pass_s(20)
    assert await ledger.heartbeat(leased, ttl_s=30) is False
    clock.pass_s(20)
    assert await ledger.expire() == []
    clock.pass_s(20)
    assert [expired.submission_id for expired in await ledger.expire()] == [submission.submission_id]
    assert (await ledger.get(submission.submission_id)).state is SubmissionState.QUEUED


async def test_a_heartbeat_that_is_on_its_way_keeps_a_lease(ledger, clock):
    """Leases are looked for that are over while it is written: this one was, and is not any more."""
    await submit(ledger)
    leased = await lease(ledger)
    clock.pass_s(31)
    assert await asyncio.gather(ledger.heartbeat(leased, ttl_s=30), ledger.expire()) == [False, []]
    await ledger.settle(leased, fakes.report())


@pytest.mark.parametrize("jump_s", [3600, -3600])
async def test_a_clock_that_is_set_ends_no_lease_of_this_server(location, clock, jump_s):
    """By the time that passed it ends. Another server goes by the stored time, which the next heartbeat writes anew."""
    elapsed = Seconds()
    async with Ledger.open(location, now=clock, elapsed_s=elapsed) as ledger, Ledger.open(location, now=clock) as another:
        submission = await submit(ledger)
        leased = await lease(ledger)
        clock.pass_s(jump_s)
        elapsed.now_s = 10
        assert await ledger.expire() == []
        await ledger.heartbeat(leased, ttl_s=30)
        assert await another.expire() == []
        elapsed.now_s = 41
        assert [expired.submission_id for expired in await ledger.expire()] == [submission.submission_id]
        await lease(ledger)
        clock.pass_s(31)
        assert [expired.submission_id for expired in await another.expire()] == [submission.submission_id]


async def test_an_end_is_the_same_time_in_every_zone(location):
    """Of a clock that says its time in another zone than the ledger keeps it in."""
    clock = Clock(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))))
    async with Ledger.open(location, now=clock) as ledger:
        waiting = await submit(ledger)
        assert (await ledger.cancel(waiting.submission_id)).end_time == clock()


async def test_no_end_is_before_its_start(ledger, clock):
    """Settled, cancelled or failed after the clock was set back; estimates are not negative then."""
    for order in ("settle", "cancel", "fail"):
        submission = await submit(ledger, order)
        leased = await lease(ledger, ttl_s=1e6)
        clock.pass_s(-3600)
        if order == "settle":
            await ledger.settle(leased, fakes.report())
        else:
            if order == "cancel":
                await ledger.cancel(submission.submission_id)
            await ledger.release(leased, replace(FAILURE, final=True))
        ended = await ledger.get(submission.submission_id)
        assert ended.state.final and ended.end_time == ended.start_time
    waiting = await submit(ledger, "next")
    assert positions(await ledger.queue(), 1)[waiting.submission_id].estimated_s == 0


async def lose(ledger, clock, count, worker="w1"):
    """So many servers one after the other that take what is next and are killed; the next server or another one finds that out."""
    for number in range(count):
        assert await lease(ledger, f"{worker}-{number}") is not None
        if number % 2:
            await ledger.reclaim_all()
        else:
            clock.pass_s(31)
            assert len(await ledger.expire()) == 1


async def test_findings_are_added_to_the_report_of_the_attempt_that_found_them(ledger):
    """In the row, the judgement, the events and the files; the state, its time and the verdict stay. Of another attempt, or of one that was
    judged again since, nothing is added."""
    submission = await submit(ledger)
    leased = await lease(ledger)
    await ledger.settle(leased, fakes.report())
    settled = await ledger.get(submission.submission_id)
    report = replace(settled.report, summary="more", profile=fakes.PROFILE)
    file = wire.ArtifactFile(name="a", tool="t", digest="d", size_bytes=1)
    await ledger.amend(replace(leased, attempt=2), report, [fakes.PROFILE])
    assert await ledger.get(submission.submission_id) == settled
    await ledger.amend(leased, report, [file, fakes.PROFILE])
    assert await ledger.get(submission.submission_id) == replace(settled, report=report)
    (judgement,) = await ledger.judgements(submission.submission_id)
    assert judgement.summary == "more" and [artifact.name for artifact in await ledger.artifacts.of(submission.submission_id)] == ["a"]
    numbers = await sequences(ledger, submission.submission_id)
    assert numbers == list(range(1, len(numbers) + 1))
    assert (await submit(ledger, allow_cached=True)).report.profile == fakes.PROFILE
    await ledger.database.write(lambda connection: connection.execute(sa.update(submissions).values(judgement_count=2)))
    await ledger.amend(leased, settled.report, [fakes.PROFILE])
    assert await sequences(ledger, submission.submission_id) == numbers


async def test_a_submission_that_met_seven_server_crashes_is_still_graded(ledger, clock):
    """None of them needs to be its fault: each took all that its server had."""
    submission = await submit(ledger)
    await lose(ledger, clock, 7)
    await ledger.settle(await lease(ledger), fakes.report())
    assert (await ledger.get(submission.submission_id)).state is SubmissionState.SUCCEEDED


async def test_a_submission_that_kills_its_server_each_time_is_failed(ledger, clock):
    """With the eighth lost lease. It says how often it was tried, what happened, and that it may be the cause."""
    submission = await submit(ledger)
    await lose(ledger, clock, 8)
    failed = await ledger.get(submission.submission_id)
    assert failed.state is SubmissionState.FAILED and failed.failure.reason == "ATTEMPTS_EXHAUSTED"
    for text in ("no verdict after 8 attempts", "LEASE_LOST", "may be the cause"):
        assert text in failed.failure.message
    assert await lease(ledger) is None
    queued, running = SubmissionState.QUEUED, SubmissionState.RUNNING
    assert await states(ledger, submission.submission_id) == [queued, running] * 8 + [SubmissionState.FAILED]


async def test_failures_and_lost_leases_have_limits_of_their_own(ledger, clock):
    """Two of the one and seven of the other are still graded; a third failure is one too many."""
    submission = await submit(ledger)
    await lose(ledger, clock, 3)
    for _ in range(2):
        await ledger.release(await lease(ledger), FAILURE)
    await lose(ledger, clock, 4)
    assert (await ledger.get(submission.submission_id)).state is SubmissionState.QUEUED
    failed = await ledger.release(await lease(ledger), FAILURE)
    assert failed.state is SubmissionState.FAILED and "SANDBOX_BROKEN" in failed.failure.message


EXHAUSTED = "no verdict after 3 attempts, the last ended with SANDBOX_BROKEN: no box"


@pytest.mark.parametrize(
    ("count", "options", "reason", "message"),
    [
        (3, {}, "ATTEMPTS_EXHAUSTED", EXHAUSTED),
        (1, {"final": True}, "SANDBOX_BROKEN", "no box"),  # such as of a problem whose reference raises: it would only raise twice more
        (5, {"counted": False}, None, None),  # a server may be stopped any number of times without failing what it was grading
    ],
)
async def test_a_failure_counts_once_in_full_or_not_at_all(ledger, count, options, reason, message):
    """The error says how often it was tried, and what happened last."""
    submission, failure = await submit(ledger), replace(FAILURE, final=options.get("final", False))
    for _ in range(count):
        await ledger.release(await lease(ledger), failure, counted=options.get("counted", True))
    failed = await ledger.get(submission.submission_id)
    assert failed.state is (SubmissionState.FAILED if reason else SubmissionState.QUEUED)
    assert reason is None or (failed.failure.reason, failed.failure.message) == (reason, message)


async def test_the_same_request_id_gives_the_same_submission(ledger):
    """A retried Submit makes nothing new, even when it comes twice at once, or after the queue is full."""
    entries = await asyncio.gather(*(submit(ledger, request_id="r1") for _ in range(4)))
    assert len({submission.submission_id for submission in entries}) == 1
    assert (await submit(ledger, request_id="r1", queue_limit=1)).submission_id == entries[0].submission_id
    assert await fakes.queued_count(ledger) == 1
    with pytest.raises(RequestIdReused):  # nobody gets somebody else's verdict by a reused id
        await submit(ledger, "wrong", request_id="r1")


async def test_a_full_queue_refuses(ledger):
    """Only what waits counts, not what runs."""
    await submit(ledger, queue_limit=1)
    with pytest.raises(QueueFull):
        await submit(ledger, queue_limit=1)
    await lease(ledger)
    await submit(ledger, queue_limit=1)


async def submit_as(ledger, user, limit=2, **options):
    policy = AdmissionPolicy(user_queue_limit=limit)
    return await ledger.submit(fakes.new_submission(user=user), fakes.problem(), policy=policy, **{"queue_limit": 5, **options})


async def test_one_user_fills_its_share_of_the_queue_only(ledger):
    """Others find room; what runs does not count; and the refusal changes nothing, so that a cancelled one gives its place back."""
    entries = [await submit_as(ledger, "bob", request_id=f"r{index}") for index in range(2)]
    with pytest.raises(QueueShareUsed) as caught:
        await submit_as(ledger, "bob")
    assert caught.value.limit == 2 and await fakes.queued_count(ledger) == 2
    assert (await submit_as(ledger, "bob", request_id="r1")).submission_id == entries[1].submission_id  # a retry
    await submit_as(ledger, "alice")
    await ledger.cancel(entries[0].submission_id)
    await submit_as(ledger, "bob")
    await lease(ledger)
    await submit_as(ledger, "bob")
    with pytest.raises(QueueShareUsed):
        await submit_as(ledger, "bob")


async def test_without_a_share_one_user_fills_the_queue(ledger):
    """The control: then nobody else gets in."""
    for _ in range(5):
        await submit_as(ledger, "bob", None)
    with pytest.raises(QueueFull):
        await submit_as(ledger, "alice", None)


async def test_a_share_holds_where_many_come_at_once(ledger):
    """As many as may, and no more."""
    answers = await asyncio.gather(*(submit_as(ledger, "bob") for _ in range(12)), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["QueueShareUsed"] * 10 + ["Submission"] * 2


async def test_a_queued_submission_is_cancelled_at_once(ledger):
    """And never leased afterwards."""
    submission = await submit(ledger)
    assert (await ledger.cancel(submission.submission_id)).state is SubmissionState.CANCELLED
    assert await lease(ledger) is None
    with pytest.raises(AlreadyFinished):
        await ledger.cancel(submission.submission_id)


@pytest.mark.parametrize("end", ["released", "server_died", "settled"])
async def test_a_running_submission_is_cancelled_by_its_worker(ledger, end):
    """The heartbeat tells it. The wish survives the worker; a verdict that came before stands."""
    submission = await submit(ledger)
    leased = await lease(ledger)
    stopping = await ledger.cancel(submission.submission_id)
    assert (stopping.state, stopping.cancel_requested) == (SubmissionState.RUNNING, True)
    assert await ledger.heartbeat(leased, ttl_s=30) is True
    match end:
        case "released":
            await ledger.release(leased, FAILURE, counted=False)
        case "server_died":
            await ledger.reclaim_all()
        case "settled":
            await ledger.settle(leased, fakes.report())
    state = SubmissionState.SUCCEEDED if end == "settled" else SubmissionState.CANCELLED
    assert (await ledger.get(submission.submission_id)).state is state


async def test_a_submission_keeps_the_problem_that_it_was_made_for(ledger):
    """A changed problem is another problem, for younger submissions only."""
    submission = await submit(ledger)
    await ledger.submit(fakes.new_submission(), fakes.problem(digest="f" * 64))
    assert (await lease(ledger)).problem.digest == submission.problem_digest == "d" * 64
    assert (await lease(ledger)).problem.digest == "f" * 64


async def test_pages_are_newest_first_and_complete(ledger):
    """Following the pages gives every submission once, also while new ones come in."""
    submission_ids = [(await submit(ledger)).submission_id for _ in range(5)]
    first, before = await ledger.page(size=2)
    await submit(ledger)
    second, before = await ledger.page(size=2, before=before)
    third, last = await ledger.page(size=2, before=before)
    assert [submission.submission_id for submission in (*first, *second, *third)] == submission_ids[::-1] and last is None


async def test_every_write_tells_those_who_wait(ledger):
    """A watcher is woken by lease, fact and settlement."""
    submission = await submit(ledger)
    with ledger.changes.of(submission.submission_id) as changed:
        leased = await lease(ledger)
        assert changed.is_set()
        for write in (ledger.append(leased, [wire.Finished(job_id="j")]), ledger.settle(leased, fakes.report())):
            changed.clear()
            await write
            assert changed.is_set()
