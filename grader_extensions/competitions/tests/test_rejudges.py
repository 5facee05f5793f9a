"""Promises of the ledger about rejudges, whatever database is under it."""

import asyncio
import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from grader.errors import RequestIdReused, SubmissionNotFound
from grader.ledger import Ledger, records
from grader.ledger.tables import judgements, rejudge_items, submissions
from grader.model import Caller, Failure, Score, SubmissionState, Verdict
from grader_extensions.competitions import actions, leaderboard, rejudges
from grader_extensions.competitions.boards import read_standings
from grader_extensions.competitions.model import Competition
from grader_extensions.competitions.refusals import RejudgeNotFound, RejudgeNotReady, RejudgeOutdated
from grader_extensions.competitions.rejudge import RejudgeMethod, RejudgeOrder, RejudgeState
from grader_extensions.competitions.tests.ledger_actions import LedgerActions
from grader_extensions.operation.check import contents
from sandbox.protocol import wire
from tests import fakes
from tests.board_rows import filled, rows
from tests.clock import Clock
from tests.contract import test_reuse
from tests.vm_steps import vm_steps

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CURRENT = replace(fakes.problem(), spec=replace(fakes.problem().spec, digest="f" * 64))
WRONG = replace(fakes.report(), verdict=Verdict.WRONG_ANSWER, reason="MISMATCH", summary="No.", score=None)
BY_FACTS = RejudgeOrder(cause="another tolerance", problem_id="sum")
BY_RUNS = replace(BY_FACTS, method=RejudgeMethod.RUN)
CUP = Competition(
    competition_id="cup", title="Cup", problem_ids=("sum",), start_time=NOW - timedelta(days=1), end_time=NOW + timedelta(days=1)
)


@pytest.fixture
def clock():
    return Clock(NOW, step_s=1)


def scored(value, half=0.01):
    return replace(fakes.report(), score=Score(value=value, low=value - half, high=value + half))


async def graded(ledger, report=None, facts=(fakes.ENVIRONMENT,), **fields):
    submission = await ledger.submit(fakes.new_submission(**fields), fakes.problem())
    lease = await ledger.lease("w", ttl_s=30)
    assert lease.submission.submission_id == submission.submission_id
    await ledger.append(lease, facts)
    await ledger.settle(lease, report or fakes.report())
    return await ledger.get(submission.submission_id)


async def ask(ledger, work, *arguments):
    return await ledger.database.write(lambda connection: work(connection, *arguments))


async def write(ledger, work, *arguments, **named):
    return await ledger.database.write(lambda connection: work(connection, ledger.now(), *arguments, **named))


async def create(ledger, order=BY_FACTS, request_id="", user="root"):
    candidates = await ask(ledger, rejudges.candidates, order, order.submission_ids or None)
    numbers = {CURRENT.digest: [candidate.number for candidate in candidates]}
    return await write(ledger, rejudges.create, order, user, request_id, numbers, [CURRENT], rejudge_id=secrets.token_hex(8))


async def by_facts(ledger, report):
    """Decide everything that waits by this report."""
    while batch := await ask(ledger, rejudges.undecided, 10):
        await write(ledger, rejudges.decide, [(item, report) for item in batch])


async def ready(ledger, report=WRONG, order=BY_FACTS):
    rejudge = await create(ledger, order)
    await by_facts(ledger, report)
    return rejudge.rejudge_id


async def counted(ledger, table):
    return await ledger.database.read(lambda connection: connection.scalar(sa.select(sa.func.count()).select_from(table)))


async def test_what_is_chosen_waits_to_be_decided(ledger):
    """The item comes with the facts of the attempt that counts and with both problems; nothing else of it changes."""
    submission = await graded(ledger, facts=[fakes.ENVIRONMENT, fakes.trial()])
    rejudge = await create(ledger)
    assert (rejudge.state, rejudge.submission_count, rejudge.pending_count) == (RejudgeState.RUNNING, 1, 1)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert (item.submission_id, item.old_digest, item.new_digest) == (submission.submission_id, submission.problem_digest, CURRENT.digest)
    assert len(item.lines) == 2 and await ledger.get(submission.submission_id) == submission


async def test_facts_of_an_attempt_that_was_lost_are_not_taken(ledger):
    """Only the attempt that was settled counts."""
    await ledger.submit(fakes.new_submission(), fakes.problem())
    lost = await ledger.lease("w", ttl_s=30)
    await ledger.append(lost, [fakes.ENVIRONMENT, fakes.trial()])
    await ledger.reclaim_all()
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.append(lease, [fakes.measurement()])
    await ledger.settle(lease, fakes.report())
    await create(ledger)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert [wire.decode(line.encode()) for line in item.lines] == [fakes.measurement()]


async def test_only_what_was_graded_is_chosen(ledger):
    """Not what waits, nor what was cancelled, nor another problem's, nor what another rejudge runs."""
    submission = await graded(ledger)
    await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    waiting = await ledger.submit(fakes.new_submission(), fakes.problem())
    cancelled = await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.cancel(cancelled.submission_id)
    (candidate,) = await ask(ledger, rejudges.candidates, BY_FACTS)
    assert candidate.submission_id == submission.submission_id and candidate.state == SubmissionState.SUCCEEDED
    named = await ask(ledger, rejudges.candidates, BY_FACTS, [waiting.submission_id])
    assert [entry.state for entry in named] == [SubmissionState.QUEUED]
    with pytest.raises(SubmissionNotFound, match="nope"):
        await ask(ledger, rejudges.candidates, BY_FACTS, ["nope"])


async def test_the_same_request_makes_one_rejudge(ledger):
    """Even twice at once; with another order it is refused, and another user's is another one."""
    await graded(ledger)
    created = await asyncio.gather(*(create(ledger, request_id="r") for _ in range(4)))
    assert len({rejudge.rejudge_id for rejudge in created}) == 1
    assert (await ask(ledger, rejudges.by_request, "root", "r", BY_FACTS)).rejudge_id == created[0].rejudge_id
    with pytest.raises(RequestIdReused):
        await create(ledger, BY_RUNS, request_id="r")
    assert (await create(ledger, request_id="r", user="other")).rejudge_id != created[0].rejudge_id


async def test_a_preview_changes_nothing_and_applying_gives_it(ledger):
    """Before: the judgement that counts. After: the one that will, which applying copies into the submission."""
    submission = await graded(ledger, scored(2.0))
    rejudge_id = await ready(ledger)
    assert await ledger.get(submission.submission_id) == submission
    rejudge, (change,) = await ask(ledger, rejudges.get, rejudge_id), await ask(ledger, rejudges.changes, rejudge_id, [])
    assert (rejudge.state, rejudge.refolded_count, rejudge.rerun_count, rejudge.pending_count) == (RejudgeState.READY, 1, 0, 0)
    assert (change.before.verdict, change.before.score.value, change.after.verdict) == (Verdict.ACCEPTED, 2.0, Verdict.WRONG_ANSWER)
    await write(ledger, rejudges.apply, rejudge_id)
    applied, history = await ledger.get(submission.submission_id), await ledger.judgements(submission.submission_id)
    assert (applied.report, applied.score, applied.problem_digest) == (WRONG, None, CURRENT.digest)
    assert [(was.sequence, was.verdict, was.rejudge_id) for was in history] == [
        (1, Verdict.ACCEPTED, ""),
        (2, Verdict.WRONG_ANSWER, rejudge_id),
    ]
    assert (history[0], replace(history[1], create_time=change.after.create_time)) == (change.before, change.after)
    assert await ask(ledger, rejudges.changes, rejudge_id, []) == [replace(change, after=history[1])]


async def test_a_second_time_changes_nothing(ledger):
    """Whoever did not get the answer asks again; the other way round it is refused."""
    submission = await graded(ledger)
    rejudge_id = await ready(ledger)
    for _ in range(2):
        await write(ledger, rejudges.apply, rejudge_id)
    assert len(await ledger.judgements(submission.submission_id)) == 2
    with pytest.raises(RejudgeNotReady):
        await write(ledger, rejudges.discard, rejudge_id)
    second_id = await ready(ledger)
    for _ in range(2):
        await write(ledger, rejudges.discard, second_id)
    with pytest.raises(RejudgeNotReady):
        await write(ledger, rejudges.apply, second_id)
    assert len(await ledger.judgements(submission.submission_id)) == 2


async def test_what_is_not_decided_can_not_be_applied(ledger):
    """Half a rejudge would be an unfair one."""
    await graded(ledger)
    rejudge = await create(ledger)
    with pytest.raises(RejudgeNotReady, match="RUNNING"):
        await write(ledger, rejudges.apply, rejudge.rejudge_id)
    for call in (ask(ledger, rejudges.get, "x"), write(ledger, rejudges.apply, "x"), write(ledger, rejudges.discard, "x")):
        with pytest.raises(RejudgeNotFound):
            await call


async def test_another_rejudge_in_between_is_not_overwritten(ledger):
    """Two that were made beside each other: the second to be applied is refused as a whole."""
    first, second = await graded(ledger), await graded(ledger)
    narrow = replace(BY_FACTS, submission_ids=(second.submission_id,))
    wide, second_id = await ready(ledger), await ready(ledger, fakes.report(), narrow)
    await write(ledger, rejudges.apply, second_id)
    with pytest.raises(RejudgeOutdated, match=second.submission_id):
        await write(ledger, rejudges.apply, wide)
    assert (await ledger.get(first.submission_id)).report.verdict is Verdict.ACCEPTED
    assert (await ask(ledger, rejudges.get, wide)).state is RejudgeState.READY
    await write(ledger, rejudges.discard, wide)
    await write(ledger, rejudges.apply, await ready(ledger))
    assert len(await ledger.judgements(second.submission_id)) == 3


async def test_a_run_is_graded_like_any_other_and_decides(ledger):
    """By the new problem, with the same sources, for the device that was asked for; its judgement is there with its verdict."""
    submission = await graded(ledger, user="ann")
    rejudge = await create(ledger, replace(BY_RUNS, device_kind="cuda:H200"))
    await by_facts(ledger, None)
    lease = await ledger.lease("w", ttl_s=30, device_kinds=("cuda", "cuda:NVIDIA H200"))
    assert lease.problem == CURRENT and lease.submission.new == replace(submission.new, device_kind="cuda:H200")
    assert lease.submission.rejudge_id == rejudge.rejudge_id and lease.submission.submission_id != submission.submission_id
    await ledger.append(lease, [fakes.trial()])
    await ledger.settle(lease, WRONG)
    decided = await ask(ledger, rejudges.get, rejudge.rejudge_id)
    assert (decided.state, decided.rerun_count, decided.refolded_count) == (RejudgeState.READY, 1, 0)
    await write(ledger, rejudges.apply, rejudge.rejudge_id)
    assert (await ledger.get(submission.submission_id)).report == WRONG and await whole(ledger)
    await create(ledger)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert [wire.decode(line.encode()) for line in item.lines] == [fakes.trial()]  # of the run: it counts


async def test_a_run_is_nobodys_submission(ledger):
    """A run is on no list, takes no room in the queue, comes after everybody, and is charged to nobody."""
    submission = await graded(ledger, user="ann")
    await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    assert [shown.submission_id for shown in (await ledger.page(size=9))[0]] == [submission.submission_id]
    assert await fakes.queued_count(ledger) == 0
    late = await ledger.submit(fakes.new_submission(), fakes.problem(), queue_limit=1)
    first, second = await ledger.lease("w", ttl_s=30), await ledger.lease("w", ttl_s=30)
    assert first.submission.submission_id == late.submission_id and second.submission.rejudge_id
    await ledger.settle(second, fakes.report())


async def test_a_run_on_a_board_is_not_there(ledger):
    """A rejudge's run counts when it is applied, and then for the submission alone."""
    submission = await graded(ledger, scored(2.0), competition_id="cup", mode=wire.Mode.RANKED)
    rejudge = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    await ledger.settle(await ledger.lease("w", ttl_s=30), scored(3.0))
    assert [(shown.submission_id, shown.score.value) for shown in await read_standings(ledger, CUP)] == [(submission.submission_id, 2.0)]
    await write(ledger, rejudges.apply, rejudge.rejudge_id)
    assert [(shown.submission_id, shown.score.value) for shown in await read_standings(ledger, CUP)] == [(submission.submission_id, 3.0)]


async def test_a_run_that_we_fail_at_three_times_is_said_and_can_be_tried_again(ledger):
    """A failed run stays undecided, so nothing is applied; trying again makes another run, and only of what failed."""
    await graded(ledger)
    rejudge = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    for _ in range(3):
        await ledger.release(await ledger.lease("w", ttl_s=30), Failure(reason="SANDBOX_BROKEN", message="no box"))
    failed = await ask(ledger, rejudges.get, rejudge.rejudge_id)
    assert (failed.state, failed.pending_count, failed.failed_count) == (RejudgeState.RUNNING, 1, 1)
    assert await ask(ledger, rejudges.undecided, 10) == []  # not by itself
    assert await ask(ledger, rejudges.try_again, rejudge.rejudge_id) == 1
    await by_facts(ledger, None)
    await ledger.settle(await ledger.lease("w", ttl_s=30), fakes.report())
    assert (await ask(ledger, rejudges.get, rejudge.rejudge_id)).state is RejudgeState.READY
    assert await ask(ledger, rejudges.try_again, rejudge.rejudge_id) == 0


async def test_what_has_no_sources_any_more_can_not_be_run(ledger):
    """That is reported as a failure, and nothing waits for it for ever."""
    submission = await graded(ledger)
    empty = sa.update(submissions).where(submissions.c.submission_id == submission.submission_id).values(sources="")
    await ledger.database.write(lambda connection: connection.execute(empty))
    rejudge = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    assert (await ask(ledger, rejudges.get, rejudge.rejudge_id)).failed_count == 1 and await ledger.lease("w", ttl_s=30) is None


async def test_discarding_cancels_what_waits_and_stops_what_runs(ledger):
    """A verdict that comes too late decides nothing."""
    for _ in range(3):
        await graded(ledger)
    rejudge = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    lease, late = await ledger.lease("w", ttl_s=30), await ledger.lease("w", ttl_s=30)
    *stopped, cancelled = await write(ledger, rejudges.discard, rejudge.rejudge_id)
    assert stopped == [lease.submission.submission_id, late.submission.submission_id]
    assert (await ledger.get(cancelled)).state is SubmissionState.CANCELLED
    assert await ledger.heartbeat(lease, ttl_s=30) is True and await ledger.lease("w", ttl_s=30) is None
    await ledger.settle(late, WRONG)
    discarded = await ask(ledger, rejudges.get, rejudge.rejudge_id)
    assert (discarded.state, discarded.pending_count) == (RejudgeState.DISCARDED, 3)
    assert await whole(ledger)
    assert await ask(ledger, rejudges.undecided, 10) == []


async def test_two_servers_that_decide_the_same_make_one_run(ledger):
    """Whoever is second finds it decided."""
    await graded(ledger)
    await create(ledger, BY_RUNS)
    batch = await ask(ledger, rejudges.undecided, 10)
    run_counts = await asyncio.gather(*(write(ledger, rejudges.decide, [(item, None) for item in batch]) for _ in range(3)))
    assert sorted(run_counts) == [0, 0, 1] and await counted(ledger, submissions) == 2


async def test_a_preview_of_ranks_is_what_applying_gives(ledger):
    """Boards with the rejudge, entry by entry, are the boards that are there when it was applied."""
    people = [("ann", 3.0), ("bob", 2.9), ("cy", 2.0), ("dan", 1.0), ("ann", 2.5), ("bob", 2.8)]
    entries = [await graded(ledger, scored(value), user=user, competition_id="cup", mode=wire.Mode.RANKED) for user, value in people]
    await graded(ledger, scored(9.0), user="eve")  # to no competition: on no board
    rejudge = await create(ledger, replace(BY_FACTS, competition_id="cup"))
    fates = {entries[0].submission_id: WRONG, entries[2].submission_id: scored(2.795), entries[3].submission_id: scored(1.0)}
    for item in await ask(ledger, rejudges.undecided, 10):
        await write(ledger, rejudges.decide, [(item, fates.get(item.submission_id, fakes.report()))])
    before = await board(ledger)
    changes = await ask(ledger, rejudges.changes, rejudge.rejudge_id, [CUP])
    (best,) = rejudges.shown(changes, 1)
    assert rejudges.shown(changes) == changes and best in changes and best.rank_after == 1  # where an answer holds no more
    assert await board(ledger) == before == {change.submission_id: change.rank_before for change in changes if change.rank_before}
    await write(ledger, rejudges.apply, rejudge.rejudge_id)
    after = await board(ledger)
    assert after == {change.submission_id: change.rank_after for change in changes if change.rank_after} and after != before
    assert [(change.rank_before, change.rank_after) for change in await ask(ledger, rejudges.changes, rejudge.rejudge_id, [CUP])] == [
        (change.rank_before, change.rank_after) for change in changes
    ]


async def board(ledger):
    """Ranks by submission."""
    shown = leaderboard.board(CUP, await read_standings(ledger, CUP), device="fake")
    return {entry.submission_id: entry.rank for entry in shown.entries}


async def whole(ledger):
    """Return whether all that `grader-server check` looks at is as promised."""
    return all(check.ok for check in await ledger.database.read(contents))


async def test_a_large_rejudge_is_applied_in_one_transaction(ledger):
    """More than fit into one statement; all of them, or none."""
    submission = await graded(ledger)

    def multiply(connection):
        row = connection.execute(sa.select(submissions).where(submissions.c.submission_id == submission.submission_id)).one()._mapping
        first = connection.execute(sa.select(judgements)).one()._mapping
        rows = [{**row, "number": row["number"] + n, "submission_id": f"s{n}"} for n in range(1, 600)]
        connection.execute(sa.insert(submissions), rows)
        connection.execute(sa.insert(judgements), [{**first, "number": row_of_copy["number"]} for row_of_copy in rows])

    await ledger.database.write(multiply)
    order = replace(BY_FACTS, submission_ids=())
    rejudge = await create(ledger, order)
    await ledger.database.write(lambda connection: connection.execute(sa.update(rejudge_items).values(records.judged(WRONG))))
    await write(ledger, rejudges.apply, rejudge.rejudge_id)
    assert len(await ask(ledger, rejudges.changes, rejudge.rejudge_id, [])) == 600
    graded_wrong = await ledger.database.read(
        lambda connection: connection.scalar(
            sa.select(sa.func.count()).where(submissions.c.verdict == "WRONG_ANSWER", submissions.c.state == SubmissionState.SUCCEEDED)
        )
    )
    assert graded_wrong == 600


async def test_a_sweep_is_not_judged_again(ledger):
    """A sweep has sizes of its own; by the problem's, with its hidden ones, it would be another kind of run. The control: another mode."""
    swept, plain = await graded(ledger, mode=wire.Mode.SWEEP), await graded(ledger)
    assert [candidate.submission_id for candidate in await ask(ledger, rejudges.candidates, BY_RUNS)] == [plain.submission_id]
    with pytest.raises(SubmissionNotFound):
        await ask(ledger, rejudges.candidates, BY_RUNS, [swept.submission_id])


async def test_what_is_withdrawn_or_banned_has_no_rank_in_a_preview_and_stays_so_when_it_is_applied(ledger):
    """A judgement is copied into the row that says who withdrew it. The control is the one that is left."""
    by_user = {
        user: await graded(ledger, scored(2.0), user=user, competition_id="cup", mode=wire.Mode.RANKED) for user in ("ann", "bob", "cyd")
    }
    await LedgerActions(ledger).withdraw(by_user["ann"].submission_id, CUP, Caller(user="root"), "copied")
    await LedgerActions(ledger).ban("cup", "bob", "root", "copied")
    rejudge_id = await ready(ledger, scored(3.0))
    changes = await ask(ledger, rejudges.changes, rejudge_id, [CUP])
    assert {change.user: (change.rank_before, change.rank_after) for change in changes} == {"ann": (0, 0), "bob": (0, 0), "cyd": (1, 1)}
    await write(ledger, rejudges.apply, rejudge_id)
    withdrawn = await ledger.get(by_user["ann"].submission_id)
    assert withdrawn.score == scored(3.0).score and withdrawn.withdrawal.reason == "copied"
    assert [standing.user for standing in await read_standings(ledger, CUP)] == ["cyd"]


async def test_a_rejudge_of_a_reused_result_finds_its_facts(ledger):
    """They are the other's: a rejudge decides both from the same."""
    pair = [await test_reuse.graded(ledger), await test_reuse.submit(ledger)]
    order = RejudgeOrder(cause="another rule", problem_id="sum")
    candidates = await ask(ledger, rejudges.candidates, order, None)
    assert len(candidates) == 2
    numbers = {fakes.problem().digest: [candidate.number for candidate in candidates]}
    await write(ledger, rejudges.create, order, "root", "", numbers, [fakes.problem()], rejudge_id="r")
    items = await ask(ledger, rejudges.undecided, 10)
    assert {item.submission_id for item in items} == {submission.submission_id for submission in pair}
    assert len(items[0].lines) == 1 and items[0].lines == items[1].lines


async def test_the_last_of_a_large_rejudge_are_chosen_as_quickly_as_the_first(tmp_path):
    """Those that are decided are not looked through again for each batch: many batches would take the square of that."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await filled(ledger, rows(1000))
        await create(ledger, replace(BY_FACTS, submission_ids=(), problem_id="", competition_id="spring"))

        async def steps():
            return await vm_steps(ledger, lambda connection: rejudges.undecided(connection, 5))

        before = await steps()
        change = sa.update(rejudge_items).where(rejudge_items.c.number <= 990).values(records.judged(WRONG))
        await ledger.database.write(lambda connection: connection.execute(change))
        assert await steps() <= 2 * before
        assert len(await ask(ledger, rejudges.undecided, 100)) == 10


async def test_who_is_banned_is_listed_without_a_look_at_all_submissions(tmp_path):
    """How many each banned user has handed in is counted in an index."""
    async with Ledger.open(tmp_path / "l") as ledger:
        await filled(ledger, rows(2000))  # ten of each user
        await LedgerActions(ledger).ban("spring", "user-1", "root", "copied")
        (ban,) = await LedgerActions(ledger).bans_of("spring")
        assert ban.submission_count == 10
        assert await vm_steps(ledger, lambda connection: actions.bans_of(connection, "spring")) < 500
