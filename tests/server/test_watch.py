"""Watching, cancelling, listing, and what else a server answers."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from unittest import mock

import pytest

from grader import errors
from grader.cli.progress import ProgressDisplay
from grader.cli.submit import follow
from grader.extensions import NoCompetitions
from grader.ledger import Ledger
from grader.model import Caller, Scope, Submission, SubmissionState
from grader.server import submission_watch
from grader.server.submission_watch import Redactors
from grader.v1 import submission_pb2
from sandbox.protocol import wire
from tests import fakes

RUNNING, SUCCEEDED = submission_pb2.SUBMISSION_STATE_RUNNING, submission_pb2.SUBMISSION_STATE_SUCCEEDED
CANCELLED, FAILED = submission_pb2.SUBMISSION_STATE_CANCELLED, submission_pb2.SUBMISSION_STATE_FAILED
QUEUED = submission_pb2.SUBMISSION_STATE_QUEUED
NEVER_S, SOON_S = 1e6, 30.0


async def until(client, submission, kind):
    async for event in client.watch(submission.name):
        if event.WhichOneof("event") == kind:
            return event
    raise AssertionError(f"no {kind}")


async def test_a_watch_replays_all_and_follows_to_the_end(client, kernel):
    """Sequences from 1 without gaps, live and replayed alike; the last event carries the report."""
    submission = await client.submit(kernel("slow"))
    live = [event async for event in client.watch(submission.name)]
    replayed = [event async for event in client.watch(submission.name)]
    assert [event.sequence for event in live] == list(range(1, len(live) + 1)) and len(live) == len(replayed)
    assert [event.submission.state for event in replayed if event.HasField("submission")] == [QUEUED, RUNNING, SUCCEEDED]
    assert live[-1] == replayed[-1] and live[-1].submission.HasField("report")
    names = [event.progress.workload_id for event in replayed if event.HasField("progress")]
    assert names == ["", "n64", "hidden-1"]


async def test_a_watch_goes_on_after_what_was_seen(client, kernel, finished):
    """Nothing twice, and nothing at all after the end."""
    submission = await client.submit(kernel())
    await finished(client, submission)
    everything = [event.sequence async for event in client.watch(submission.name)]
    assert [event.sequence async for event in client.watch(submission.name, after_sequence=4)] == everything[4:]
    assert [event async for event in client.watch(submission.name, after_sequence=everything[-1])] == []


async def test_a_watch_after_more_events_than_there_are_ends_with_the_submission(client, kernel):
    """As after a ledger was restored from a backup."""
    submission = await client.submit(kernel("slow"))
    async with asyncio.timeout(SOON_S):
        assert [
            event async for event in client.watch(submission.name, after_sequence=1000) if event.WhichOneof("event") != "queue_position"
        ] == []


async def test_a_watch_may_wait_for_what_is_found_after_the_verdict(serve, kernel):
    """The final state is sent once, before the sanitizer is through; the stream ends when the report has what it found. Without
    until_findings it ends with the final state, live and replayed."""
    grade = fakes.LateFindings(fakes.PROFILE)
    async with serve(grade) as client:
        submission = await client.submit(kernel("wrong"))
        verdict = [event async for event in client.watch(submission.name)]
        states = []
        async for event in client.watch(submission.name, until_findings=True):
            states += [event.submission.state] if event.HasField("submission") else []
            if states[-1] == SUCCEEDED:
                grade.go.set()
        report = (await client.get_submission(submission.name)).report
        replays = [[event async for event in client.watch(submission.name, until_findings=wait)] for wait in (False, True)]
    assert verdict[-1].submission.state == SUCCEEDED and not verdict[-1].submission.report.HasField("profile")
    assert states == [QUEUED, RUNNING, SUCCEEDED] and report.profile.findings
    assert [event.sequence for event in replays[0]] == [event.sequence for event in verdict]
    assert [event.sequence for event in replays[1]] == [*(event.sequence for event in verdict), len(verdict) + 1]
    assert replays[1][-1].WhichOneof("event") is None


async def test_others_are_served_while_a_long_report_is_converted(tmp_path):
    """On a thread: of a sweep it takes a third of a second."""
    report = replace(fakes.report(), measurements=tuple(fakes.measurement(f"n{size}") for size in range(300)))
    submission = Submission(
        submission_id="a",
        new=fakes.new_submission(),
        problem_digest=fakes.problem().digest,
        state=SubmissionState.SUCCEEDED,
        create_time=datetime.now(UTC),
        report=report,
    )
    served = 0

    async def serve_others():
        nonlocal served
        while True:
            await asyncio.sleep(0)
            served += 1

    async with Ledger.open(tmp_path / "ledger") as ledger:
        await ledger.submit(submission.new, fakes.problem())
        redactors = Redactors(ledger)
        await redactors.for_problem(submission.problem_digest)
        other_calls = asyncio.create_task(serve_others())
        message = await redactors.message(submission, full=True)
        other_calls.cancel()
    assert len(message.report.measurements) == 300 and served > 0


async def test_the_command_says_the_verdict_before_it_waits_for_the_sanitizer(serve, kernel):
    """And ends with the findings."""
    grade, lines = fakes.LateFindings(fakes.PROFILE), []

    class Lines(ProgressDisplay):
        def say(self, line: str) -> None:
            lines.append(line)
            grade.go.set()

    async with serve(grade) as client:
        final = await follow(client, (await client.submit(kernel("wrong", mode=wire.Mode.TEST))).name, Lines())
    assert lines == ["WRONG_ANSWER; waiting for the sanitizer, which --skip-sanitizer leaves out"]
    assert final.report.profile.findings


async def test_a_watch_does_not_wait_for_ever_for_findings(serve, kernel, monkeypatch):
    """They may be lost with their server. Where nobody looks for any, the stream ends with the final state."""
    monkeypatch.setattr(submission_watch, "FINDINGS_S", 0.1)
    async with serve(fakes.LateFindings()) as client:
        submission = await client.submit(kernel("wrong"))
        events = [event async for event in client.watch(submission.name, until_findings=True)]
        assert events[-1].submission.state == SUCCEEDED
        rest = [event async for event in client.watch(submission.name, after_sequence=events[-1].sequence, until_findings=True)]
    assert rest == []


@contextlib.asynccontextmanager
async def watched(path, *, settles):
    """A ledger, and all that a watch for findings sends of a submission that tools look at. settles: it has its verdict."""
    async with Ledger.open(path) as ledger:
        submission = await ledger.submit(fakes.new_submission(user="ann"), fakes.problem())
        lease = await ledger.lease("w", ttl_s=300)
        await ledger.append(lease, [wire.Progress(stage=wire.Stage.PROFILING)])
        if settles:
            await ledger.settle(lease, fakes.report())
        caller = Caller(user="ann", scopes=frozenset({Scope.READ}), key_id="ann")
        watch = submission_watch.SubmissionWatch(ledger, NoCompetitions(), poll_s=NEVER_S)

        async def events():
            return [event async for event in watch.stream(caller, submission.submission_id, 0, until_findings=True)]

        yield ledger, events()


@pytest.mark.parametrize(("seconds", "waits"), [(0.0, False), (NEVER_S, True)])
async def test_findings_of_long_ago_are_not_waited_for(tmp_path, monkeypatch, seconds, waits):
    """They were lost. The control is a verdict of just now."""
    monkeypatch.setattr(submission_watch, "FINDINGS_S", seconds)
    monkeypatch.setattr(submission_watch, "hear_news", mock.AsyncMock(side_effect=InterruptedError))
    async with watched(tmp_path / "ledger", settles=True) as (_, events):
        with pytest.raises(InterruptedError) if waits else contextlib.nullcontext():
            assert await events


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("settles", [True, False])
async def test_a_server_that_leaves_holds_back_no_verdict(tmp_path, monkeypatch, settles, waits):
    """A watch that has it ends, whatever may still be found. The control has none: it is to be opened again elsewhere. Neither waits for
    news. waits: it did so when the server left; else it looks for the first time."""
    monkeypatch.setattr(submission_watch, "FINDINGS_S", NEVER_S)
    async with watched(tmp_path / "ledger", settles=settles) as (ledger, events):
        watching = asyncio.create_task(events)
        if waits:
            await asyncio.wait([watching], timeout=0.3)
        ledger.changes.leave()
        with contextlib.nullcontext() if settles else pytest.raises(errors.ShuttingDown):
            assert (await asyncio.wait_for(watching, SOON_S))[-1].submission.state == SUCCEEDED


async def test_facts_are_seen_while_grading_goes_on(client, kernel):
    """A kernel that hangs in its run shows its build."""
    event = await until(client, await client.submit(kernel("hang")), "build")
    assert event.attempt == 1 and event.build.outcome


async def test_what_runs_is_stopped_and_cancelled(serve, kernel, grade, finished):
    """The grading is told to stop, well before its lease would have been looked at, twenty minutes later."""
    async with serve(grade, lease_s=3600) as client:
        submission = await client.submit(kernel("hang"))
        await until(client, submission, "build")
        assert (await client.cancel(submission.name)).state == RUNNING
        final = await asyncio.wait_for(finished(client, submission), 300)
    assert final.state == CANCELLED and not final.HasField("report") and len(grade.stopped) == 1


@pytest.mark.parametrize("order", ["fault", "bug"])
async def test_our_failure_is_retried_and_then_said(client, kernel, grade, finished, order):
    """Three attempts, then FAILED with a status; the words of a bug stay in the log."""
    submission = await client.submit(kernel(order))
    final = await finished(client, submission)
    assert final.state == FAILED and not final.HasField("report")
    assert [attempt for _, attempt in grade.attempts] == [1, 2, 3]
    assert "no verdict after 3 attempts" in final.error.message and "secret" not in final.error.message


async def test_attempts_never_exceed_the_capacity(serve, kernel, finished):
    """And all of the queue is graded."""
    grade = fakes.FakeGrade()
    async with serve(grade, capacity=2) as client:
        submissions = [await client.submit(kernel("slow")) for _ in range(5)]
        await asyncio.gather(*(finished(client, submission) for submission in submissions))
    assert grade.running_most == 2 and len(grade.attempts) == 5


async def test_pages_follow_each_other_and_tokens_are_bound_to_their_list(client, kernel):
    """Every submission once, newest first; a token with other fields, or changed, is refused."""
    submissions = [(await client.submit(kernel())).name for _ in range(5)]
    await client.submit(kernel(problem="other"))
    names, token = [], ""
    while True:
        page = await client.list_submissions(page_size=2, page_token=token, problem="problems/sum")
        names += [submission.name for submission in page.submissions]
        token = page.next_page_token
        if not token:
            break
        last = token
    assert names == submissions[::-1]
    for fields in ({"problem": "problems/other"}, {"problem": "problems/sum", "states": [SUCCEEDED]}):
        with pytest.raises(errors.InvalidRequest, match="page_token"):
            await client.list_submissions(page_token=last, **fields)
    with pytest.raises(errors.InvalidRequest, match="page_token"):
        await client.list_submissions(page_token="x" + last)
    with pytest.raises(errors.InvalidRequest, match="page_size"):
        await client.list_submissions(page_size=-1)
    with pytest.raises(errors.InvalidRequest, match="states"):
        await client.list_submissions(states=[0])


async def test_a_list_shows_verdicts_without_sources(client, kernel, finished):
    """Filtered by state as well."""
    await finished(client, await client.submit(kernel("wrong")))
    (submission,) = (await client.list_submissions(states=[SUCCEEDED])).submissions
    assert submission.report.summary and not submission.sources and not submission.report.trials
    assert not (await client.list_submissions(states=[FAILED])).submissions


async def test_problems_are_listed_in_pages(client):
    """By name; and got one by one."""
    first = await client.list_problems(page_size=1)
    second = await client.list_problems(page_size=1, page_token=first.next_page_token)
    assert [problem.name for problem in (*first.problems, *second.problems)] == ["problems/other", "problems/sum"]
    assert second.next_page_token == "" and (await client.get_problem("problems/sum")).hidden_workload_count == 1
    with pytest.raises(errors.ProblemNotFound):
        await client.get_problem("problems/som")


@pytest.mark.parametrize("name", ["", "submissions/", "s1", "problems/s1", "submissions/a/b"])
async def test_a_name_that_is_none_is_a_wrong_field(client, name):
    """Not a missing submission."""
    with pytest.raises(errors.InvalidRequest, match="expected 'submissions/<id>'"):
        await client.get_submission(name)


async def test_of_many_problems_the_first_are_read_again(monkeypatch):
    """A server that is swept for weeks keeps a bounded number. The control: the last ones are not read again."""
    monkeypatch.setattr(Redactors, "LIMIT", 2)
    ledger = mock.AsyncMock()
    ledger.problem.return_value = fakes.problem()
    redactors = Redactors(ledger)
    for digest in "abbcacab":
        await redactors.for_problem(digest)
    assert [call.args[0] for call in ledger.problem.await_args_list] == [*"abcab"]
