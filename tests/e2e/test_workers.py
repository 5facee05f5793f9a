"""A server that grades nothing itself, and workers on the emulated device that join it over mutual TLS: all of them processes."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from grader.api.client import GraderClient
from grader.v1 import submission_pb2
from tests.e2e.conftest import EXAMPLES
from tests.run_files import cache_directory

pytestmark = pytest.mark.slow

STORY = ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")
WAITS = """#include <cuda_runtime.h>
#include <unistd.h>
extern "C" void solve(const float* a, const float* b, float* c, long n, cudaStream_t stream) {
    while (access("FILE", F_OK) != 0) usleep(10000);
    for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
}
"""


@dataclass
class Fleet:
    """A server's address, and its workers by name."""

    api: str
    join_node: Callable[[str], None] = print
    workers: dict[str, subprocess.Popen] = field(default_factory=dict)


def until(stream, word: str) -> dict:
    """The first line of a log with this word."""
    said = []
    for line in stream:
        said.append(line)
        if f'"{word}"' in line:
            return json.loads(line)
    pytest.fail("".join(said))


@contextmanager
def program(module: str, *words: object):
    """A program of ours with a log as JSON; it is stopped afterwards, and ends well unless it was killed."""
    command = [sys.executable, "-m", module, *map(str, words), "--log-format", "json"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            rest = process.stderr.read()
            assert process.wait(timeout=120) in (0, -signal.SIGKILL), rest[-3000:]


@pytest.fixture
def fleet(tmp_path):
    """Start a server, and workers with these names and options."""
    with ExitStack() as stack:

        def start(*options: str, nodes=("one",)) -> Fleet:
            state = tmp_path / "server"
            ports = ["--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"]
            words = ["--state-dir", state, "--problems", EXAMPLES, "--fleet", "remote", *ports, *options]
            server = stack.enter_context(program("grader.server.main", *words))
            join = until(server.stderr, "fleet_listening")["address"]
            made = Fleet(until(server.stderr, "serving")["address"])

            def join_node(node: str) -> None:
                certificate = tmp_path / f"{node}.pem"
                admin = [sys.executable, "-m", "grader.server.main", "admin", "workers", "--state-dir", str(state), "add", node]
                subprocess.run([*admin, "--out", str(certificate)], check=True, capture_output=True)
                own = ["--join", join, "--certificate", certificate, "--state-dir", tmp_path / node, "--cache-dir", cache_directory()]
                worker = stack.enter_context(
                    program("grader.worker.main", *own, "--no-resident-toolchain", "--device", "emulated", *options)
                )
                assert until(worker.stderr, "joined")["node"] == node
                made.workers[node] = worker

            made.join_node = join_node
            for node in nodes:
                join_node(node)
            return made

        yield start


def test_the_six_of_the_story_get_their_verdicts_at_a_worker(fleet, cli) -> None:
    """As they do where the server grades itself, and one of them in ranked mode."""
    made = fleet()
    for name in STORY:
        path = EXAMPLES / "tril_matmul" / f"{name}.cu"
        verdict, *reason = path.read_text().splitlines()[0].removeprefix("// expect:").split()
        ended = cli("submit", path, "--server", made.api, "--mode", "test", "--json")
        report = ended.json["report"]
        assert report["verdict"] == f"VERDICT_{verdict}" and (not reason or report["reason"] == reason[0]), ended.stdout
    ranked = cli("submit", EXAMPLES / "tril_matmul" / "correct_2d.cu", "--server", made.api, "--mode", "ranked", "--json")
    assert ranked.json["report"]["verdict"] == "VERDICT_ACCEPTED" and ranked.json["report"]["process_count"] > 1, ranked.stdout


def test_a_worker_that_is_killed_loses_nothing(fleet, cli, tmp_path) -> None:
    """What it graded is graded by the other one; it is one submission with one verdict."""
    gate = tmp_path / "gate"
    for directory in tmp_path.parents[:2]:
        directory.chmod(0o755)
    tmp_path.chmod(0o755)
    source = tmp_path / "waits.cu"
    source.write_text(WAITS.replace("FILE", str(gate)))
    made = fleet("--sandbox", "process")
    left = cli("submit", source, "--problem", "vector_add", "--server", made.api, "--mode", "test", "--no-wait", "--json").json["name"]
    asyncio.run(_verifying(made.api, left))
    made.workers["one"].kill()
    gate.touch()
    made.join_node("two")
    watched = cli("watch", left, "--server", made.api)
    assert watched.code == 0 and "ACCEPTED" in watched.stdout, watched.stdout + watched.stderr


async def _verifying(address: str, name: str) -> None:
    """Until its kernel runs."""
    async with GraderClient(address) as client, asyncio.timeout(300):
        async for event in client.watch(name):
            if event.HasField("progress") and event.progress.stage == submission_pb2.STAGE_VERIFYING:
                return
