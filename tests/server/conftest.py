"""Servers with a fake grade, reached over a real socket."""

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
import pytest_asyncio

from grader.api.client import GraderClient
from grader.config import Settings
from grader.model import SourceFile
from grader.observability import log
from grader.server.running import serving
from grader.v1 import grader_service_pb2_grpc
from tests import fakes
from tests.postgres import postgres, url  # noqa: F401  # fixtures
from tests.requests import new_submission


@pytest.fixture(autouse=True)
def quiet():
    log.configure("json", level=50)


@pytest.fixture
def place():
    """A short path: a unix socket's is limited."""
    with tempfile.TemporaryDirectory(prefix="gs-") as directory:
        yield Path(directory)


@pytest.fixture
def settings(place):
    fakes.write_problem(place / "problems", "sum")
    fakes.write_problem(place / "problems", "other")
    return Settings(listen=f"unix:{place}/s", state_dir=place / "state", problems=(place / "problems",), drain_s=0)


@pytest.fixture
def grade():
    return fakes.FakeGrade()


@pytest.fixture
def serve(settings):
    """Start a server, and a client of it."""

    @asynccontextmanager
    async def start(grade=None, *, capacity=4, **changes):
        there = settings.model_copy(update=changes)
        async with serving(there, fakes.wiring(grade, capacity=capacity)) as running, GraderClient(running.address) as client:
            yield client

    return start


@pytest.fixture
async def client(serve, grade):
    async with serve(grade) as opened:
        yield opened


def kernel(order="accept", problem="sum", **fields):
    """A submission as a client sends it."""
    return new_submission(problem, [SourceFile(path="kernel.cu", content=fakes.source(order))], **fields)


@pytest.fixture(name="kernel")
def kernel_():
    return kernel


@pytest.fixture
def finished():
    """Watch a submission to its end."""

    async def watch(client, submission):
        events = [event async for event in client.watch(submission.name)]
        return events[-1].submission

    return watch


@pytest_asyncio.fixture
async def served(place):
    """Starts a servicer of the test's own, and gives its address."""
    servers = []

    async def start(servicer):
        server = grpc.aio.server()
        grader_service_pb2_grpc.add_GraderServiceServicer_to_server(servicer, server)
        server.add_insecure_port(f"unix:{place}/l")
        await server.start()
        servers.append(server)
        return f"unix:{place}/l"

    yield start
    for server in servers:
        await server.stop(0)
