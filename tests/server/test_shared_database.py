"""Several servers on one PostgreSQL: they share the work, hear each other at once, and leave each other's alone."""

import signal
from contextlib import AsyncExitStack
from importlib import metadata

import pytest

from grader.ledger import Ledger
from grader.model import SubmissionState
from grader.server.server_state import worker_prefix
from grader.v1 import submission_pb2
from tests import fakes
from tests.postgres import rows
from tests.server.processes import fake_server, until_built
from tests.server.test_dispatcher import dispatching
from tests.waiting import until_event

NEVER_S = 3600.0  # a dispatcher that looks for nothing by itself: neither for work nor for cancellations


async def test_a_submission_to_one_server_is_taken_up_by_another_at_once(url):
    """Although the other does not poll; and who watches at the first sees it."""
    async with Ledger.open(url) as here, Ledger.open(url) as there, dispatching(there, fakes.FakeGrade(), lease_s=NEVER_S, poll_s=NEVER_S):
        for _ in range(3):
            submission = await here.submit(fakes.new_submission(), fakes.problem())
            await until_event(here, submission, SubmissionState.SUCCEEDED)


async def test_a_cancellation_at_one_server_stops_an_attempt_at_another_at_once(url):
    """Although the next heartbeat is an hour away."""
    grade = fakes.FakeGrade()
    async with Ledger.open(url) as here, Ledger.open(url) as there, dispatching(there, grade, lease_s=NEVER_S, poll_s=NEVER_S):
        submission = await here.submit(fakes.new_submission("hang"), fakes.problem())
        await until_event(here, submission, "Build")
        await here.cancel(submission.submission_id)
        await until_event(here, submission, SubmissionState.CANCELLED)
    assert grade.stopped == [submission.submission_id]


def test_a_worker_says_of_which_state_directory_it_is(tmp_path):
    """The same for every server of one directory, another for another."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert worker_prefix(tmp_path / "a") == worker_prefix(tmp_path / "link") != worker_prefix(tmp_path / "b")
    assert len(worker_prefix(tmp_path / "a")) + 16 <= 64


@pytest.fixture
def start(settings, place, url):
    """Start a server process on the database, by name, and kill it in the end."""

    def run(name):
        environment, listen = {"GRADER_DATABASE": url}, f"unix:{place}/{name}.s"
        options = ("--lanes", "1")
        return fake_server(
            settings, place / name, place / f"{name}.counted", place / "log", *options, listen=listen, environment=environment
        )

    return run


@pytest.mark.slow
async def test_a_server_that_comes_back_takes_its_own_leases_and_nobody_elses(start, kernel, place, url):
    """A server of two is killed and started again: what it ran is graded anew at once, what the other runs goes on in its first attempt."""
    async with start("a") as (first, at_first):
        ran_by_first = [await at_first.submit(kernel("held")) for _ in range(2)]  # as many as it has room for
        for submission in ran_by_first:
            await until_built(at_first, submission)
        async with start("b") as (_, at_second):
            ran_by_second = await at_second.submit(kernel("held"))
            await until_built(at_first, ran_by_second)
            first.send_signal(signal.SIGKILL)
            await first.wait()
            (place / "go").touch()
            async with start("a") as (_, again):
                ended = [[event async for event in again.watch(entry.name)][-1].submission for entry in (*ran_by_first, ran_by_second)]
    assert {final.state for final in ended} == {submission_pb2.SUBMISSION_STATE_SUCCEEDED}
    assert [final.attempt_count for final in ended] == [2, 2, 1]
    assert rows(url, "SELECT count(*) FROM judgements") == [(3,)]


def listed_servers(url):
    """The names of the servers' connections: version, host and address."""
    text = "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'grader-server/%'"
    return [name for (name,) in rows(url, text)]


@pytest.mark.slow
async def test_servers_are_replaced_one_after_the_other_while_submissions_come(start, kernel, place, url):
    """Each ends what it runs, the other takes up what waits, and the one that comes back works with it: nothing is lost or graded twice."""
    submissions, version = [], metadata.version("kernel-grader")

    async def submit(client, count=4):
        submissions.extend([await client.submit(kernel("slow")) for _ in range(count)])

    async def replaced(name, process, at_other):
        process.send_signal(signal.SIGTERM)
        await submit(at_other)
        assert await process.wait() == 0
        assert len(listed_servers(url)) == 1
        return start(name)

    async with AsyncExitStack() as stack:
        first, at_first = await stack.enter_async_context(start("a"))
        second, at_second = await stack.enter_async_context(start("b"))
        shown = listed_servers(url)
        assert len(shown) == 2 and all(name.startswith(f"grader-server/{version} ") and " unix:" in name for name in shown)
        await submit(at_first)
        await until_built(at_first, submissions[0])
        _, at_first = await stack.enter_async_context(await replaced("a", first, at_second))
        await submit(at_first)
        _, at_second = await stack.enter_async_context(await replaced("b", second, at_first))
        await submit(at_second)
        ended = [[event async for event in at_first.watch(submission.name)][-1].submission for submission in submissions]
    assert {submission.state for submission in ended} == {submission_pb2.SUBMISSION_STATE_SUCCEEDED} and len(ended) == 20
    graded = [line.split()[0] for name in "ab" for line in (place / f"{name}.counted").read_text().splitlines()]
    assert sorted(graded) == sorted(submission.name.removeprefix("submissions/") for submission in submissions)
    assert rows(url, "SELECT count(*) FROM judgements") == [(20,)]
    assert {submission.attempt_count for submission in ended} == {1}
    assert listed_servers(url) == []
