"""A client whose watch was quiet for long before it broke."""

import asyncio

import grpc
import pytest

from grader.api import client as client_module
from grader.api.client import GraderClient
from grader.config import Settings
from grader.errors import ServerUnreachable
from grader.server.connections import grpc_options
from grader.v1 import grader_service_pb2_grpc, submission_pb2


class Breaking(grader_service_pb2_grpc.GraderServiceServicer):
    """Says nothing for a while and breaks the stream, twice; then comes the event."""

    def __init__(self, idle_timeout_s, breaks):
        self.idle_timeout_s, self.breaks, self.calls = idle_timeout_s, breaks, 0

    async def WatchSubmission(self, request, context):
        self.calls += 1
        await asyncio.sleep(self.idle_timeout_s)
        if self.calls <= self.breaks:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        yield submission_pb2.SubmissionEvent(sequence=1)


async def test_patience_begins_with_the_break(served):
    """Half a second of quiet was no absence, though it is longer than the patience: it is taken up again."""
    breaking = Breaking(idle_timeout_s=0.5, breaks=1)
    async with GraderClient(await served(breaking), patience_s=0.4) as client:
        assert [event.sequence async for event in client.watch("submissions/a")] == [1]
    assert breaking.calls == 2


async def test_a_server_that_stays_away_is_given_up(served):
    """The control: two breaks without a word between them, for longer than the patience."""
    breaking = Breaking(idle_timeout_s=0.0, breaks=100)
    async with GraderClient(await served(breaking), patience_s=0.4) as client:
        with pytest.raises(ServerUnreachable):
            async for _ in client.watch("submissions/a"):
                pass
    assert breaking.calls == 2 and client_module.PAUSE_FIRST_S == 0.5


def test_pings_may_come_as_often_as_clients_send_them():
    """gRPC passes over an option whose name it does not know, and then ends a quiet watch after two minutes (as it did)."""
    least_ms = dict(grpc_options(Settings()))["grpc.http2.min_ping_interval_without_data_ms"]
    assert least_ms < dict(client_module._OPTIONS)["grpc.keepalive_time_ms"]
