"""Workers that say what a test wants them to, and real ones with a fake grade."""

import asyncio
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import grpc
import pytest

from grader.api.client import GraderClient
from grader.config import Settings
from grader.fleet.v1 import fleet_pb2, fleet_pb2_grpc
from grader.model import Lease, Submission, SubmissionState
from grader.server.running import serving
from grader_extensions.fleet.fleet_port import SERVER_NAME, joined
from grader_extensions.fleet.serve import FleetSession, _attached
from sandbox.protocol import wire
from sandbox.protocol.version import VERSION
from tests import fakes
from tests.waiting import until


def lease(order="accept", *, device_kind="", submission_id="s1"):
    draft = replace(fakes.new_submission(order), device_kind=device_kind)
    submission = Submission(
        submission_id=submission_id, new=draft, problem_digest="d", state=SubmissionState.RUNNING, create_time=datetime.now(UTC)
    )
    return Lease(submission=submission, problem=fakes.problem(), attempt=1, worker_id="w")


class Worker:
    """A worker that says what a test wants it to."""

    def __init__(self, call):
        self.call = call

    async def say(self, **message):
        await self.call.write(fleet_pb2.AttachRequest(**message))

    async def heard(self):
        return await self.call.read()

    async def grade(self):
        """The next attempt that it is given."""
        message = await self.heard()
        assert message.WhichOneof("message") == "grade", message
        return message.grade

    async def fact(self, attempt, number, fact):
        line = fact if isinstance(fact, bytes) else wire.encode(fact)
        await self.say(fact=fleet_pb2.Fact(attempt=attempt, number=number, line=line))

    async def end(self, attempt, reason="", message=""):
        await self.say(ended=fleet_pb2.Ended(attempt=attempt, reason=reason, message=message))

    async def refusal(self):
        """With what code the server ends the stream."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            while await self.heard() is not grpc.aio.EOF:
                pass
            raise AssertionError("it was not refused")
        return caught.value.code(), caught.value.details()


def standing(*kinds, capacity=2, **fields):
    return fleet_pb2.Standing(capacity=capacity, device_kinds=kinds or ("emulated",), **fields)


@asynccontextmanager
async def attached(address, stands=None, *, protocol=VERSION, safe=True, credentials=None, instance=""):
    """A worker that has said hello."""
    options = (("grpc.ssl_target_name_override", SERVER_NAME),)
    opened = (
        grpc.aio.secure_channel(address, credentials, options=options) if credentials is not None else grpc.aio.insecure_channel(address)
    )
    async with opened as channel:
        call = fleet_pb2_grpc.FleetServiceStub(channel).Attach()
        worker = Worker(call)
        hello = fleet_pb2.Hello(protocol=protocol, isolation="docker", safe=safe, standing=stands or standing(), instance=instance)
        await worker.say(hello=hello)
        try:
            yield worker
        finally:
            call.cancel()


@asynccontextmanager
async def inside(address, stands=None, **options):
    """A worker that was let in."""
    async with attached(address, stands, **options) as worker:
        assert (await worker.heard()).WhichOneof("message") == "welcome"
        yield worker


async def graded(fleet, assigned):
    async with asyncio.timeout(300), aclosing(fleet.grade(assigned)) as facts:
        return [fact async for fact in facts]


async def begun(fleet, worker):
    """An attempt that is under way at this worker: the task that grades it, and what the worker was sent."""
    return asyncio.create_task(graded(fleet, lease())), await worker.grade()


@asynccontextmanager
async def working(address, grade, files, *, drain_s=0.0, capacity=2, room=None):
    """A real worker with a fake grade; the event that stops it. room: its capacity, where that
    changes."""
    async with fakes.wiring(grade, capacity=capacity)(Settings()) as grading:
        signalled = asyncio.Event()
        grading = replace(grading, capacity=room or grading.capacity)
        session = FleetSession(grading, files)
        task = asyncio.create_task(_attached(address, None, session, signalled, drain_s))
        await until(lambda: session.node or task.done())
        assert not task.done()
        yield signalled, task
        signalled.set()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def served(remote):
    async with serving(remote, joined) as running, GraderClient(running.address) as client:
        yield client, remote.fleet_listen
