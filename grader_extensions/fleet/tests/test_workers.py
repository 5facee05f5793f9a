"""A server that grades nothing itself, and workers on the emulated device that join it over mutual TLS: all of them processes."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grader.api.client import GraderClient
from grader.v1 import submission_pb2
from tests.e2e.conftest import EXAMPLES
from tests.harness.programs import Program, program
from tests.run_files import cache_directory
from tests.server.test_chaos import assert_nothing_is_lost
from tools.service import host

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
    """A server's address, the server, and its workers by name."""

    api: str
    server: Program
    join_node: Callable[..., None] = print
    admin: Callable[..., None] = print
    workers: dict[str, Program] = field(default_factory=dict)

    def stop(self, node: str) -> None:
        """Have a worker drain, and wait until it has gone."""
        process = self.workers[node].process
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0


@pytest.fixture
def fleet(tmp_path):
    """Start a server, and workers with these names and options."""
    with ExitStack() as stack:

        def start(*options: str, nodes=("one",)) -> Fleet:
            state = tmp_path / "server"
            ports = ["--listen", "127.0.0.1:0", "--fleet-listen", "127.0.0.1:0"]
            words = ["--state-dir", state, "--problems", EXAMPLES, "--fleet", "remote", *ports, *options]
            server = stack.enter_context(program("grader.server.main", *words))
            join = server.until("fleet_listening")["address"]
            running = Fleet(server.until("serving")["address"], server)

            def admin(subject: str, *words: str) -> None:
                command = [sys.executable, "-m", "grader.server.main", "admin", subject, "--state-dir", str(state), *words]
                subprocess.run(command, check=True, capture_output=True)

            def join_node(node: str, *extra: str) -> None:
                certificate = tmp_path / f"{node}.pem"
                if not certificate.exists():
                    admin("workers", "add", node, "--out", str(certificate))
                cache = cache_directory() if not extra else tmp_path / f"{node}-cache"
                flags = ["--join", join, "--certificate", certificate, "--state-dir", tmp_path / node, "--cache-dir", cache, *extra]
                worker = stack.enter_context(
                    program("grader_extensions.fleet.main", *flags, "--no-resident-toolchain", "--device", "emulated", *options)
                )
                assert worker.until("joined")["node"] == node
                running.workers[node] = worker

            running.join_node, running.admin = join_node, admin
            for node in nodes:
                join_node(node)
            return running

        yield start


def test_the_six_of_the_story_get_their_verdicts_at_a_worker(fleet, cli) -> None:
    """As they do where the server grades itself, and one of them in ranked mode."""
    running = fleet()
    for name in STORY:
        path = EXAMPLES / "tril_matmul" / f"{name}.cu"
        verdict, *reason = path.read_text().splitlines()[0].removeprefix("// expect:").split()
        ended = cli("submit", path, "--server", running.api, "--mode", "test", "--json")
        report = ended.json["report"]
        assert report["verdict"] == f"VERDICT_{verdict}" and (not reason or report["reason"] == reason[0]), ended.stdout
    ranked = cli("submit", EXAMPLES / "tril_matmul" / "correct_2d.cu", "--server", running.api, "--mode", "ranked", "--json")
    assert ranked.json["report"]["verdict"] == "VERDICT_ACCEPTED" and ranked.json["report"]["process_count"] > 1, ranked.stdout


@pytest.fixture
def waiting(tmp_path):
    """A kernel that waits for a file, and the file."""
    gate = tmp_path / "gate"
    for directory in (*tmp_path.parents[:2], tmp_path):
        directory.chmod(0o755)
    source = tmp_path / "waits.cu"
    source.write_text(WAITS.replace("FILE", str(gate)))
    return source, gate


def test_workers_are_replaced_one_after_the_other_while_submissions_come(fleet, cli) -> None:
    """As an upgrade does it: cordon, stop, start the new one, uncordon. Each submission is graded once, none waits for the end of it."""
    running = fleet("--sandbox", "process", nodes=("one", "two"))
    source = EXAMPLES / "vector_add" / "grid_stride.cu"
    names = []

    def submit() -> None:
        names.append(cli("submit", source, "--server", running.api, "--mode", "test", "--no-wait", "--json").json["name"])

    for node in ("one", "two"):
        submit()
        running.admin("lanes", "cordon", node)
        submit()
        running.stop(node)
        running.join_node(node)
        running.admin("lanes", "uncordon", node)
        submit()
    for name in names:
        watched = cli("watch", name, "--server", running.api, "--json")
        assert watched.code == 0 and '"attempt_count": 1' in watched.stdout, watched.stdout[-2000:] + watched.stderr


def test_a_workers_judge_that_is_killed_costs_an_attempt_and_leaves_no_box(fleet, cli, waiting) -> None:
    """The submission is graded again, at the same worker, and gets its verdict; the box of the first attempt is gone."""
    source, gate = waiting
    running = fleet("--sandbox", "process", "--warm-boxes", "0")  # so that every box belongs to this submission
    name = cli("submit", source, "--problem", "vector_add", "--server", running.api, "--mode", "test", "--no-wait", "--json").json["name"]
    asyncio.run(_verifying(running.api, name))
    judge, boxes = _judge_and_boxes(running.workers["one"].process.pid)
    assert boxes
    host.kill(judge)
    gate.touch()
    watched = cli("watch", name, "--server", running.api)
    assert watched.code == 0 and "ACCEPTED" in watched.stdout, watched.stdout + watched.stderr
    again, boxes_after = _judge_and_boxes(running.workers["one"].process.pid)
    assert again != judge and not boxes_after
    assert not [pid for pid in boxes if Path(f"/proc/{pid}").exists()]


def _judge_and_boxes(worker: int) -> tuple[int, set[int]]:
    """A worker's judge, and all of its other processes."""
    (judge,) = [pid for pid, command in host.children(worker).items() if "sandbox.judge" in command]
    return judge, host.descendants(worker).keys() - host.descendants(judge).keys() - {judge}


async def _verifying(address: str, name: str) -> None:
    """Until its kernel runs."""
    async with GraderClient(address) as client, asyncio.timeout(300):
        async for event in client.watch(name):
            if event.HasField("progress") and event.progress.stage == submission_pb2.STAGE_VERIFYING:
                return


@pytest.mark.slow
def test_every_acknowledged_submission_has_one_verdict(capsys):
    """Of a server to which two workers come."""
    assert_nothing_is_lost(["--workers", "2"], capsys)
