"""Withdrawals and bans in a ledger, on each database: what they change, what they do not, and what is kept of them."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
import sqlalchemy as sa

from grader.errors import CompetitionClosed, QuotaExceeded, SubmissionNotFound, UserBanned, WithdrawalRefused
from grader.ledger.tables import submissions
from grader.model import Caller, Scope, Withdrawal
from grader.rules.quotas import HOUR, AdmissionPolicy, Quota
from grader_extensions.competitions import leaderboard
from grader_extensions.competitions.boards import Boards
from grader_extensions.competitions.model import ActionKind
from grader_extensions.competitions.store import check_admission
from grader_extensions.competitions.tests.ledger_actions import LedgerActions
from grader_extensions.competitions.tests.test_boards import COMPETITION, REAL, SCORE, graded, users
from sandbox.protocol import wire
from tests import fakes
from tests.board_rows import START
from tests.clock import Clock

ALICE, ROOT = Caller(user="alice", scopes=frozenset({Scope.SUBMIT, Scope.READ})), Caller(user="root")


@pytest.fixture
def clock():
    return Clock(START + HOUR)


@pytest.fixture
def actions(ledger):
    return LedgerActions(ledger)


async def kinds(actions):
    return [one.kind for one in (await actions.page("spring", size=50))[0]]


async def test_a_withdrawn_submission_leaves_the_board_and_the_next_best_counts(ledger, actions, clock):
    """It stays a graded submission with its score; undone, the board is what it was."""
    best = await graded(ledger, user="alice")
    second = await graded(ledger, user="alice", score=replace(SCORE, value=1.5, low=1.4, high=1.6))
    await graded(ledger, user="bob")

    async def board():
        found = leaderboard.board(COMPETITION, await Boards(ledger).standings(COMPETITION, problem_id="sum"), problem_id="sum")
        return [(one.user, one.submission_id) for one in found.entries]

    before = await board()
    assert ("alice", best.submission_id) in before
    withdrawn = await actions.withdraw(best.submission_id, COMPETITION, ALICE, "a slip")
    assert withdrawn.withdrawal == Withdrawal(user="alice", reason="a slip", create_time=clock.now) and withdrawn.score == SCORE
    assert await ledger.get(best.submission_id) == withdrawn
    (listed,) = [one for one in (await ledger.page(size=9))[0] if one.submission_id == best.submission_id]
    assert listed.withdrawal == withdrawn.withdrawal
    assert ("alice", second.submission_id) in await board() and ("alice", best.submission_id) not in await board()
    assert (await actions.restore(best.submission_id, "root", "")).withdrawal is None
    assert await board() == before and await kinds(actions) == [ActionKind.RESTORED, ActionKind.WITHDRAWN]


async def test_an_owner_withdraws_until_the_end_and_an_administrator_at_any_time(ledger, actions, clock):
    made = await graded(ledger, user="alice")
    clock.now = COMPETITION.end_time - timedelta(microseconds=1)
    await actions.withdraw(made.submission_id, COMPETITION, ALICE, "")
    await actions.restore(made.submission_id, "root", "")
    clock.now = COMPETITION.end_time
    with pytest.raises(WithdrawalRefused, match="'spring' ended at 2026-03-03 00:00:00 UTC; ask its organisers"):
        await actions.withdraw(made.submission_id, COMPETITION, ALICE, "")
    assert await users(ledger) == ["alice"]
    await actions.withdraw(made.submission_id, COMPETITION, ROOT, "uses a library")
    assert await users(ledger) == []


async def test_an_owner_does_not_replace_what_an_administrator_wrote(ledger, actions):
    """The other way round an administrator does, and both are in the record. The same once more is no second action."""
    made = await graded(ledger, user="alice")
    await actions.withdraw(made.submission_id, COMPETITION, ALICE, "mine")
    for _ in range(2):
        found = await actions.withdraw(made.submission_id, COMPETITION, ROOT, "copied")
    assert (await actions.withdraw(made.submission_id, COMPETITION, ALICE, "a slip")).withdrawal == found.withdrawal
    recorded, _ = await actions.page("spring", size=9)
    assert [(one.user, one.subject, one.reason) for one in recorded] == [
        ("root", made.submission_id, "copied"),
        ("alice", made.submission_id, "mine"),
    ]


async def test_what_is_on_no_board_is_not_withdrawn(ledger, actions):
    """A submission to no competition, a run of a rejudge, and none at all."""
    practice = await graded(ledger, competition_id="")
    with pytest.raises(WithdrawalRefused, match="in no competition"):
        await actions.withdraw(practice.submission_id, None, ROOT, "x")
    run = await graded(ledger)
    mark = sa.update(submissions).where(submissions.c.submission_id == run.submission_id).values(rejudge_id="r")
    await ledger.database.write(lambda connection: connection.execute(mark))
    for submission_id in (run.submission_id, "0" * 16):
        with pytest.raises(SubmissionNotFound):
            await actions.withdraw(submission_id, COMPETITION, ROOT, "x")
        with pytest.raises(SubmissionNotFound):
            await actions.restore(submission_id, "root", "")
    assert await kinds(actions) == []


async def test_a_withdrawal_gives_no_quota_back_and_stays_while_it_is_graded(ledger, actions):
    """Also of one that waits: it is graded, and then on no board. Who hands in again has one less."""
    new = replace(fakes.new_submission(), user="alice", competition_id="spring", mode=wire.Mode.RANKED)
    policy = AdmissionPolicy(admit=partial(check_admission, COMPETITION), quotas=(Quota(limit=1, window=HOUR, period="in an hour"),))
    made = await ledger.submit(new, fakes.problem(), policy=policy)
    await actions.withdraw(made.submission_id, COMPETITION, ALICE, "")
    with pytest.raises(QuotaExceeded):
        await ledger.submit(new, fakes.problem(), policy=policy)
    held = await ledger.lease("w", ttl_s=30)
    settled = await ledger.settle(held, replace(fakes.report(), environment=REAL, score=SCORE))
    assert settled.withdrawal is not None and settled.score == SCORE and await users(ledger) == []


async def test_a_ban_takes_a_user_off_the_boards_and_refuses_what_comes(ledger, actions, clock):
    """Of this competition only, and until it is lifted. A request that was answered before finds its submission still."""
    policy = AdmissionPolicy(admit=partial(check_admission, COMPETITION))
    new = replace(fakes.new_submission(), user="alice", competition_id="spring", mode=wire.Mode.RANKED)
    for user in ("alice", "bob"):
        await graded(ledger, user=user)
    first = await ledger.submit(new, fakes.problem(), request_id="r", policy=policy)
    made = await actions.ban("spring", "alice", "root", "copied a kernel")
    assert (made.user, made.administrator, made.submission_count, made.create_time) == ("alice", "root", 2, clock.now)
    assert await users(ledger) == ["bob"] and await actions.bans_of("spring") == [made] and await actions.bans_of("autumn") == []
    with pytest.raises(UserBanned, match="you are banned from competition 'spring': copied a kernel; ask its organisers"):
        await ledger.submit(new, fakes.problem(), policy=policy)
    assert (await ledger.submit(new, fakes.problem(), request_id="r", policy=policy)).submission_id == first.submission_id
    await ledger.submit(replace(new, competition_id=""), fakes.problem())  # elsewhere as before
    other = AdmissionPolicy(admit=partial(check_admission, replace(COMPETITION, competition_id="autumn")))
    await ledger.submit(replace(new, competition_id="autumn"), fakes.problem(), policy=other)
    await ledger.submit(replace(new, user="bob"), fakes.problem(), policy=policy)
    assert await actions.lift_ban("spring", "alice", "root", "") and not await actions.lift_ban("spring", "alice", "root", "")
    await ledger.submit(new, fakes.problem(), policy=policy)
    assert await users(ledger) == ["alice", "bob"] and await kinds(actions) == [ActionKind.BAN_LIFTED, ActionKind.BANNED]


@pytest.mark.parametrize(("seconds", "phase"), [(-1, "upcoming"), (0, None), (2 * 86400 - 0.001, None), (2 * 86400, "ended")])
async def test_the_window_opens_and_closes_to_the_moment(ledger, clock, seconds, phase):
    """The start is in it, the end is not; the time that decides is the one that is kept. A request that was answered is answered again."""
    policy = AdmissionPolicy(admit=partial(check_admission, COMPETITION))
    new, clock.now = replace(fakes.new_submission(), competition_id="spring"), START + timedelta(seconds=seconds)
    if phase is None:
        first = await ledger.submit(new, fakes.problem(), request_id="r", policy=policy)
        assert first.create_time == clock.now
        clock.pass_s(2 * 86400)
        assert (await ledger.submit(new, fakes.problem(), request_id="r", policy=policy)).submission_id == first.submission_id
    else:
        with pytest.raises(CompetitionClosed) as caught:
            await ledger.submit(new, fakes.problem(), policy=policy)
        assert caught.value.phase == phase and caught.value.time.endswith("00:00:00 UTC")
