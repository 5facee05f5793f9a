"""A single key does not fill the queue for all."""

import asyncio
import json
from types import SimpleNamespace

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from typer.testing import CliRunner

from grader import errors
from grader.api.client import GraderClient
from grader.api.credentials import Credential
from grader.cli.main import app
from grader.cli.session import dial
from grader.config import Settings
from grader.observability.observer import Observer
from grader.peers import PeerLimits
from grader.server.interceptors import CallInterceptor, OpenCalls, current_caller
from grader.v1 import grader_service_pb2 as api
from tests.server.keyed import bearer, keyed_server
from tests.server.processes import until_built


async def until_running(client, kernel):
    await until_built(client, await client.submit(kernel("hang")))


async def placed(client, submission):
    """Return it once it has its place in the queue, which is read again only after a rest: the longer, the longer a read took."""
    async with asyncio.timeout(60):
        while not (waiting := await client.get_submission(submission.name, full=True)).HasField("queue_position"):
            await asyncio.sleep(0.05)
    return waiting


async def test_one_key_fills_its_share_and_others_still_submit(settings, kernel):
    """A quarter of eight. The refusal is RESOURCE_EXHAUSTED, and says when to come again."""
    async with keyed_server(settings, queue_limit=8, drain_s=0.0) as server:
        alice, bob = await server.key("alice"), await server.key("bob")
        async with server.client(alice) as first, server.client(bob) as second:
            for _ in range(4):  # the fake grades four at a time
                await until_running(first, kernel)
            for _ in range(2):
                await second.submit(kernel())
            with pytest.raises(errors.QueueShareUsed) as used:
                await second.submit(kernel())
            assert used.value.limit == 2 and used.value.retry_s > 0
            assert (await first.submit(kernel())).name
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/grader.v1.GraderService/Submit", request_serializer=api.SubmitRequest.SerializeToString)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(api.SubmitRequest(submission=kernel()), metadata=(bearer(bob),), timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "share of the queue" in caught.value.details()
    status = status_pb2.Status.FromString(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    assert any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)


@pytest.mark.parametrize("named", [True, False])
async def test_clients_without_keys_take_turns(serve, grade, kernel, named):
    """On a unix socket, which has no addresses: a single one is next after what runs. The control: two without a name are alike."""
    async with serve(grade, capacity=1) as many, GraderClient(many.address) as second_client:
        if not named:
            for client in (many, second_client):
                for name, call in vars(client.stub).items():
                    setattr(client.stub, name, call.func)
        await until_running(many, kernel)
        await many.batch_submit([kernel() for _ in range(20)])
        single = await placed(second_client, await second_client.submit(kernel()))
        assert single.queue_position.ahead_count == (0 if named else 20)
        assert single.user == "" and "client:" not in str(single)


async def test_commands_of_a_login_are_one_client(serve, grade, kernel):
    """Each is a process of its own: a loop of them has the turns of one. The control is another program, which is next."""
    async with serve(grade, capacity=1) as second_server:
        await until_running(second_server, kernel)
        ahead = []
        for _ in range(3):
            async with dial(second_server.address, Credential()) as command:
                ahead.append((await placed(command, await command.submit(kernel()))).queue_position.ahead_count)
        assert ahead == [0, 1, 2]
        async with GraderClient(second_server.address) as program:
            assert (await placed(program, await program.submit(kernel()))).queue_position.ahead_count == 1


@pytest.mark.parametrize(("method", "has_share"), [("Submit", True), ("GetSubmission", False)])
async def test_a_share_is_made_for_submissions_only(method, has_share):
    """A digest of the name for each call would be for nothing."""
    interceptor = CallInterceptor(None, OpenCalls(PeerLimits(total=1, per_address=1)), Observer())
    context = SimpleNamespace(invocation_metadata=lambda: [("grader-client", "a")])
    async with interceptor._answering(f"/grader.v1.GraderService/{method}", context):
        assert bool(current_caller().share) is has_share


async def test_a_batch_of_the_class_lets_a_later_one_go_first(serve, grade, kernel, tmp_path):
    """Of the same client, which has one share of the queue; those of the class are in the order of shares. By the command line too."""
    async with serve(grade, capacity=1) as client:
        await until_running(client, kernel)
        first, second = await client.batch_submit([kernel(), kernel()], batch=True)
        third = await client.submit(kernel(), batch=True)
        source = tmp_path / "kernel.cu"
        source.write_text(kernel().sources[0].content)
        command = ["submit", str(source), "--problem", "sum", "--server", client.address, "--batch", "--no-wait", "--json"]
        answer = await asyncio.to_thread(CliRunner().invoke, app, command)
        by_command = SimpleNamespace(**json.loads(answer.stdout))
        single = await client.submit(kernel())
        waiting = [await placed(client, submission) for submission in (single, by_command, first, second, third)]
        assert [submission.queue_position.ahead_count for submission in waiting] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        (Settings(listen="127.0.0.1:0"), None),
        (Settings(listen="127.0.0.1:0", auth="none", queue_limit=8), None),
        (Settings(listen="0.0.0.0:0"), 250),
        (Settings(auth="keys", queue_limit=8), 2),
        (Settings(auth="keys", queue_limit=3), 1),
        (Settings(auth="keys", queue_limit=8, user_queue_share=1.0), 8),
    ],
)
def test_only_a_server_with_keys_has_shares(settings, limit):
    """On one's own host there is one user, who may fill the queue; a share is one place at least."""
    assert settings.user_queue_limit == limit
