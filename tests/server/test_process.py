"""A server as a process: drained, killed, started twice, refused."""

import asyncio
import signal
import subprocess
import sys
import tempfile
from collections import Counter

import pytest

from grader import errors
from grader.api.client import GraderClient
from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import embedded, serving
from grader.v1 import report_pb2, submission_pb2
from tests import fakes
from tests.server.processes import ROOT, fake_server, until_built
from tests.waiting import until

pytestmark = pytest.mark.slow  # each starts servers and waits for their drains
QUEUED, RUNNING = submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_RUNNING
SUCCEEDED, CANCELLED = submission_pb2.SUBMISSION_STATE_SUCCEEDED, submission_pb2.SUBMISSION_STATE_CANCELLED


@pytest.fixture
def start(settings, place):
    """Start a server process, and kill it in the end."""
    return lambda *options: fake_server(settings, settings.state_dir, place / "counted", place / "log", *options, listen=settings.listen)


async def states(client):
    return Counter(submission.state for submission in (await client.list_submissions(page_size=1000)).submissions)


async def test_nothing_acknowledged_is_lost_or_graded_twice_by_kill_9(start, kernel, place, finished):
    """Killed with jobs running and queued, twice: each gets one verdict, and one final event."""
    submissions = []
    for _ in range(2):
        async with start() as (process, client):
            submissions += [await client.submit(kernel(order)) for order in ("accept", "held", "held", "held", "accept")]
            await until_built(client, submissions[1])
            counts = await states(client)
            assert counts[QUEUED] > 0 and counts[RUNNING] > 0
            process.kill()
            await process.wait()
    (place / "go").touch()
    async with start() as (_, client):
        finals = await asyncio.gather(*(finished(client, pending) for pending in submissions))
        assert [(final.state, final.report.verdict) for final in finals] == [(SUCCEEDED, report_pb2.VERDICT_ACCEPTED)] * 10
        for submission in submissions:
            events = [event async for event in client.watch(submission.name)]
            assert [event.sequence for event in events] == list(range(1, len(events) + 1))
            assert sum(event.submission.state == SUCCEEDED for event in events) == 1
    attempts = Counter((place / "counted").read_text().split("\n"))
    assert max(attempts.values()) == 1  # no attempt number was used twice


async def test_a_watch_goes_on_when_the_server_is_back(start, kernel):
    """A client has one watch, over kill -9 and restart: every event once."""
    sequences = []
    async with start() as (process, client):
        submission = await client.submit(kernel("slow"))
        async with GraderClient(client.address) as watcher:

            async def follow():
                async for event in watcher.watch(submission.name):
                    sequences.append(event.sequence)

            following = asyncio.create_task(follow())
            await until_built(client, submission)
            process.kill()
            await process.wait()
            async with start():
                await asyncio.wait_for(following, 300)
    assert sequences == list(range(1, len(sequences) + 1))


async def test_a_job_that_outlives_the_drain_goes_back_to_the_queue_uncounted(start, kernel, finished):
    """A restart does not count against a slow submission, and does not wait for it."""
    submission = None
    for _ in range(2):
        async with start("--drain-s", "0.1") as (process, client):
            submission = submission or await client.submit(kernel("hang"))
            await until_built(client, submission)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 300) == 0
    async with start() as (_, client):
        await client.cancel(submission.name)
        final = await finished(client, submission)
        assert final.state == CANCELLED and final.attempt_count in (2, 3)


async def test_a_state_directory_has_one_server(settings, place):
    """The second says which process has it, or waits, as it was asked to."""
    messages = []
    second_settings = settings.model_copy(update={"listen": f"unix:{place}/other"})
    async with serving(settings, fakes.wiring()):
        with pytest.raises(errors.StateDirectoryInUse, match=r"process \d+"):
            async with serving(second_settings, fakes.wiring()):
                pass
        waiting = asyncio.create_task(enter(embedded(second_settings, waiting=messages.append, wiring=fakes.wiring())))
        await until(lambda: messages)
        assert not waiting.done()
    assert (await asyncio.wait_for(waiting, 300)).startswith("unix:")
    assert len(messages) == 1 and "stop it" in messages[0]


async def enter(context):
    async with context as address:
        return address


async def test_a_reader_shows_what_another_server_does(serve, settings, kernel, finished):
    """Beside it, without its lock; it changes nothing."""
    async with serve(fakes.FakeGrade()) as client:
        submission = await client.submit(kernel("slow"))
        async with embedded(settings, reader=True) as address, GraderClient(address) as reader:
            assert (await finished(reader, submission)).state == SUCCEEDED
            for call in (reader.submit(kernel()), reader.batch_submit([kernel()]), reader.cancel(submission.name)):
                with pytest.raises(errors.ReadOnly):
                    await call


async def test_an_exception_inside_an_embedded_server_comes_out_as_it_was(settings):
    """Not in a group: callers catch what they raise."""
    with pytest.raises(errors.ProblemNotFound):
        async with embedded(settings, wiring=fakes.wiring()) as address, GraderClient(address) as client:
            await client.get_problem("problems/som")


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:50551"])
async def test_an_unsafe_isolation_is_for_loopback_only(settings, listen):
    """A server that strangers can reach keeps their kernels in, or does not start."""
    async with Ledger.open(settings.ledger_path) as ledger:
        await ledger.keys.create("alice", frozenset(Scope))
    with pytest.raises(errors.SettingsInvalid, match="Docker or bubblewrap"):
        async with serving(settings.model_copy(update={"listen": listen, "insecure_no_tls": True}), fakes.wiring(safe=False)):
            pass


async def test_a_port_that_is_taken_is_said(settings, place):
    """Two servers never share one port by chance."""
    first = settings.model_copy(update={"listen": "127.0.0.1:0"})
    async with serving(first, fakes.wiring(safe=False)) as running:
        conflicting = Settings(listen=running.address, state_dir=place / "second")
        with pytest.raises(errors.SettingsInvalid, match="can't listen"):
            async with serving(conflicting, fakes.wiring()):
                pass


async def test_a_socket_that_lies_too_deep_is_said(settings, place):
    """With the reason, and not as if another program were there."""
    deep = settings.model_copy(update={"listen": f"unix:{place / ('a' * 107)}"})
    with pytest.raises(errors.SettingsInvalid, match="at most 107 bytes"):
        async with serving(deep, fakes.wiring()):
            pass


async def test_an_embedded_server_does_not_mind_how_deep_the_temporary_directory_lies(settings, place, monkeypatch):
    """Nobody chose its socket's path; it is gone when the server has ended."""
    deep = place / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with embedded(settings, wiring=fakes.wiring()) as address, GraderClient(address) as client:
        assert [problem.name for problem in (await client.list_problems()).problems] == ["problems/other", "problems/sum"]
        assert [path.is_socket() for path in deep.glob("grader-*/*")] == [True]
    assert not list(deep.iterdir())


def run_server(*options):
    command = [sys.executable, "-m", "grader.server.main", *options]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=300)


def test_help_needs_nothing_heavy():
    """No torch, no gRPC, no database: half a second is for the interpreter."""
    heavy = ("torch", "grpc", "sqlalchemy", "pydantic")
    code = f"import sys, grader.server.main as m; m.parser().format_help(); print([x for x in {heavy} if x in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert result.stdout.strip() == "[]"


def test_a_wrong_setting_or_problem_ends_with_2_and_a_sentence(tmp_path):
    """The option and what is wrong with it."""
    result = run_server("--lanes", "0")
    assert result.returncode == 2 and "--lanes" in result.stderr and "Traceback" not in result.stderr
    result = run_server("--problems", str(tmp_path / "none"), "--state-dir", str(tmp_path))
    assert result.returncode == 2 and "is not a directory" in result.stderr and "Traceback" not in result.stderr
