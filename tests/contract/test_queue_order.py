"""Order of the queue, whatever database is under it."""

import asyncio
from dataclasses import replace

import pytest
import sqlalchemy as sa

from grader.ledger.queue import FIRST_COME_TURN, positions
from grader.ledger.tables import usage
from grader.model import Failure
from sandbox.protocol import wire
from tests import fakes

FAULT = Failure(reason="SANDBOX_BROKEN", message="no box")


async def submit(ledger, user, count=1, mode=wire.Mode.BENCHMARK, **fields):
    draft = replace(fakes.new_submission(user=user, **fields), mode=mode)
    submissions = await asyncio.gather(*(ledger.submit(draft, fakes.problem()) for _ in range(count)))
    return [submission.submission_id for submission in submissions]


async def lease(ledger, **options):
    return await ledger.lease("w", **{"ttl_s": 1e6, **options})


async def grade(ledger, clock, seconds=10.0):
    """Grade a job on one lane; return whose it was."""
    leased = await lease(ledger)
    clock.pass_s(seconds)
    await ledger.settle(leased, fakes.report())
    return leased.submission.new.user


async def lanes(ledger, clock, count, jobs):
    """So many lanes that take jobs as they become free; whose they were, in the order in which they began."""
    began, leases = [], []
    while len(began) < jobs:
        while len(leases) < count and len(began) < jobs and (leased := await lease(ledger)) is not None:
            leases.append(leased)
            began.append(leased.submission.new.user)
        clock.pass_s(10)
        await ledger.settle(leases.pop(0), fakes.report())
    return began


async def test_test_comes_before_benchmark_before_ranked(ledger, clock):
    """Whoever waits for a second is not kept waiting by what takes minutes."""
    for mode in (wire.Mode.RANKED, wire.Mode.BENCHMARK, wire.Mode.TEST):
        await submit(ledger, mode.value, mode=mode)
    assert [await grade(ledger, clock) for _ in range(3)] == ["test", "benchmark", "ranked"]


@pytest.mark.parametrize(("lane_count", "queued_count"), [(1, 50), pytest.param(4, 500, marks=pytest.mark.slow)])
async def test_a_user_with_many_queued_does_not_delay_one_with_one(ledger, clock, lane_count, queued_count):
    """By no more than one job per lane, though all of them were there first and the other has used the device as much."""
    await submit(ledger, "other")
    await grade(ledger, clock, 5.0)
    await submit(ledger, "many", queued_count)
    running = [await lease(ledger) for _ in range(lane_count)]
    await submit(ledger, "other")
    began = []
    for leased in running:
        clock.pass_s(10)
        await ledger.settle(leased, fakes.report())
        began.append((await lease(ledger)).submission.new.user)
    assert began[0] == "other"
    assert [running_lease.submission.new.user for running_lease in running] == ["many"] * lane_count


@pytest.mark.parametrize(("shares", "place"), [(("client:a", "client:b"), 1), (("", ""), 200)])
async def test_a_batch_of_a_client_without_a_key_delays_another_by_one(ledger, clock, shares, place):
    """The place of the single one after 200 that were there first; the control has no shares. Nothing of a share is kept for long."""
    draft = fakes.new_submission()
    for _ in range(200):
        await ledger.submit(draft, fakes.problem(), share=shares[0])
    running = await lease(ledger)
    single = await ledger.submit(draft, fakes.problem(), share=shares[1])
    order = []
    while not order or order[-1] != single.submission_id:
        clock.pass_s(2)
        await ledger.settle(running, fakes.report())
        running = await lease(ledger)
        order.append(running.submission.submission_id)
    assert len(order) == place
    assert running.submission.new.user == ""


async def test_a_loop_of_new_shares_does_not_keep_others_waiting(ledger, clock):
    """Each goes before what another share with some use has queued, but for the turns by number."""
    draft, problem = fakes.new_submission(), fakes.problem()
    queued = [(await ledger.submit(draft, problem, share="client:many")).submission_id for _ in range(5)]
    turns = []
    for number in range(1, 3 * FIRST_COME_TURN + 1):
        leased = await lease(ledger)
        clock.pass_s(2)
        await ledger.settle(leased, fakes.report())
        turns += [number] if leased.submission.submission_id in queued else []
        await ledger.submit(draft, problem, share=f"client:{number}")
    assert turns == [1, *(FIRST_COME_TURN * nth for nth in (1, 2, 3))]


@pytest.mark.parametrize("batch", [True, False])
async def test_the_class_batch_lets_all_others_go_first_and_never_starves(ledger, clock, batch):
    """Also those of a slower mode, of the same user, and that come later; it gets the turns by number. The control is of no class."""
    draft, problem = fakes.new_submission(user="own"), fakes.problem()
    queued = [await ledger.submit(replace(draft, mode=wire.Mode.TEST), problem, batch=batch) for _ in range(3 * FIRST_COME_TURN)]
    of_batch = {submission.submission_id for submission in queued}
    turns = []
    for number in range(1, 2 * FIRST_COME_TURN + 1):
        last = await ledger.submit(replace(draft, mode=wire.Mode.RANKED), problem)
        foretold = positions(await ledger.queue(), 1)
        assert (foretold[last.submission_id].ahead_count < len(queued)) is batch
        leased = await lease(ledger)
        clock.pass_s(2)
        await ledger.settle(leased, fakes.report())
        turns += [number] if leased.submission.submission_id in of_batch else []
    assert turns == ([FIRST_COME_TURN, 2 * FIRST_COME_TURN] if batch else list(range(1, 2 * FIRST_COME_TURN + 1)))


async def test_a_stream_of_tests_does_not_keep_a_slower_mode_waiting_for_ever(ledger, clock):
    """Each waits for as many turns as there are before it, and one more, of those that go by number alone."""
    slow = [await submit(ledger, "slow", mode=mode) for mode in (wire.Mode.RANKED, wire.Mode.PROFILE)]
    turns = {}
    for number in range(1, 2 * FIRST_COME_TURN**2 + 1):
        await submit(ledger, "quick", mode=wire.Mode.TEST)
        leased = await lease(ledger)
        await ledger.settle(leased, fakes.report())
        turns[leased.submission.submission_id] = number
    assert [turns.get(submission_id) for (submission_id,) in slow] == [FIRST_COME_TURN**2, 2 * FIRST_COME_TURN**2]


async def test_shares_that_count_no_more_are_forgotten(ledger, clock):
    """With the first use of a new one, so that clients that come and go leave nothing."""
    for share in ("client:a", "client:b", "client:c"):
        await ledger.submit(fakes.new_submission(), fakes.problem(), share=share)
        leased = await lease(ledger)
        clock.pass_s(2)
        await ledger.settle(leased, fakes.report())
        clock.pass_s(3 * 3600 if share == "client:b" else 0)
    query = sa.select(usage.c.user_name)
    assert (await ledger.database.read(lambda connection: connection.execute(query).scalars().all())) == ["client:c"]


async def test_nobody_starves(ledger, clock):
    """A user who has used the devices more is served too, and the more often the less the other has used them."""
    await submit(ledger, "heavy")
    await grade(ledger, clock, 60.0)
    await submit(ledger, "heavy", 8)
    await submit(ledger, "light", 20)
    began = await lanes(ledger, clock, 2, 24)
    assert began.count("heavy") == 8 and began[:4].count("light") >= 2 and "heavy" in began[:14]


async def test_of_one_user_the_order_is_kept(ledger, clock):
    """Whatever others do, and after one was given back."""
    own_ids = [submission_id for _ in range(3) for submission_id in await submit(ledger, "own")]
    await submit(ledger, "other", 3)
    order = []
    for index in range(6):
        leased = await lease(ledger)
        if index == 0:
            await ledger.release(leased, FAULT, counted=False)
            leased = await lease(ledger)
        clock.pass_s(1)
        await ledger.settle(leased, fakes.report())
        order.append(leased.submission.submission_id)
    assert [submission_id for submission_id in order if submission_id in own_ids] == own_ids


async def test_what_we_spoil_is_not_charged(ledger, clock):
    """Neither a fault nor a drain puts its user behind. The controls: time that was graded does, and a run that its user cancelled: who
    cancels at the last moment has not had the devices for nothing."""
    for user in ("spoiled", "drained", "graded", "canceller", "fresh"):
        await submit(ledger, user)
    for user in ("spoiled", "drained", "graded", "canceller"):
        leased = await lease(ledger)
        assert leased.submission.new.user == user
        clock.pass_s(200 if user == "canceller" else 100)
        if user == "canceller":
            await ledger.cancel(leased.submission.submission_id)
        if user == "graded":
            await ledger.settle(leased, fakes.report())
        else:
            await ledger.release(leased, FAULT, counted=user == "spoiled")
        if user in ("spoiled", "drained"):
            await ledger.cancel(leased.submission.submission_id)
    await ledger.cancel((await lease(ledger)).submission.submission_id)  # the fresh one's
    await submit(ledger, "between", FIRST_COME_TURN - 5)
    for _ in range(FIRST_COME_TURN - 5):
        await grade(ledger, clock)  # up to the turn by number
    for user in ("canceller", "graded", "drained", "spoiled"):
        await submit(ledger, user)
    assert [await grade(ledger, clock) for _ in range(4)] == ["drained", "spoiled", "graded", "canceller"]


async def test_positions_foretell_the_order(ledger, clock):
    """The order of leasing is the order of positions, with nothing settled in between."""
    await submit(ledger, "a", 6)
    await submit(ledger, "b", 2)
    await submit(ledger, "c", 2, mode=wire.Mode.TEST)
    await lease(ledger)
    foretold = positions(await ledger.queue(), 1)
    order = sorted(foretold, key=lambda submission_id: foretold[submission_id].ahead_count)
    assert [foretold[submission_id].ahead_count for submission_id in order] == list(range(9))
    assert [(await lease(ledger)).submission.submission_id for _ in order] == order


async def test_a_position_counts_what_waits_for_the_same_kind_of_device(ledger):
    """A queue at the GPUs does not keep the emulated device busy; what goes to any may be in the way of both."""
    await submit(ledger, "a", 2, device_kind="cuda:H200")
    (anything,) = await submit(ledger, "b")
    (emulated,) = await submit(ledger, "c", device_kind="emulated")
    (gpu,) = await submit(ledger, "d", device_kind="cuda")
    foretold = positions(await ledger.queue(), 1)
    assert [foretold[submission_id].ahead_count for submission_id in (anything, emulated, gpu)] == [1, 1, 2]


async def test_an_estimate_is_drawn_from_what_was_graded_lately(ledger, clock):
    """Ten seconds each: two ahead and what is left of the one that runs; on two lanes half of it; nothing is said without knowing."""
    await submit(ledger, "a", 5)
    assert {position.estimated_s for position in positions(await ledger.queue(), 1).values()} == {None}
    await grade(ledger, clock, 10.0)
    await lease(ledger)
    clock.pass_s(4)
    for lane_count, expected in ((1, [6.0, 16.0, 26.0]), (2, [3.0, 8.0, 13.0])):
        estimates_s = sorted(position.estimated_s for position in positions(await ledger.queue(), lane_count).values())
        assert estimates_s == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(("lane_count", "leased", "estimated_s"), [(0, False, None), (0, True, 10.0), (1, False, 0.0)])
async def test_without_workers_a_position_says_so_and_when_is_not_known(ledger, clock, lane_count, leased, estimated_s):
    """The controls are a lane, and an attempt that runs at another server of the database."""
    await submit(ledger, "a", 3)
    await grade(ledger, clock, 10.0)
    if leased:
        await lease(ledger)
    first, *_ = positions(await ledger.queue(), lane_count).values()
    assert (first.ahead_count, first.estimated_s, first.no_worker) == (0, estimated_s, estimated_s is None)
