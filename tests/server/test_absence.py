"""A client whose server restarts: calls wait for it, nothing is submitted twice, and who gives up says how to go on."""

import asyncio
import os
import sys

import grpc
import pytest
from grpc_status import rpc_status

from grader.api.client import GraderClient, ServerAbsence
from grader.api.statuses import to_status
from grader.cli.exits import GraderFailed
from grader.cli.session import Target
from grader.cli.submit import cancel_quietly, submit, watch
from grader.errors import QueueFull, ServerUnreachable, ShuttingDown
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, report_pb2, submission_pb2
from tests import fakes
from tests.server.processes import ROOT, fake_server

DEADLINE_S = 300.0
ACCEPTED = submission_pb2.Submission(
    name="submissions/0123456789abcdef",
    problem="problems/sum",
    language="cuda",
    state=submission_pb2.SUBMISSION_STATE_SUCCEEDED,
    report=report_pb2.Report(verdict=report_pb2.VERDICT_ACCEPTED),
)


class Restarting(grader_service_pb2_grpc.GraderServiceServicer):
    """Fails in calls of one kind the given number of times, each time in the given way; then it answers."""

    def __init__(self, *, submit=0, watch=0, get=0, error=None):
        self.failure_counts = {"submit": submit, "watch": watch, "get": get}
        self.error, self.request_ids = error, []

    async def fail(self, kind, context):
        if self.failure_counts[kind]:
            self.failure_counts[kind] -= 1
            if self.error is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            await context.abort_with_status(rpc_status.to_status(to_status(self.error, "x")))

    async def GetCaller(self, request, context):
        return api.Caller()

    async def Submit(self, request, context):
        self.request_ids.append(request.request_id)
        await self.fail("submit", context)
        return ACCEPTED

    async def WatchSubmission(self, request, context):
        await self.fail("watch", context)
        yield submission_pb2.SubmissionEvent(sequence=1, submission=ACCEPTED)

    async def GetSubmission(self, request, context):
        await self.fail("get", context)
        return ACCEPTED


@pytest.fixture
def order(tmp_path):
    file = tmp_path / "kernel.cu"
    file.write_text("// grader: problem=sum\n" + fakes.source("accept"))
    return [file], submission_pb2.Submission(mode=submission_pb2.MODE_TEST)


@pytest.mark.slow
async def test_a_submission_that_was_not_answered_is_sent_again_as_the_same_one(served, order, capsys):
    """More often than gRPC itself tries; then the command goes on as if nothing had been."""
    servicer = Restarting(submit=7)
    at = await served(servicer)
    assert await submit(Target(server=at), *order, json=False, wait=True) == 0
    assert len(servicer.request_ids) == 8 and len(set(servicer.request_ids)) == 1
    assert f"{ACCEPTED.name} for problems/sum (cuda) at {at}" in (output := capsys.readouterr()).out
    assert "waiting until it is back" in output.err and "answers again" in output.err


@pytest.mark.parametrize("error", [None, ShuttingDown()], ids=["unreachable", "shutting-down"])
async def test_a_watch_that_is_given_up_names_the_submission_and_the_command(served, order, error):
    """And says that there is no need to submit again."""
    at = await served(Restarting(watch=10**9, error=error))
    with pytest.raises(GraderFailed, match=f"do not submit it again; follow it with: grader-cli watch 0123456789abcdef --server {at}"):
        await submit(Target(server=at, restart_s=0.0), *order, json=True, wait=True)
    with pytest.raises(GraderFailed, match="grader-cli watch 0123"):
        await watch(Target(server=at, restart_s=0.0), "submissions/0123456789abcdef", json=True)


@pytest.mark.slow
async def test_a_submission_that_is_given_up_can_be_gone_on_with(served, order):
    """By its request id, which the message has."""
    servicer = Restarting(submit=10**9)
    at = await served(servicer)
    with pytest.raises(GraderFailed, match="it closed the connection, as a server does that stops; the server may have accepted") as failed:
        await submit(Target(server=at, restart_s=0.0), *order, json=True, wait=True)
    assert f"--request-id {servicer.request_ids[0]} " in str(failed.value)


@pytest.mark.slow
async def test_a_server_that_never_answered_is_not_waited_for(place, order):
    """Its address may be wrong: the message says that nothing was submitted."""
    with pytest.raises(GraderFailed, match=r"no answer from unix:.*nothing was submitted"):
        await submit(Target(server=f"unix:{place}/none", restart_s=DEADLINE_S), *order, json=True, wait=True)


async def test_ctrl_c_before_the_answer_says_how_to_go_on(served, order, capsys):
    """The server may have accepted it by then."""
    servicer = Restarting(submit=10**9)
    at = await served(servicer)
    task = asyncio.create_task(submit(Target(server=at), *order, json=True, wait=True))
    while not servicer.request_ids:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert f"--request-id {servicer.request_ids[0]} " in capsys.readouterr().err


@pytest.mark.slow
async def test_a_submission_that_could_not_be_cancelled_is_named(place, capsys):
    """With the command that cancels it, when its server is back."""
    async with GraderClient(f"unix:{place}/none") as client:
        await cancel_quietly(client, ACCEPTED.name)
    assert "was not cancelled; do so with: grader-cli cancel 0123456789abcdef" in capsys.readouterr().err


async def test_a_watch_begins_while_the_server_is_away(served, place, capsys):
    """As after a command that was given up."""
    task = asyncio.create_task(watch(Target(server=f"unix:{place}/l"), ACCEPTED.name, json=False))
    async with asyncio.timeout(DEADLINE_S):
        while "waiting until it is back" not in (output := capsys.readouterr().out):
            assert not task.done(), output
            await asyncio.sleep(0.05)
    await served(Restarting())
    assert await asyncio.wait_for(task, DEADLINE_S) == 0


@pytest.mark.slow
async def test_a_full_queue_is_an_answer(served):
    """Only a server that is away is waited for."""
    servicer = Restarting(submit=10**9, error=QueueFull(1))
    async with GraderClient(await served(servicer), restart_s=DEADLINE_S) as client:
        with pytest.raises(QueueFull):
            await client.submit(ACCEPTED)


@pytest.mark.slow
async def test_without_a_restart_to_wait_for_a_call_fails_as_before(served):
    """The library's default: gRPC's own retries are all."""
    async with GraderClient(await served(Restarting(get=10**9))) as client:
        await client.get_caller()
        with pytest.raises(ServerUnreachable):
            await client.get_submission("submissions/a")


@pytest.mark.slow
async def test_an_absence_is_reported_once_and_so_is_its_end():
    """With how long it is waited for, at most; nothing of one that is over at once."""
    messages = []
    there = ServerAbsence("a:1", messages.append)
    assert await there.wait(DEADLINE_S)
    there.end()
    assert messages == []
    while not messages:
        assert await there.wait(DEADLINE_S)
    assert await there.wait(DEADLINE_S)
    there.end()
    there.end()
    assert messages == ["no answer from a:1; waiting until it is back, for up to 5 minutes", "a:1 answers again"]
    assert not await there.wait(0.0)


async def lines_until(process, text):
    async with asyncio.timeout(DEADLINE_S):
        while text not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended without {text!r}"
    return line


@pytest.mark.slow
async def test_a_command_goes_on_when_its_server_is_back(settings, place, order):
    """Killed while the kernel is graded, and away until the command has said that it waits: one submission, one verdict."""
    start = lambda: fake_server(settings, settings.state_dir, place / "counted", place / "log", listen=settings.listen)  # noqa: E731
    order[0][0].write_text("// grader: problem=sum\n" + fakes.source("held"))
    command = [sys.executable, "-m", "grader.cli.main", "submit", str(order[0][0]), "--server", settings.listen, "--mode", "test"]
    environment, pipe = {**os.environ, "XDG_CONFIG_HOME": str(place)}, asyncio.subprocess.PIPE
    async with start() as (server, _):
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=pipe, stderr=pipe, env=environment)
        await lines_until(process, "building: built")
        server.kill()
        await server.wait()
        await lines_until(process, "waiting until it is back")
    (place / "go").touch()
    async with start() as (_, client):
        await lines_until(process, "answers again")
        await lines_until(process, "ACCEPTED")
        assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
        assert len((await client.list_submissions()).submissions) == 1
