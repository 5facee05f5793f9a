"""What the ledger promises of rejudges, whatever database is under it."""

import asyncio
import json
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
from grader_extensions.operation.ledger_checks import contents
from sandbox.protocol import wire
from tests import fakes
from tests.board_rows import filled, rows
from tests.clock import Clock
from tests.contract import test_reuse
from tests.vm_steps import vm_steps

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NEW = replace(fakes.problem(), spec=replace(fakes.problem().spec, digest="f" * 64))
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
    made = await ledger.submit(fakes.new_submission(**fields), fakes.problem())
    held = await ledger.lease("w", ttl_s=30)
    assert held.submission.submission_id == made.submission_id
    await ledger.append(held, facts)
    await ledger.settle(held, report or fakes.report())
    return await ledger.get(made.submission_id)


async def ask(ledger, work, *arguments):
    return await ledger.database.write(lambda connection: work(connection, *arguments))


async def write(ledger, work, *arguments, **named):
    return await ledger.database.write(lambda connection: work(connection, ledger.now(), *arguments, **named))


async def create(ledger, order=BY_FACTS, request_id="", user="root"):
    found = await ask(ledger, rejudges.candidates, order, order.submission_ids or None)
    numbers = {NEW.digest: [one.number for one in found]}
    return await write(ledger, rejudges.create, order, user, request_id, numbers, [NEW], rejudge_id=secrets.token_hex(8))


async def by_facts(ledger, report):
    """Decide everything that waits by this report."""
    while batch := await ask(ledger, rejudges.undecided, 10):
        await write(ledger, rejudges.decide, [(one, report) for one in batch])


async def ready(ledger, report=WRONG, order=BY_FACTS):
    made = await create(ledger, order)
    await by_facts(ledger, report)
    return made.rejudge_id


async def counted(ledger, table):
    return await ledger.database.read(lambda connection: connection.scalar(sa.select(sa.func.count()).select_from(table)))


async def test_what_is_chosen_waits_to_be_decided(ledger):
    """It comes with the facts of the attempt that counts and with both problems, and nothing else of it changes."""
    one = await graded(ledger, facts=[fakes.ENVIRONMENT, fakes.trial()])
    made = await create(ledger)
    assert (made.state, made.submission_count, made.pending_count) == (RejudgeState.RUNNING, 1, 1)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert (item.submission_id, item.old_digest, item.new_digest) == (one.submission_id, one.problem_digest, NEW.digest)
    assert len(item.lines) == 2 and await ledger.get(one.submission_id) == one


async def test_facts_of_an_attempt_that_was_lost_are_not_taken(ledger):
    """Only the attempt that was settled counts."""
    await ledger.submit(fakes.new_submission(), fakes.problem())
    lost = await ledger.lease("w", ttl_s=30)
    await ledger.append(lost, [fakes.ENVIRONMENT, fakes.trial()])
    await ledger.reclaim_all()
    held = await ledger.lease("w", ttl_s=30)
    await ledger.append(held, [fakes.measurement()])
    await ledger.settle(held, fakes.report())
    await create(ledger)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert [wire.from_json(json.loads(line)) for line in item.lines] == [fakes.measurement()]


async def test_only_what_was_graded_is_chosen(ledger):
    """Not what waits, nor what was cancelled, nor another problem's, nor what another rejudge runs."""
    one = await graded(ledger)
    await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    waiting = await ledger.submit(fakes.new_submission(), fakes.problem())
    cancelled = await ledger.submit(fakes.new_submission(), fakes.problem())
    await ledger.cancel(cancelled.submission_id)
    found = await ask(ledger, rejudges.candidates, BY_FACTS)
    assert [one.submission_id for one in found] == [one.submission_id] and found[0].state == SubmissionState.SUCCEEDED
    named = await ask(ledger, rejudges.candidates, BY_FACTS, [waiting.submission_id])
    assert [one.state for one in named] == [SubmissionState.QUEUED]
    with pytest.raises(SubmissionNotFound, match="nope"):
        await ask(ledger, rejudges.candidates, BY_FACTS, ["nope"])


async def test_the_same_request_makes_one_rejudge(ledger):
    """Even twice at once; with another order it is refused, and another user's is another one."""
    await graded(ledger)
    made = await asyncio.gather(*(create(ledger, request_id="r") for _ in range(4)))
    assert len({one.rejudge_id for one in made}) == 1
    assert (await ask(ledger, rejudges.by_request, "root", "r", BY_FACTS)).rejudge_id == made[0].rejudge_id
    with pytest.raises(RequestIdReused):
        await create(ledger, BY_RUNS, request_id="r")
    assert (await create(ledger, request_id="r", user="other")).rejudge_id != made[0].rejudge_id


async def test_a_preview_changes_nothing_and_applying_gives_it(ledger):
    """Before: the judgement that counts. After: the one that will, which applying copies into the submission."""
    one = await graded(ledger, scored(2.0))
    rejudge_id = await ready(ledger)
    assert await ledger.get(one.submission_id) == one
    found, (change,) = await ask(ledger, rejudges.get, rejudge_id), await ask(ledger, rejudges.changes, rejudge_id, [])
    assert (found.state, found.refolded_count, found.rerun_count, found.pending_count) == (RejudgeState.READY, 1, 0, 0)
    assert (change.before.verdict, change.before.score.value, change.after.verdict) == (Verdict.ACCEPTED, 2.0, Verdict.WRONG_ANSWER)
    await write(ledger, rejudges.apply, rejudge_id)
    applied, history = await ledger.get(one.submission_id), await ledger.judgements(one.submission_id)
    assert (applied.report, applied.score, applied.problem_digest) == (WRONG, None, NEW.digest)
    assert [(was.sequence, was.verdict, was.rejudge_id) for was in history] == [
        (1, Verdict.ACCEPTED, ""),
        (2, Verdict.WRONG_ANSWER, rejudge_id),
    ]
    assert (history[0], replace(history[1], create_time=change.after.create_time)) == (change.before, change.after)
    assert await ask(ledger, rejudges.changes, rejudge_id, []) == [replace(change, after=history[1])]


async def test_a_second_time_changes_nothing(ledger):
    """Whoever did not get the answer asks again; the other way round it is refused."""
    one = await graded(ledger)
    rejudge_id = await ready(ledger)
    for _ in range(2):
        await write(ledger, rejudges.apply, rejudge_id)
    assert len(await ledger.judgements(one.submission_id)) == 2
    with pytest.raises(RejudgeNotReady):
        await write(ledger, rejudges.discard, rejudge_id)
    other = await ready(ledger)
    for _ in range(2):
        await write(ledger, rejudges.discard, other)
    with pytest.raises(RejudgeNotReady):
        await write(ledger, rejudges.apply, other)
    assert len(await ledger.judgements(one.submission_id)) == 2


async def test_what_is_not_decided_can_not_be_applied(ledger):
    """Half a rejudge would be an unfair one."""
    await graded(ledger)
    made = await create(ledger)
    with pytest.raises(RejudgeNotReady, match="RUNNING"):
        await write(ledger, rejudges.apply, made.rejudge_id)
    for call in (ask(ledger, rejudges.get, "x"), write(ledger, rejudges.apply, "x"), write(ledger, rejudges.discard, "x")):
        with pytest.raises(RejudgeNotFound):
            await call


async def test_another_rejudge_in_between_is_not_overwritten(ledger):
    """Two that were made beside each other: the second to be applied is refused as a whole."""
    first, second = await graded(ledger), await graded(ledger)
    narrow = replace(BY_FACTS, submission_ids=(second.submission_id,))
    wide, other = await ready(ledger), await ready(ledger, fakes.report(), narrow)
    await write(ledger, rejudges.apply, other)
    with pytest.raises(RejudgeOutdated, match=second.submission_id):
        await write(ledger, rejudges.apply, wide)
    assert (await ledger.get(first.submission_id)).report.verdict is Verdict.ACCEPTED
    assert (await ask(ledger, rejudges.get, wide)).state is RejudgeState.READY
    await write(ledger, rejudges.discard, wide)
    await write(ledger, rejudges.apply, await ready(ledger))
    assert len(await ledger.judgements(second.submission_id)) == 3


async def test_a_run_is_graded_like_any_other_and_decides(ledger):
    """By the new problem, with the same sources, for the device that was asked for; its judgement is there with its verdict."""
    one = await graded(ledger, user="ann")
    made = await create(ledger, replace(BY_RUNS, device_kind="cuda:H200"))
    await by_facts(ledger, None)
    held = await ledger.lease("w", ttl_s=30, device_kinds=("cuda", "cuda:NVIDIA H200"))
    assert held.problem == NEW and held.submission.new == replace(one.new, device_kind="cuda:H200")
    assert held.submission.rejudge_id == made.rejudge_id and held.submission.submission_id != one.submission_id
    await ledger.append(held, [fakes.trial()])
    await ledger.settle(held, WRONG)
    found = await ask(ledger, rejudges.get, made.rejudge_id)
    assert (found.state, found.rerun_count, found.refolded_count) == (RejudgeState.READY, 1, 0)
    await write(ledger, rejudges.apply, made.rejudge_id)
    assert (await ledger.get(one.submission_id)).report == WRONG and await whole(ledger)
    await create(ledger)
    (item,) = await ask(ledger, rejudges.undecided, 10)
    assert [wire.from_json(json.loads(line)) for line in item.lines] == [fakes.trial()]  # of the run: it counts


async def test_a_run_is_nobodys_submission(ledger):
    """It is on no list, takes no room in the queue, comes after everybody, is and charged to nobody."""
    one = await graded(ledger, user="ann")
    await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    assert [shown.submission_id for shown in (await ledger.page(size=9))[0]] == [one.submission_id]
    assert await fakes.queued_count(ledger) == 0
    late = await ledger.submit(fakes.new_submission(), fakes.problem(), queue_limit=1)
    first, second = await ledger.lease("w", ttl_s=30), await ledger.lease("w", ttl_s=30)
    assert first.submission.submission_id == late.submission_id and second.submission.rejudge_id
    await ledger.settle(second, fakes.report())


async def test_a_run_on_a_board_is_not_there(ledger):
    """What a rejudge runs counts when it is applied, and then for the submission alone."""
    one = await graded(ledger, scored(2.0), competition_id="cup", mode=wire.Mode.RANKED)
    made = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    await ledger.settle(await ledger.lease("w", ttl_s=30), scored(3.0))
    assert [(shown.submission_id, shown.score.value) for shown in await read_standings(ledger, CUP)] == [(one.submission_id, 2.0)]
    await write(ledger, rejudges.apply, made.rejudge_id)
    assert [(shown.submission_id, shown.score.value) for shown in await read_standings(ledger, CUP)] == [(one.submission_id, 3.0)]


async def test_a_run_that_we_fail_at_three_times_is_said_and_can_be_tried_again(ledger):
    """It stays undecided, so that nothing is applied; trying again makes another run, and only of what failed."""
    await graded(ledger)
    made = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    for _ in range(3):
        await ledger.release(await ledger.lease("w", ttl_s=30), Failure(reason="SANDBOX_BROKEN", message="no box"))
    found = await ask(ledger, rejudges.get, made.rejudge_id)
    assert (found.state, found.pending_count, found.failed_count) == (RejudgeState.RUNNING, 1, 1)
    assert await ask(ledger, rejudges.undecided, 10) == []  # not by itself
    assert await ask(ledger, rejudges.try_again, made.rejudge_id) == 1
    await by_facts(ledger, None)
    await ledger.settle(await ledger.lease("w", ttl_s=30), fakes.report())
    assert (await ask(ledger, rejudges.get, made.rejudge_id)).state is RejudgeState.READY
    assert await ask(ledger, rejudges.try_again, made.rejudge_id) == 0


async def test_what_has_no_sources_any_more_can_not_be_run(ledger):
    """That is reported as a failure, and nothing waits for it for ever."""
    one = await graded(ledger)
    empty = sa.update(submissions).where(submissions.c.submission_id == one.submission_id).values(sources="")
    await ledger.database.write(lambda connection: connection.execute(empty))
    made = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    assert (await ask(ledger, rejudges.get, made.rejudge_id)).failed_count == 1 and await ledger.lease("w", ttl_s=30) is None


async def test_discarding_cancels_what_waits_and_stops_what_runs(ledger):
    """A verdict that comes too late decides nothing."""
    for _ in range(3):
        await graded(ledger)
    made = await create(ledger, BY_RUNS)
    await by_facts(ledger, None)
    held, late = await ledger.lease("w", ttl_s=30), await ledger.lease("w", ttl_s=30)
    stopped = await write(ledger, rejudges.discard, made.rejudge_id)
    assert stopped == [held.submission.submission_id, late.submission.submission_id]
    assert await ledger.heartbeat(held, ttl_s=30) is True and await ledger.lease("w", ttl_s=30) is None
    await ledger.settle(late, WRONG)
    found = await ask(ledger, rejudges.get, made.rejudge_id)
    assert (found.state, found.pending_count) == (RejudgeState.DISCARDED, 3)
    assert await whole(ledger)
    assert await ask(ledger, rejudges.undecided, 10) == []


async def test_two_servers_that_decide_the_same_make_one_run(ledger):
    """Whoever is second finds it decided."""
    await graded(ledger)
    await create(ledger, BY_RUNS)
    batch = await ask(ledger, rejudges.undecided, 10)
    made = await asyncio.gather(*(write(ledger, rejudges.decide, [(one, None) for one in batch]) for _ in range(3)))
    assert sorted(made) == [0, 0, 1] and await counted(ledger, submissions) == 2


async def test_a_preview_of_ranks_is_what_applying_gives(ledger):
    """Boards with the rejudge, entry by entry, are the boards that are there when it was applied."""
    people = [("ann", 3.0), ("bob", 2.9), ("cy", 2.0), ("dan", 1.0), ("ann", 2.5), ("bob", 2.8)]
    made = [await graded(ledger, scored(value), user=user, competition_id="cup", mode=wire.Mode.RANKED) for user, value in people]
    await graded(ledger, scored(9.0), user="eve")  # to no competition: on no board
    found = await create(ledger, replace(BY_FACTS, competition_id="cup"))
    fates = {made[0].submission_id: WRONG, made[2].submission_id: scored(2.795), made[3].submission_id: scored(1.0)}
    for one in await ask(ledger, rejudges.undecided, 10):
        await write(ledger, rejudges.decide, [(one, fates.get(one.submission_id, fakes.report()))])
    before = await board(ledger)
    changes = await ask(ledger, rejudges.changes, found.rejudge_id, [CUP])
    assert await board(ledger) == before == {change.submission_id: change.rank_before for change in changes if change.rank_before}
    await write(ledger, rejudges.apply, found.rejudge_id)
    after = await board(ledger)
    assert after == {change.submission_id: change.rank_after for change in changes if change.rank_after} and after != before
    assert [(one.rank_before, one.rank_after) for one in await ask(ledger, rejudges.changes, found.rejudge_id, [CUP])] == [
        (one.rank_before, one.rank_after) for one in changes
    ]


async def board(ledger):
    """Ranks by submission."""
    made = leaderboard.board(CUP, await read_standings(ledger, CUP), device="fake")
    return {entry.submission_id: entry.rank for entry in made.entries}


async def whole(ledger):
    """Whether all that `grader-server check` looks at is as promised."""
    return all(one.ok for one in await ledger.database.read(contents))


async def test_a_large_rejudge_is_applied_in_one_transaction(ledger):
    """More than fit into one statement; all of them, or none."""
    one = await graded(ledger)

    def multiply(connection):
        row = connection.execute(sa.select(submissions).where(submissions.c.submission_id == one.submission_id)).one()._mapping
        first = connection.execute(sa.select(judgements)).one()._mapping
        rows = [{**row, "number": row["number"] + n, "submission_id": f"s{n}"} for n in range(1, 600)]
        connection.execute(sa.insert(submissions), rows)
        connection.execute(sa.insert(judgements), [{**first, "number": made["number"]} for made in rows])

    await ledger.database.write(multiply)
    order = replace(BY_FACTS, submission_ids=())
    made = await create(ledger, order)
    await ledger.database.write(lambda connection: connection.execute(sa.update(rejudge_items).values(records.judged(WRONG))))
    await write(ledger, rejudges.apply, made.rejudge_id)
    assert len(await ask(ledger, rejudges.changes, made.rejudge_id, [])) == 600
    graded_wrong = await ledger.database.read(
        lambda connection: connection.scalar(
            sa.select(sa.func.count()).where(submissions.c.verdict == "WRONG_ANSWER", submissions.c.state == SubmissionState.SUCCEEDED)
        )
    )
    assert graded_wrong == 600


async def test_a_sweep_is_not_judged_again(ledger):
    """It has sizes of its own; by the problem's, with its hidden ones, it would be another kind of run. The control: another mode is."""
    swept, plain = await graded(ledger, mode=wire.Mode.SWEEP), await graded(ledger)
    assert [one.submission_id for one in await ask(ledger, rejudges.candidates, BY_RUNS)] == [plain.submission_id]
    with pytest.raises(SubmissionNotFound):
        await ask(ledger, rejudges.candidates, BY_RUNS, [swept.submission_id])


async def test_what_is_withdrawn_or_banned_has_no_rank_in_a_preview_and_stays_so_when_it_is_applied(ledger):
    """A judgement is copied into the row that says who withdrew it. The control is the one that is left."""
    made = {
        user: await graded(ledger, scored(2.0), user=user, competition_id="cup", mode=wire.Mode.RANKED) for user in ("ann", "bob", "cyd")
    }
    await LedgerActions(ledger).withdraw(made["ann"].submission_id, CUP, Caller(user="root"), "copied")
    await LedgerActions(ledger).ban("cup", "bob", "root", "copied")
    rejudge_id = await ready(ledger, scored(3.0))
    changes = await ask(ledger, rejudges.changes, rejudge_id, [CUP])
    assert {one.user: (one.rank_before, one.rank_after) for one in changes} == {"ann": (0, 0), "bob": (0, 0), "cyd": (1, 1)}
    await write(ledger, rejudges.apply, rejudge_id)
    kept = await ledger.get(made["ann"].submission_id)
    assert kept.score == scored(3.0).score and kept.withdrawal.reason == "copied"
    assert [one.user for one in await read_standings(ledger, CUP)] == ["cyd"]


async def test_a_rejudge_of_a_reused_result_finds_its_facts(ledger):
    """They are the other's: a rejudge decides both from the same."""
    made = [await test_reuse.graded(ledger), await test_reuse.submit(ledger)]
    order = RejudgeOrder(cause="another rule", problem_id="sum")
    found = await ask(ledger, rejudges.candidates, order, None)
    assert len(found) == 2
    numbers = {fakes.problem().digest: [one.number for one in found]}
    await write(ledger, rejudges.create, order, "root", "", numbers, [fakes.problem()], rejudge_id="r")
    items = await ask(ledger, rejudges.undecided, 10)
    assert {one.submission_id for one in items} == {one.submission_id for one in made}
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
