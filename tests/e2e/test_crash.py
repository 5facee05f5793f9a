"""A server that is killed loses nothing, grades nothing twice and leaves no box behind; with real boxes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from grader.api.client import GraderClient
from grader.v1 import report_pb2, submission_pb2
from tests.harness.programs import Program, program
from tests.requirements import absent

ROOT = Path(__file__).parents[2]
# Right, and slow enough on the host side to be caught in the middle: 30 ms a call, about 66 calls.
SLOW = """#include <cuda_runtime.h>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, long n) {
    long i = (long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {
    usleep(30000);
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
"""


@pytest.fixture(
    params=[
        pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.slow]),
        pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
        pytest.param("process", marks=pytest.mark.slow),
    ]
)
def sandbox(request: pytest.FixtureRequest) -> str:
    """Each isolation that is here."""
    name = str(request.param)
    there = shutil.which("bwrap") is not None if name == "bubblewrap" else name == "process" or _docker_answers()
    if not there:
        absent(name, f"no {name} here")
    return name


def _docker_answers() -> bool:
    try:
        return bool(docker.from_env().ping())
    except docker.errors.DockerException:
        return False


@contextmanager
def server(state_dir: Path, sandbox: str) -> Iterator[Program]:
    """Start grader-server on a socket in the state directory, and stop it afterwards unless it was killed."""
    words = ["--listen", address_of(state_dir), "--state-dir", state_dir, "--sandbox", sandbox, "--problems", ROOT / "kernels_examples"]
    with program("grader.server.main", *words) as started:
        started.until("serving")
        yield started


def address_of(state_dir: Path) -> str:
    return f"unix:{state_dir}/api.sock"


@pytest.fixture
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short path: a unix socket's has 107 characters."""
    path = Path(f"/tmp/grader-crash-{os.getpid()}")
    path.mkdir()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def _submission(index: int) -> submission_pb2.Submission:
    source = submission_pb2.SourceFile(path="kernel.cu", content=f"// {index}\n{SLOW}")
    return submission_pb2.Submission(problem="problems/vector_add", language="cuda", sources=[source], mode=submission_pb2.MODE_TEST)


async def _submit(address: str, count: int) -> list[str]:
    async with GraderClient(address) as client:
        return [(await client.submit(_submission(index))).name for index in range(count)]


async def _until_a_verdict(address: str, names: list[str]) -> set[int]:
    """Wait until one is being verified while others are queued; the states seen."""
    async with GraderClient(address) as client:
        async with asyncio.timeout(300):
            async for event in client.watch(names[0]):
                if event.HasField("trial"):
                    break
        return {(await client.get_submission(name)).state for name in names}


async def _histories(address: str, names: list[str]) -> dict[str, list[submission_pb2.SubmissionEvent]]:
    async with GraderClient(address) as client:
        return {name: [event async for event in client.watch(name)] for name in names}


def _ours(state_dir: Path) -> list[str]:
    """The command lines of processes that carry this server's state directory, boxes by their label among them."""
    state_id = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:12]
    commands = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if state_id.encode() in text:
            commands.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
    return commands


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_acknowledged_submission_reaches_one_verdict(sandbox: str, state_dir: Path) -> None:
    """kill -9 while jobs are queued, building and running; after a restart each has one verdict and no box of the old server is left."""
    address = address_of(state_dir)
    with server(state_dir, sandbox) as first:
        names = asyncio.run(_submit(address, 5))
        states = asyncio.run(_until_a_verdict(address, names))
        first.process.kill()
        first.process.wait()
    assert submission_pb2.SUBMISSION_STATE_RUNNING in states and submission_pb2.SUBMISSION_STATE_QUEUED in states
    old_boxes = _box_names(state_dir) if sandbox == "docker" else set()

    with server(state_dir, sandbox):
        histories = asyncio.run(_histories(address, names))
        assert not old_boxes & _box_names(state_dir)
    for name, events in histories.items():
        final = [event for event in events if event.HasField("submission") and event.submission.HasField("report")]
        assert len(final) == 1 and events[-1] is final[0], name
        assert final[0].submission.report.verdict == report_pb2.VERDICT_ACCEPTED, final[0].submission.report.summary
        stored = [event.sequence for event in events if not event.HasField("queue_position")]
        assert stored == list(range(1, len(stored) + 1))
    deadline = time.monotonic() + 300
    while (leftovers := _ours(state_dir)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert leftovers == [] and not _box_names(state_dir)


def _box_names(state_dir: Path) -> set[str]:
    """The containers of this state directory's servers, running or not."""
    if not _docker_answers():
        return set()
    state_id = hashlib.sha256(str(state_dir.resolve()).encode()).hexdigest()[:12]
    containers = docker.from_env().containers.list(all=True, filters={"label": f"grader.state={state_id}"})
    return {str(container.id) for container in containers}
