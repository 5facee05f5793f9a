"""One key does not fill the queue for all."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from grader import errors
from grader.config import Settings
from grader.v1 import grader_service_pb2 as api
from tests.server.keyed import bearer, keyed_server

FULL = {"queue_limit": 8, "drain_s": 0.0}


async def fill(client, kernel, count=12):
    """Submit until it is refused; how many were taken, and the refusal."""
    for taken in range(count):
        try:
            await client.submit(kernel("hang"))
        except (errors.QueueShareUsed, errors.QueueFull) as error:
            return taken, error
    return count, None


async def until_one_runs(client, kernel):
    made = await client.submit(kernel("hang"))
    async for event in client.watch(made.name):
        if event.HasField("build"):
            return


async def test_one_key_fills_its_share_and_others_still_submit(settings, kernel):
    """A quarter of eight. The refusal is RESOURCE_EXHAUSTED, and says when to come again."""
    async with keyed_server(settings, **FULL) as server:
        alice, bob = await server.key("alice"), await server.key("bob")
        async with server.client(alice) as first, server.client(bob) as second:
            for client in (first, first, first, first):  # the fake grades four at a time
                await until_one_runs(client, kernel)
            taken, error = await fill(second, kernel)
            assert (taken, type(error)) == (2, errors.QueueShareUsed) and error.limit == 2 and error.retry_s > 0
            assert (await first.submit(kernel())).name
        async with grpc.aio.insecure_channel(server.address) as channel:
            call = channel.unary_unary("/grader.v1.GraderService/Submit", request_serializer=api.SubmitRequest.SerializeToString)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call(api.SubmitRequest(submission=kernel()), metadata=(bearer(bob),), timeout=60)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and "share of the queue" in caught.value.details()
    status = status_pb2.Status.FromString(dict(caught.value.trailing_metadata())["grpc-status-details-bin"])
    assert any(detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR) for detail in status.details)


async def test_with_a_share_of_all_one_key_shuts_the_others_out(settings, kernel):
    """The control."""
    async with keyed_server(settings, user_queue_share=1.0, **FULL) as server, server.client(await server.key("bob")) as second:
        for _ in range(4):
            await until_one_runs(second, kernel)
        taken, _ = await fill(second, kernel)
        assert taken == 8
        async with server.client(await server.key("alice")) as first:
            with pytest.raises(errors.QueueFull):
                await first.submit(kernel())


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
