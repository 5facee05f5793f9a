"""How many a user may hand in, and when, whatever database is under it."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grader.errors import QuotaExceeded, UserBanned
from grader.model import Failure
from grader.rules.quotas import AdmissionPolicy, for_server
from tests import fakes
from tests.clock import Clock

START = datetime(2026, 5, 1, 16, tzinfo=UTC)
OF_COMPETITION = for_server(2, 3, "spring")
POLICY = AdmissionPolicy(quotas=OF_COMPETITION)


@pytest.fixture
def clock():
    return Clock(START)


async def submit(ledger, user="a", policy=POLICY, **options):
    competition_id = next((quota.competition_id for quota in policy.quotas if quota.competition_id), "")
    draft = replace(fakes.new_submission(user=user), competition_id=competition_id)
    return await ledger.submit(draft, fakes.problem(), policy=policy, **options)


async def refused(ledger, **options):
    with pytest.raises(QuotaExceeded) as caught:
        await submit(ledger, **options)
    return caught.value


async def test_the_window_slides(ledger, clock):
    """The first of two leaves the hour 50 minutes from now, and no sooner."""
    await submit(ledger)
    clock.pass_s(600)
    await submit(ledger)
    error = await refused(ledger)
    assert (error.limit, error.period, round(error.retry_s)) == (2, "in an hour", 3000)
    clock.pass_s(2999)
    await refused(ledger)
    clock.pass_s(1)
    await submit(ledger)


async def test_what_is_used_is_what_is_refused_by(ledger, clock):
    """Of each quota: how many are counted, and when the oldest of them is counted no longer. Cancelled ones and others' are not."""
    quotas = [*for_server(5, 0), *OF_COMPETITION]
    assert [(use.used_count, use.next_time) for use in await ledger.quota_uses("a", quotas)] == [(0, None)] * 3
    submission = await submit(ledger)
    await submit(ledger, user="b")
    clock.pass_s(600)
    await submit(ledger, policy=AdmissionPolicy(quotas=for_server(5, 0)))
    hour, day = START + timedelta(hours=1), START + timedelta(days=1)
    uses = [(use.quota.limit, use.used_count, use.next_time) for use in await ledger.quota_uses("a", quotas)]
    assert uses == [(5, 2, hour), (2, 1, hour), (3, 1, day)]
    await submit(ledger)
    assert (await ledger.quota_uses("a", quotas))[1].used_count == 2 == (await refused(ledger)).limit
    await ledger.cancel(submission.submission_id)
    assert (await ledger.quota_uses("a", quotas))[1].used_count == 1
    assert await ledger.quota_uses("a", []) == []


async def test_of_two_quotas_the_one_that_lasts_longer_is_told(ledger, clock):
    """A user who comes back in an hour must not be sent away again for the day."""
    for _ in range(3):
        await submit(ledger)
        clock.pass_s(1800)
    error = await refused(ledger)
    assert (error.limit, error.period, round(error.retry_s)) == (3, "in a day", 86400 - 5400)


async def test_a_race_does_not_exceed_a_quota(ledger):
    """Of eight at once two get in."""
    answers = await asyncio.gather(*(submit(ledger) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(answer, QuotaExceeded) for answer in answers) == 6 and await fakes.queued_count(ledger) == 2


async def test_a_repeated_request_is_not_charged(ledger):
    """Nor refused where the quota is spent: it is the same submission."""
    first = await submit(ledger, request_id="r1")
    for _ in range(4):
        assert (await submit(ledger, request_id="r1")).submission_id == first.submission_id
    await submit(ledger, request_id="r2")
    assert (await submit(ledger, request_id="r1")).submission_id == first.submission_id
    await refused(ledger, request_id="r3")


async def test_users_and_competitions_have_quotas_of_their_own(ledger):
    """A user's quota is not another's, and a competition's not the server's, which counts what was submitted to it, too."""
    for _ in range(2):
        await submit(ledger)
    await refused(ledger)
    await submit(ledger, user="b")
    await submit(ledger, policy=AdmissionPolicy(quotas=for_server(4, 0)))
    assert (await refused(ledger, policy=AdmissionPolicy(quotas=for_server(3, 0)))).limit == 3


async def test_what_we_failed_at_is_not_charged(ledger):
    """Nor what was cancelled before it began; what was cancelled while it ran is."""
    await submit(ledger)
    await ledger.release(await ledger.lease("w", ttl_s=30), replace(Failure(reason="SANDBOX_BROKEN", message=""), final=True))
    await ledger.cancel((await submit(ledger)).submission_id)
    await submit(ledger)
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.cancel(lease.submission.submission_id)
    await ledger.release(lease, Failure(reason="CANCEL", message=""), counted=False)
    await submit(ledger)
    await refused(ledger)


async def test_what_the_policy_refuses_is_not_stored(ledger, clock):
    """Asked with the time that would be kept, before quotas; a request that was answered before is not asked again."""
    first, times = await submit(ledger, request_id="r1"), []

    def admit(connection, now, user):
        times.append((now, user))
        raise UserBanned("spring", "a reason")

    policy = AdmissionPolicy(admit=admit, quotas=for_server(1, 0, "spring"))
    assert (await submit(ledger, policy=policy, request_id="r1")).submission_id == first.submission_id
    with pytest.raises(UserBanned):
        await submit(ledger, policy=policy)
    assert times == [(clock.now, "a")] and await fakes.queued_count(ledger) == 1
