"""Lets the host of a stub server fail while submissions wait: its engine, descriptors, disk or ledger.

    python -m tools.service.chaos --fault engine|descriptors|disk|ledger

No acknowledged submission may fail or vanish, and /readyz has to report the fault. engine starts a Docker engine of its
own and grades real kernels on it; the other servers are stubs. engine and disk need root.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from grader.config import LEDGER_NAME
from grader.errors import GraderError
from grader.v1 import submission_pb2
from tools.page import ROOT
from tools.service import host

WAITING_COUNT = 40
CLIENT_COUNT = 60  # with a connection each
DESCRIPTORS = 64
DISK_BYTES = 60 << 20
AWAY_S = 6.0
PATIENCE_S = 500.0
POLL_S = 0.1
JUDGE_MS = 200
EXAMPLES = ROOT / "kernels_examples"
KERNEL = EXAMPLES / "vector_add" / "grid_stride.cu"
UNFINISHED = (submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_RUNNING)


@dataclass(kw_only=True)
class FaultOutcome:
    """Figures of a run. unready: the text of /readyz, "" where it was ready all the time.
    recovered_s: from the end of the fault until it was ready; graded_s: until all was graded."""

    fault: str
    acknowledged: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    unready: str = ""
    unready_after_s: float = 0.0
    recovered_s: float = 0.0
    graded_s: float = 0.0
    states: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return a sentence for each fault."""
        faults = list(self.errors)
        if self.states != {"SUBMISSION_STATE_SUCCEEDED": len(self.acknowledged)}:
            faults.append(f"{len(self.acknowledged)} submissions were acknowledged, and their states are {self.states}")
        if not self.unready and self.fault != "descriptors":  # there nothing fails
            faults.append("/readyz did not report it")
        return faults


class FaultedServer(host.Process):
    """A server with a web port. descriptors: how many files it may open."""

    def __init__(self, outcome: FaultOutcome, directory: Path, module: str, words: Sequence[str], *, descriptors: int = 4096) -> None:
        self.outcome = outcome
        self.address, self.web = f"127.0.0.1:{host.free_port()}", f"127.0.0.1:{host.free_port()}"
        ports = ["--listen", self.address, "--web", self.web, "--lanes", "1", "--log-level", "warning"]
        super().__init__(module, [*words, *ports], directory / "state")
        self._command = ["prlimit", f"--nofile={descriptors}:{descriptors}", *self._command]

    def client(self) -> GraderClient:
        """Return a client that reports errors soon."""
        return GraderClient(self.address, deadline_s=15.0, patience_s=1.0)

    def unready(self) -> str:
        """Return the text of /readyz; "" where it is ready."""
        try:
            with urllib.request.urlopen(f"http://{self.web}/readyz", timeout=10):
                return ""
        except urllib.error.HTTPError as error:
            return error.read().decode().strip()
        except OSError as error:
            return f"no answer: {error}"

    async def until(self, *, ready: bool) -> float:
        """Wait until it is ready, or is not; return the seconds."""
        start_s = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            while bool(reason := await asyncio.to_thread(self.unready)) is ready:
                await asyncio.sleep(POLL_S)
        seconds = time.monotonic() - start_s
        if not ready:
            self.outcome.unready, self.outcome.unready_after_s = reason, seconds
        return seconds

    async def submit(self, count: int, kernel: submission_pb2.Submission | None = None) -> None:
        """Submit kernels one after the other."""
        async with self.client() as client:
            for number in range(count):
                await self.submit_with(client, kernel or host.submission(f"{number} {time.monotonic_ns()}"))

    async def submit_with(self, client: GraderClient, kernel: submission_pb2.Submission) -> None:
        """Submit a kernel, and note whether it was acknowledged or why it was refused."""
        try:
            self.outcome.acknowledged.append((await client.submit(kernel)).name)
        except GraderError as error:
            self.outcome.refused[str(error)[:200]] += 1

    async def until_graded(self) -> None:
        """Wait until all submissions have ended; note their states."""
        start_s = time.monotonic()
        async with self.client() as client, asyncio.timeout(PATIENCE_S):
            while (await client.list_submissions(page_size=1, states=UNFINISHED)).submissions:
                await asyncio.sleep(POLL_S)
            for name in self.outcome.acknowledged:
                try:
                    submission = await client.get_submission(name)
                except GraderError as error:
                    self.outcome.errors.append(f"{name}: {error}")
                    continue
                self.outcome.states[submission_pb2.SubmissionState.Name(submission.state)] += 1
                if submission.error.message:
                    self.outcome.errors.append(f"{name}: {submission.error.message}")
        self.outcome.graded_s = self.outcome.recovered_s + time.monotonic() - start_s


async def run(fault: str, directory: Path) -> FaultOutcome:
    """Run one of FAULTS."""
    outcome = FaultOutcome(fault=fault)
    await FAULTS[fault](outcome, directory)
    return outcome


async def engine(outcome: FaultOutcome, directory: Path) -> None:
    """Kill the Docker engine under a queue, and start it again after some seconds."""
    socket, docker = directory / "docker.sock", directory / "docker"
    docker.mkdir()
    os.environ["DOCKER_HOST"] = f"unix://{socket}"
    command = ["dockerd", f"--host=unix://{socket}", f"--data-root={docker / 'data'}", f"--exec-root={docker / 'exec'}"]
    command += [f"--pidfile={docker / 'pid'}", "--bridge=none", "--iptables=false"]

    def start() -> subprocess.Popen[bytes]:
        with (docker / "log").open("ab") as log:
            environment = {**os.environ, host.MARK: str(directory)}
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)

    def stop() -> None:
        process.terminate()
        process.wait()
        host.left_behind(directory, 0.0)  # what watched a box when the engine was killed
        for mount in reversed(Path("/proc/mounts").read_text("utf-8").splitlines()):  # of boxes that the kill left
            if (place := mount.split()[1]).startswith(str(docker)):
                subprocess.run(["umount", "--lazy", place], check=True)

    source = submission_pb2.SourceFile(path=KERNEL.name, content=KERNEL.read_text("utf-8"))
    kernel = submission_pb2.Submission(problem="problems/vector_add", sources=[source], mode=submission_pb2.MODE_TEST)
    words = ["--sandbox", "docker", "--device", "emulated", "--no-resident-toolchain", "--problems", str(EXAMPLES)]
    async with AsyncExitStack() as stack:
        process = start()
        stack.callback(stop)
        async with asyncio.timeout(PATIENCE_S):
            while not socket.exists():
                await asyncio.sleep(POLL_S)
        server = FaultedServer(outcome, directory, "grader.server.main", words)
        stack.callback(server.stop)
        server.start()
        await server.until(ready=True)
        await server.submit(WAITING_COUNT, kernel)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        await server.until(ready=False)
        await asyncio.sleep(AWAY_S)
        process = start()
        outcome.recovered_s = await server.until(ready=True)
        await server.until_graded()


async def descriptors(outcome: FaultOutcome, directory: Path) -> None:
    """Connect many callers to a server that may open few files."""
    with _stub(outcome, directory, descriptors=DESCRIPTORS) as server:
        await server.until(ready=True)
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for _ in range(CLIENT_COUNT)]
            await asyncio.gather(*(server.submit_with(client, host.submission(f"{number}")) for number, client in enumerate(clients)))
        await server.until_graded()


async def disk(outcome: FaultOutcome, directory: Path) -> None:
    """Fill the disk of the state directory for a while."""
    state = directory / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(state)], check=True)
    try:
        with _stub(outcome, directory) as server:
            await server.until(ready=True)
            await server.submit(WAITING_COUNT)
            with (state / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                while True:
                    filler.write(bytes(4096))
            await server.until(ready=False)
            await server.submit(2)
            await asyncio.sleep(AWAY_S)
            (state / "filler").unlink()
            outcome.recovered_s = await server.until(ready=True)
            await server.submit(2)
            await server.until_graded()
    finally:
        subprocess.run(["umount", "--lazy", str(state)], check=True)


async def ledger(outcome: FaultOutcome, directory: Path) -> None:
    """Move the ledger's files away for a while, then kill the server."""
    with _stub(outcome, directory) as server:
        await server.until(ready=True)
        await server.submit(WAITING_COUNT)
        state, away = directory / "state", directory / "away"
        away.mkdir()
        for path in state.glob(f"{LEDGER_NAME}*"):
            path.rename(away / path.name)
        await server.until(ready=False)
        await server.submit(2)
        await asyncio.sleep(AWAY_S)
        for path in away.iterdir():
            path.rename(state / path.name)
        outcome.recovered_s = await server.until(ready=True)
        await server.submit(2)
        server.kill()
        server.start()
        await server.until(ready=True)
        await server.until_graded()


@contextmanager
def _stub(outcome: FaultOutcome, directory: Path, **limits: int) -> Iterator[FaultedServer]:
    words = ["processes", str(JUDGE_MS), "--problems", str(host.write_problem(directory))]
    server = FaultedServer(outcome, directory, "tools.service.stub_server", words, **limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


FAULTS: dict[str, Callable[[FaultOutcome, Path], Awaitable[None]]] = {
    "engine": engine,
    "descriptors": descriptors,
    "disk": disk,
    "ledger": ledger,
}
