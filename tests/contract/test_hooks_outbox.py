"""What the outbox of webhooks promises, whatever database is under it."""

import asyncio
from datetime import timedelta

import pytest

from grader.errors import DeliveryNotFound, HookNotFound
from grader.ledger import hooks
from grader.ledger.hooks import LEASE_S, DeliveryState, HookEvent
from grader.model import Failure
from grader.server.retention import Periods, Removed, remove_due
from tests import fakes

WAITING, DELIVERED, GIVEN_UP = DeliveryState.WAITING, DeliveryState.DELIVERED, DeliveryState.GIVEN_UP
URL = "https://site.example/hook"
DAY_S = 24 * 3600
MONTH = Periods.of_days(0, 0, 30)


async def graded(ledger, **fields):
    """A submission that got its verdict."""
    made = await ledger.submit(fakes.new_submission(**fields), fakes.problem())
    held = await ledger.lease("w", ttl_s=30)
    await ledger.settle(held, fakes.report())
    return made.submission_id


async def told(ledger, hook):
    return [one.submission_id for one in await ledger.hooks.deliveries(hook.hook_id)]


async def test_every_final_state_is_told_of_once(ledger):
    """Graded, failed and cancelled ones; what still waits or runs is not."""
    hook, _ = await ledger.hooks.create(URL)
    done = await graded(ledger)
    failed = await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.release(await ledger.lease("w", ttl_s=30), Failure(reason="X", message="", final=True))
    cancelled = await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.cancel(cancelled.submission_id)
    await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.lease("w", ttl_s=30)
    await ledger.submit(fakes.new_submission(), fakes.problem())
    assert sorted(await told(ledger, hook)) == sorted([done, failed.submission_id, cancelled.submission_id])


async def test_a_hook_is_told_only_of_what_it_is_for(ledger):
    """By user, by competition, by both; a hook that was made or removed too late for it is not sent."""
    by_ann, _ = await ledger.hooks.create(URL, user="ann")
    by_cup, _ = await ledger.hooks.create(URL, competition_id="cup")
    by_both, _ = await ledger.hooks.create(URL, user="ann", competition_id="cup")
    removed, _ = await ledger.hooks.create(URL)
    await ledger.hooks.remove(removed.hook_id)
    both, ann = await graded(ledger, user="ann", competition_id="cup"), await graded(ledger, user="ann")
    bob = await graded(ledger, user="bob", competition_id="cup")
    late, _ = await ledger.hooks.create(URL)
    assert sorted(await told(ledger, by_ann)) == sorted([both, ann])
    assert sorted(await told(ledger, by_cup)) == sorted([both, bob])
    assert await told(ledger, by_both) == [both]
    assert await told(ledger, removed) == await told(ledger, late) == []


async def test_a_delivery_is_claimed_by_one_at_a_time(ledger, clock):
    """Many servers that ask at once get each once; a claim that nobody settled is due again when its time is over."""
    await ledger.hooks.create(URL)
    made = sorted([await graded(ledger) for _ in range(3)])
    claims = await asyncio.gather(*(ledger.hooks.claim() for _ in range(6)))
    assert sorted(one.delivery.submission_id for claim in claims for one in claim) == made
    clock.pass_s(LEASE_S - 1)
    assert await ledger.hooks.claim() == []
    clock.pass_s(2)
    assert sorted(one.delivery.submission_id for one in await ledger.hooks.claim()) == made


async def test_a_claim_that_was_lost_settles_nothing(ledger, clock):
    """Whoever comes back too late does not undo what the next one does."""
    await ledger.hooks.create(URL)
    await graded(ledger)
    [first] = await ledger.hooks.claim()
    clock.pass_s(LEASE_S + 1)
    [second] = await ledger.hooks.claim()
    await ledger.hooks.delivered(second.delivery, "HTTP 200")
    await ledger.hooks.failed(first.delivery, "no answer", retry_s=1)
    [delivery] = await ledger.hooks.deliveries()
    assert (delivery.state, delivery.last_status, delivery.attempt) == (DELIVERED, "HTTP 200", 2)


async def test_what_fails_is_due_later_and_given_up_after_a_day(ledger, clock):
    """Then it waits for an administrator, who gives it another day."""
    hook, _ = await ledger.hooks.create(URL)
    await graded(ledger)
    [claimed] = await ledger.hooks.claim()
    assert not await ledger.hooks.failed(claimed.delivery, "HTTP 500", retry_s=100)
    clock.pass_s(99)
    assert await ledger.hooks.claim() == []
    clock.pass_s(2)
    [claimed] = await ledger.hooks.claim()
    clock.pass_s(24 * 3600)
    assert await ledger.hooks.failed(claimed.delivery, "x" * 1000, retry_s=1)
    [delivery] = await ledger.hooks.deliveries(hook.hook_id, states=[GIVEN_UP])
    assert delivery.last_status == "x" * 200
    clock.pass_s(24 * 3600)
    assert await ledger.hooks.claim() == []
    assert await ledger.hooks.retry(hook_id=hook.hook_id) == 1
    [claimed] = await ledger.hooks.claim()
    assert not await ledger.hooks.failed(claimed.delivery, "HTTP 500", retry_s=100)


async def test_a_redelivery_does_not_overtake_the_one_under_way(ledger, clock):
    """What is being sent right now is not sent beside it; what was delivered comes again at once."""
    await ledger.hooks.create(URL)
    await graded(ledger)
    [claimed] = await ledger.hooks.claim()
    assert await ledger.hooks.retry(delivery_id=claimed.delivery.delivery_id) == 1
    assert await ledger.hooks.claim() == []
    await ledger.hooks.delivered(claimed.delivery, "HTTP 200")
    assert await ledger.hooks.retry(delivery_id=claimed.delivery.delivery_id) == 1
    [again] = await ledger.hooks.claim()
    assert again.delivery.delivery_id == claimed.delivery.delivery_id


async def test_a_slow_hook_does_not_hold_up_another(ledger):
    """Each gets a few at a time, and a busy one none."""
    slow, _ = await ledger.hooks.create(URL, user="slow")
    quick, _ = await ledger.hooks.create(URL, user="quick")
    for user in ("slow", "slow", "slow", "quick"):
        await graded(ledger, user=user)
    claimed = await ledger.hooks.claim(each=2)
    assert [one.delivery.hook_id for one in claimed].count(slow.hook_id) == 2
    assert [one.delivery.hook_id for one in claimed].count(quick.hook_id) == 1
    assert await ledger.hooks.claim(busy=[slow.hook_id]) == []
    assert len(await ledger.hooks.claim()) == 1


async def test_a_removed_hook_is_told_nothing_more(ledger):
    """Not even what waited, and not by a redelivery."""
    hook, _ = await ledger.hooks.create(URL)
    await graded(ledger)
    await ledger.hooks.remove(hook.hook_id)
    assert await ledger.hooks.claim() == []
    [delivery] = await ledger.hooks.deliveries()
    assert (delivery.state, delivery.last_status) == (GIVEN_UP, "the hook was removed")
    with pytest.raises(DeliveryNotFound):
        await ledger.hooks.retry(delivery_id=delivery.delivery_id)
    with pytest.raises(HookNotFound):
        await ledger.hooks.remove(hook.hook_id)


async def test_hooks_are_counted_and_their_secrets_differ(ledger, clock):
    """The list says what became of what; no secret is in it."""
    hook, secret = await ledger.hooks.create(URL)
    clock.pass_s(1)
    _, other = await ledger.hooks.create(URL)
    assert secret != other and len(secret) > 40
    await graded(ledger)
    [first, _] = await ledger.hooks.all()
    assert first.hook_id == hook.hook_id and dict(first.counts) == {WAITING: 1, DELIVERED: 0, GIVEN_UP: 0}
    assert secret not in repr(await ledger.hooks.all())


async def test_a_rejudge_that_is_applied_is_told_of(ledger, clock):
    """`enqueue` is called in its transaction, with the numbers of what changed."""
    hook, _ = await ledger.hooks.create(URL)
    made = [await graded(ledger) for _ in range(2)]
    await ledger._database.write(lambda connection: hooks.enqueue(connection, clock.now, [1, 2], HookEvent.JUDGED_AGAIN))
    found = await ledger.hooks.deliveries(hook.hook_id)
    assert sorted(one.submission_id for one in found if one.event is HookEvent.JUDGED_AGAIN) == sorted(made)


async def ended(ledger):
    """A delivery in each state, oldest first: delivered, given up, waiting."""
    await ledger.hooks.create(URL)
    for settle in (lambda one: ledger.hooks.delivered(one, "HTTP 200"), lambda one: ledger.hooks.failed(one, "no", retry_s=2 * DAY_S)):
        await graded(ledger)
        [claimed] = await ledger.hooks.claim()
        await settle(claimed.delivery)
    await graded(ledger)
    found = sorted(await ledger.hooks.deliveries(), key=lambda one: [DELIVERED, GIVEN_UP, WAITING].index(one.state))
    assert [one.state for one in found] == [DELIVERED, GIVEN_UP, WAITING]
    return found


async def test_what_has_ended_is_removed_in_time_and_what_waits_is_not(ledger, clock):
    """Both kinds of end, and not a moment too soon; submissions and hooks stay, and `retry` says that it is gone."""
    delivered, _, waiting = await ended(ledger)
    assert await ledger.hooks.waiting_count() == 1
    clock.pass_s(29 * DAY_S)
    assert await remove_due(ledger, MONTH, []) == Removed()
    clock.pass_s(4 * DAY_S)
    assert await remove_due(ledger, Periods.of_days(30, 30), []) == Removed(sources=3)  # the control: nobody asked for it
    assert await remove_due(ledger, MONTH, []) == Removed(deliveries=2)
    assert [one.delivery_id for one in await ledger.hooks.deliveries()] == [waiting.delivery_id]
    assert [one.delivery.delivery_id for one in await ledger.hooks.claim()] == [waiting.delivery_id]
    assert len(await ledger.hooks.all()) == 1 and (await ledger.get(delivered.submission_id)).report is not None
    with pytest.raises(DeliveryNotFound):
        await ledger.hooks.retry(delivery_id=delivered.delivery_id)


async def test_what_is_sent_again_stays(ledger, clock):
    """An old one that an administrator retries waits anew, and is kept as long again after that."""
    delivered, given_up, _ = await ended(ledger)
    clock.pass_s(33 * DAY_S)
    for one in (delivered, given_up):
        await ledger.hooks.retry(delivery_id=one.delivery_id)
    assert await remove_due(ledger, MONTH, []) == Removed()
    for claimed in await ledger.hooks.claim():
        await ledger.hooks.delivered(claimed.delivery, "HTTP 200")
    clock.pass_s(29 * DAY_S)
    assert await remove_due(ledger, MONTH, []) == Removed()
    clock.pass_s(2 * DAY_S)
    assert await remove_due(ledger, MONTH, []) == Removed(deliveries=3)


async def test_many_are_removed_in_batches(ledger, clock):
    """So that those who write do not wait for all of it; what is left of a pass goes in the next."""
    hook, _ = await ledger.hooks.create(URL)
    for _ in range(5):
        await graded(ledger)
    await ledger.hooks.remove(hook.hook_id)
    clock.pass_s(33 * DAY_S)
    before = clock.now - timedelta(days=30)
    assert [await ledger.hooks.remove_ended(before, limit=2) for _ in range(4)] == [2, 2, 1, 0]
