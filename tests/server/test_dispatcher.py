"""The dispatcher against a real ledger, without a socket."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import sqlalchemy as sa

import grader.dispatch.dispatcher
from grader.dispatch.dispatcher import Dispatcher
from grader.errors import AlreadyFinished, DeviceQuarantined
from grader.ledger import Ledger
from grader.ledger.changes import NewsKind
from grader.ledger.tables import submissions
from grader.model import SubmissionState, Verdict
from grader.verdict.fold import IncompleteFacts, fold
from sandbox.protocol import wire
from tests import fakes
from tests.clock import Clock
from tests.waiting import until, until_event


@pytest.fixture
def clock():
    """By which leases go: they expire when a test says so, and not because the machine is busy."""
    return Clock()


@pytest.fixture
async def ledger(tmp_path, clock):
    async with Ledger.open(tmp_path / "l", clock) as opened:
        yield opened


@asynccontextmanager
async def dispatching(ledger, grade, *, patience_s=0.0, **options):
    dispatcher = Dispatcher(ledger, grade, **{"capacity": lambda: 2, "lease_s": 0.3, **options})
    async with asyncio.timeout(300), asyncio.TaskGroup() as group:
        group.create_task(dispatcher.run())
        yield dispatcher
        dispatcher.drain(patience_s)


async def submit(ledger, order):
    return await ledger.submit(fakes.new_submission(order), fakes.problem())


async def test_a_cancellation_by_another_process_is_seen_at_the_next_heartbeat(ledger):
    """Nobody has to call `check`."""
    grade = fakes.FakeGrade()
    async with dispatching(ledger, grade):
        submission = await submit(ledger, "hang")
        await until_event(ledger, submission, "Build")
        await ledger.cancel(submission.submission_id)
        await until_event(ledger, submission, SubmissionState.CANCELLED)
    assert grade.stopped == [submission.submission_id]


async def test_news_at_the_end_of_an_attempt_does_not_keep_its_heart_beating(ledger):
    """They come in the very step in which the heart is stopped; Python 3.11's `wait_for` would lose that, and nothing would be settled."""

    def fold_with_news(facts, ranking):
        dispatcher.check(submission.submission_id)
        return fold(facts, ranking)

    async with dispatching(ledger, fakes.FakeGrade(), fold=fold_with_news) as dispatcher:
        submission = await submit(ledger, "accept")
        await until_event(ledger, submission, SubmissionState.SUCCEEDED)


async def test_findings_come_after_the_verdict(ledger, clock):
    """The verdict is there while they are looked for, without a lease; then they are in the report, in its judgement and in the events.
    What else comes so late is left out, and changes nothing."""
    grade = fakes.LateFindings(fakes.PROFILE, fakes.trial(), wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="late"))
    async with dispatching(ledger, grade):
        submission = await submit(ledger, "wrong")
        settled = await until_event(ledger, submission, SubmissionState.SUCCEEDED)
        assert settled.report.verdict is Verdict.WRONG_ANSWER and settled.report.profile is None
        clock.pass_s(1000.0)
        assert await ledger.expire() == []
        grade.go.set()
        amended = await until_event(ledger, submission, "KernelProfile")
    assert amended == replace(settled, report=amended.report)
    assert amended.report.profile == fakes.PROFILE and amended.report.summary.startswith(settled.report.summary.rstrip("."))
    assert "The sanitizer reports: k.cu:3: two threads write." in amended.report.summary
    assert replace(amended.report, profile=None, summary=settled.report.summary) == settled.report
    assert [judgement.summary for judgement in await ledger.judgements(submission.submission_id)] == [amended.report.summary]
    events = await ledger.events(submission.submission_id)
    assert events[-1].fact == fakes.PROFILE and events[-2].state is SubmissionState.SUCCEEDED
    assert grade.attempts == [(submission.submission_id, 1)]
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))


@pytest.mark.parametrize("end", ["abandoned", "broken", "cancelled", "judged again"])
async def test_findings_that_are_lost_change_nothing(ledger, end):
    """The server leaves, the grader breaks, or a rejudge was quicker: the verdict stays, nothing is graded again, and it is late to
    cancel."""
    grade = fakes.LateFindings(OSError("no") if end == "broken" else fakes.PROFILE)
    async with dispatching(ledger, grade, patience_s=600.0) as dispatcher:
        submission = await submit(ledger, "wrong")
        settled = await until_event(ledger, submission, SubmissionState.SUCCEEDED)
        if end == "cancelled":
            with pytest.raises(AlreadyFinished):
                await ledger.cancel(submission.submission_id)
        if end in ("abandoned", "cancelled"):
            dispatcher.abandon()
        elif end == "judged again":
            await ledger.database.write(lambda connection: connection.execute(sa.update(submissions).values(judgement_count=2)))
            settled = replace(await ledger.get(submission.submission_id), judgement_count=2)
        if end not in ("abandoned", "cancelled"):
            grade.go.set()
        await until(lambda: not grade.running and not dispatcher._attempts)
    assert await ledger.get(submission.submission_id) == settled
    assert grade.attempts == [(submission.submission_id, 1)]


async def test_a_rejudge_takes_findings_with_its_verdict(ledger):
    """Nobody waits for it, and it copies the report as soon as that is settled."""
    grade = fakes.LateFindings(fakes.PROFILE)
    submission = await submit(ledger, "wrong")
    await ledger.database.write(lambda connection: connection.execute(sa.update(submissions).values(rejudge_id="r")))
    grade.go.set()
    async with dispatching(ledger, grade):
        settled = await until_event(ledger, submission, SubmissionState.SUCCEEDED)
    assert settled.report.profile == fakes.PROFILE


async def test_a_drain_waits_for_findings(ledger):
    """As for all that runs, for as long as its patience lasts."""
    grade = fakes.LateFindings(fakes.PROFILE)
    async with dispatching(ledger, grade, patience_s=600.0) as dispatcher:
        submission = await submit(ledger, "wrong")
        await until_event(ledger, submission, SubmissionState.SUCCEEDED)
        dispatcher.drain(600.0)
        grade.go.set()
    assert (await ledger.get(submission.submission_id)).report.profile == fakes.PROFILE


async def test_an_attempt_whose_lease_was_taken_is_stopped_and_settles_nothing(ledger):
    """The next attempt is the one that counts."""
    grade = fakes.FakeGrade()
    async with dispatching(ledger, grade):
        submission = await submit(ledger, "hang")
        await until_event(ledger, submission, "Build")
        await ledger.reclaim_all()
        while len(grade.attempts) < 2 or not grade.stopped:
            await asyncio.sleep(0.01)
    events = await ledger.events(submission.submission_id)
    assert [event.attempt for event in events if event.state is SubmissionState.RUNNING] == [1, 2]
    assert not any(event.state and event.state.final for event in events)


async def test_a_long_attempt_keeps_its_lease(ledger, clock, monkeypatch):
    """Several times the lease, one attempt: its heart beats. The control: over the same time without a beat it is lost."""
    beats, usual, accepting, lost = asyncio.Queue(), ledger.heartbeat, fakes.FakeGrade(), []

    async def heartbeat(lease, *, ttl_s):
        cancelled = await usual(lease, ttl_s=ttl_s)
        beats.put_nowait(lease)
        return cancelled

    async def grade(lease):
        for _ in range(8):
            clock.pass_s(0.2)
            lost.extend(await ledger.expire())
            for _ in range(beats.qsize() + 2):  # one that was under way may have looked at the clock before
                await beats.get()
        async for fact in accepting(lease):
            yield fact

    monkeypatch.setattr(ledger, "heartbeat", heartbeat)
    async with dispatching(ledger, grade, lease_s=0.3):
        submission = await submit(ledger, "accept")
        settled = await until_event(ledger, submission, SubmissionState.SUCCEEDED)
    assert settled.attempt_count == 1 and len(accepting.attempts) == 1 and lost == []
    await submit(ledger, "accept")
    second_lease = await ledger.lease("w", ttl_s=0.3)
    clock.pass_s(0.2 * 8)
    assert [expired.submission_id for expired in await ledger.expire()] == [second_lease.submission.submission_id]


@pytest.mark.parametrize("comes_back", [True, False], ids=["ready", "gone"])
async def test_a_submission_waits_for_its_own_gpu(ledger, comes_back):
    """The submission is not even leased while another GPU is ready, and no attempt is made. Then its GPU is ready; or it is known to have
    gone, as when a server is started again without it: the fleet gets it, to refuse it."""
    ready, known_kinds = ["cuda", "cuda:1", "cuda:NVIDIA H200"], []
    kinds = {"device_kinds": lambda: tuple(ready), "known_kinds": lambda: tuple(known_kinds)}
    async with dispatching(ledger, fakes.FakeGrade(), **kinds) as dispatcher:
        waiting = await ledger.submit(fakes.new_submission("accept", device_kind="cuda:0"), fakes.problem())
        second = await ledger.submit(fakes.new_submission("accept", device_kind="cuda:1"), fakes.problem())
        await until_event(ledger, second, SubmissionState.SUCCEEDED)
        assert (await ledger.get(waiting.submission_id)).attempt_count == 0
        if comes_back:
            ready.append("cuda:0")
        else:
            known_kinds.extend(ready)
        dispatcher.wake()
        assert (await until_event(ledger, waiting, SubmissionState.SUCCEEDED)).attempt_count == 1  # this fleet takes all


async def test_facts_that_decide_nothing_are_our_fault(ledger):
    """An incomplete stream is retried and then FAILED, never a verdict."""

    def fold(facts, ranking=None):
        raise IncompleteFacts("the judge did not finish")

    async with dispatching(ledger, fakes.FakeGrade(), fold=fold):
        failed = await until_event(ledger, await submit(ledger, "accept"), SubmissionState.FAILED)
    assert failed.attempt_count == 3 and failed.report is None and failed.failure.reason == "ATTEMPTS_EXHAUSTED"


async def test_a_drain_waits_for_what_runs_and_takes_nothing_more(ledger):
    """Waiting submissions are still there for the next server."""
    grade = fakes.FakeGrade()
    async with dispatching(ledger, grade, capacity=lambda: 1, patience_s=3600.0):
        running, waiting = await submit(ledger, "slow"), await submit(ledger, "accept")
        await until_event(ledger, running, "Build")
    assert (await ledger.get(running.submission_id)).state is SubmissionState.SUCCEEDED
    assert (await ledger.get(waiting.submission_id)).state is SubmissionState.QUEUED
    assert grade.stopped == []


async def test_what_is_abandoned_goes_back_to_the_queue(ledger):
    """A second signal ends the patience."""
    grade = fakes.FakeGrade()
    async with dispatching(ledger, grade, patience_s=3600.0) as dispatcher:
        submission = await submit(ledger, "hang")
        await until_event(ledger, submission, "Build")
        asyncio.get_running_loop().call_later(0.05, dispatcher.abandon)
    assert (await ledger.get(submission.submission_id)).state is SubmissionState.QUEUED and len(grade.stopped) == 1


async def test_work_is_taken_up_without_waiting_for_the_poll(ledger):
    """`wake` is enough; a free place after an attempt too."""
    grade = fakes.FakeGrade()
    async with dispatching(ledger, grade, capacity=lambda: 1, poll_s=3600.0) as dispatcher:
        submissions = [await submit(ledger, "accept") for _ in range(3)]
        dispatcher.wake()
        for submission in submissions:
            await until_event(ledger, submission, SubmissionState.SUCCEEDED)
    assert grade.running_most == 1


@pytest.mark.parametrize(("stage", "attempt_count"), [(wire.Stage.PREPARING, 4), (wire.Stage.WAITING, 2)])
async def test_attempts_that_wait_for_their_host_leave_room_for_as_many(ledger, stage, attempt_count):
    """And for no more, for each has directories and may have a box. The control: those that wait for a device leave none."""
    grade, looks, began, go_on = fakes.FakeGrade(), [], [], asyncio.Event()

    async def waiting(lease):
        began.append(lease)
        yield wire.Progress(stage=stage)
        await go_on.wait()
        async for fact in grade(lease):
            yield fact

    waiting_submissions = [await submit(ledger, "accept") for _ in range(6)]
    async with dispatching(ledger, waiting, capacity=lambda: looks.append(len(began)) or 2, poll_s=0.01):
        await until(lambda: looks.count(attempt_count) > 5)
        assert len(began) == attempt_count
        go_on.set()
        for submission in waiting_submissions:
            await until_event(ledger, submission, SubmissionState.SUCCEEDED)


async def test_the_end_of_an_attempt_looks_for_nothing_where_nothing_waited(ledger, monkeypatch):
    """There was room for more, and the last look found no more."""
    looks, lease_some = list[int](), ledger.lease_some

    async def look(*arguments, **options):
        leases = await lease_some(*arguments, **options)
        looks.append(len(leases))
        return leases

    monkeypatch.setattr(ledger, "lease_some", look)
    first = await submit(ledger, "accept")
    async with dispatching(ledger, fakes.FakeGrade(), poll_s=3600.0) as dispatcher:
        await until_event(ledger, first, SubmissionState.SUCCEEDED)
        second = await submit(ledger, "accept")
        dispatcher.wake()
        await until_event(ledger, second, SubmissionState.SUCCEEDED)
    assert looks == [1, 1]


async def test_a_device_that_is_away_costs_nobody_an_attempt(ledger):
    """Counted, a quarantine would end every queued submission within a moment."""
    tries = []
    well = fakes.FakeGrade()

    async def grade(lease):
        tries.append(lease.attempt)
        if len(tries) < 6:
            raise DeviceQuarantined("GPU 0 does not come back: the canary is unwell; restart the host or the driver, then the server")
        async for fact in well(lease):
            yield fact

    async with dispatching(ledger, grade, quarantine_s=0.01):
        submission = await submit(ledger, "accept")
        ended = await until_event(ledger, submission, SubmissionState.SUCCEEDED)
    assert len(tries) == 6 and ended.state is SubmissionState.SUCCEEDED


@pytest.mark.parametrize(("lane_s", "expected"), [(0.05, SubmissionState.FAILED), (3600.0, SubmissionState.SUCCEEDED)])
async def test_an_attempt_from_which_nothing_comes_is_ended(ledger, monkeypatch, lane_s, expected):
    """But one that is built waits for its lane, which may take long."""
    monkeypatch.setattr(grader.dispatch.dispatcher, "SILENCE_LIMIT_S", 3600.0)
    monkeypatch.setattr(grader.dispatch.dispatcher, "LANE_LIMIT_S", lane_s)
    fake = fakes.FakeGrade()

    async def grade(lease):
        async for fact in fake(lease):
            yield fact
            if isinstance(fact, wire.Build):
                yield wire.Progress(stage=wire.Stage.WAITING)

    async with dispatching(ledger, grade):
        ended = await until_event(ledger, await submit(ledger, "slow"), expected)
    assert ended.attempt_count == (1 if expected is SubmissionState.SUCCEEDED else 3)


async def test_facts_that_come_keep_an_attempt_going(ledger, monkeypatch):
    """Each of them begins the time anew: in all it takes several times the limit, by the loop's clock, which the attempt moves."""
    monkeypatch.setattr(grader.dispatch.dispatcher, "SILENCE_LIMIT_S", 8.0)
    loop, passed_s = asyncio.get_running_loop(), [0.0]
    usual = loop.time
    monkeypatch.setattr(loop, "time", lambda: usual() + passed_s[0])

    async def grade(lease):
        for _ in range(8):
            passed_s[0] += 4.0
            await asyncio.sleep(0)
            yield wire.Progress(stage=wire.Stage.BUILDING)
        async for fact in fakes.FakeGrade()(lease):
            yield fact

    async with dispatching(ledger, grade):
        settled = await until_event(ledger, await submit(ledger, "accept"), SubmissionState.SUCCEEDED)
    assert settled.attempt_count == 1


async def test_other_servers_are_told_of_the_queue_only_where_there_is_no_room(ledger):
    """Also where some are taken and others are left; and what it never takes, it leaves to the ledger to tell."""
    kinds = asyncio.Queue()
    ledger.changes.say = lambda kind, submission_ids: kinds.put_nowait(kind)
    async with dispatching(ledger, fakes.FakeGrade(), device_kinds=lambda: ("emulated",)) as dispatcher:
        await asyncio.sleep(0)
        assert (ledger.changes.takes(""), ledger.changes.takes("cuda")) == (True, False)
        first = await submit(ledger, "hang")
        dispatcher.wake()
        await until_event(ledger, first, "Build")
        assert kinds.empty()
        for _ in range(2):
            await submit(ledger, "hang")
        dispatcher.wake()
        assert await kinds.get() is NewsKind.QUEUED
    assert not ledger.changes.takes("")
