"""Stub servers and workers as processes of this host, a problem and users for them, and their figures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.config import Settings
from grader.errors import GraderError
from grader.isolation import processes
from grader.ledger import Ledger
from grader.model import Scope
from grader.v1 import submission_pb2
from tools.page import facts, table_lines

PROBLEM = "stub"
PROBLEM_TOML = f"""
name = "{PROBLEM}"
title = "A problem that no stub computes"
axes = ["n"]
inputs = [{{ name = "a", shape = ["n"] }}]
outputs = [{{ name = "c", shape = ["n"] }}]
workloads = [{{ id = "n64", axes = {{ n = 64 }} }}]
"""
SOURCE = 'extern "C" void solve(const float* a, float* c, long n, void* stream) {{ /* {} */ }}\n'
START_S = 60.0
MARK = "STUB_RUN"  # an environment variable of all processes of a run: its directory
FAULTS_SHOWN = 20


def write_problem(directory: Path) -> Path:
    """Write the problem into a directory of its own, and return that."""
    place = directory / PROBLEM
    place.mkdir(parents=True, exist_ok=True)
    (place / "problem.toml").write_text(PROBLEM_TOML, "utf-8")
    (place / "reference.py").write_text("def reference(a, n):\n    return a\n", "utf-8")
    return place


def submission(note: str) -> submission_pb2.Submission:
    """Return a kernel whose source holds a note."""
    source = submission_pb2.SourceFile(path="kernel.cu", content=SOURCE.format(note))
    return submission_pb2.Submission(problem=f"problems/{PROBLEM}", sources=[source], mode=submission_pb2.MODE_TEST)


def make_keys(count: int, state_dir: Path, database: str) -> dict[str, str]:
    """Make users, each with a key, in the ledger that the servers will open; return each user's key."""

    async def make() -> dict[str, str]:
        async with Ledger.open(Settings(state_dir=state_dir, database=database).ledger) as ledger:
            users = [f"user{index}" for index in range(count)]
            return {user: (await ledger.keys.create(user, frozenset({Scope.SUBMIT, Scope.READ})))[1] for user in users}

    return asyncio.run(make())


def shared_free_bytes() -> int:
    """Return what is free in /dev/shm, where servers copy the toolchain to."""
    return shutil.disk_usage("/dev/shm").free


def free_port() -> int:
    """Return a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Process:
    """A program that is started and killed at will, with one log file."""

    def __init__(self, module: str, words: Sequence[str], state_dir: Path) -> None:
        self._log = state_dir.with_suffix(".log")
        self._environment = {**os.environ, MARK: str(state_dir.parent)}
        self._command = [sys.executable, "-m", module, *words, "--state-dir", str(state_dir)]
        self._command += ["--log-format", "json", "--drain-s", "5"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Return the id of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; it answers calls a moment later."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def serves(self) -> tuple[float, float, float]:
        """Start it, and stop it once it serves: return seconds and CPU seconds until then, and the MiB of shared memory taken."""
        begin_s, size, free_bytes = time.monotonic(), self._log.stat().st_size if self._log.exists() else 0, shared_free_bytes()
        self.start()
        while '"serving"' not in self._log.read_text("utf-8")[size:]:
            if time.monotonic() - begin_s > START_S:
                raise RuntimeError(f"it does not serve\n{self._log.read_text('utf-8', 'replace')[-2000:]}")
            time.sleep(0.01)
        wall_s = time.monotonic() - begin_s
        times = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:15]  # its own, and of those it waited for
        taken_mib = (free_bytes - shared_free_bytes()) / 2**20
        self.stop()
        return wall_s, sum(map(int, times)) / os.sysconf("SC_CLK_TCK"), taken_mib

    def kill(self) -> None:
        """Send SIGKILL, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Send SIGTERM, and wait for the drain."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    async def until_answering(self, client: GraderClient) -> None:
        """Wait until it answers; RuntimeError with the end of its log where it does not."""
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                await client.list_problems()
                return
            except GraderError as error:
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"{error}\n{self._log.read_text('utf-8', 'replace')[-2000:]}") from None


class Server(Process):
    """A stub server."""

    def __init__(self, kind: str, wait_ms: float, state_dir: Path, problems: Path, words: Sequence[str] = ()) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        options = [kind, str(wait_ms), "--listen", self.address, "--problems", str(problems), *words]
        super().__init__("tools.service.stub_server", options, state_dir)


class Worker(Process):
    """A stub worker of a server whose fleet port is a unix socket."""

    def __init__(self, wait_ms: float, join: str, state_dir: Path, words: Sequence[str] = ()) -> None:
        super().__init__("tools.service.stub_server", ["worker", str(wait_ms), "--join", join, *words], state_dir)


async def listed(client: GraderClient, **filters: Any) -> AsyncIterator[str]:
    """Yield the names of all submissions that the caller sees, page by page."""
    token = ""
    while True:
        page = await client.list_submissions(page_size=1000, page_token=token, **filters)
        for submission in page.submissions:
            yield submission.name
        if not (token := page.next_page_token):
            return


def commands(pids: Iterable[int]) -> dict[int, str]:
    """Return the command lines of those of these processes that are still there."""
    lines = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            lines[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    return lines


def children(pid: int) -> dict[int, str]:
    """Return the direct children of a process with their command lines."""
    return commands(child for child, facts in processes.table().items() if facts.parent == pid)


def descendants(pid: int) -> dict[int, str]:
    """Return the children of a process, their children, and so on, with their command lines."""
    return commands(processes.descendants(pid, processes.table()) - {pid})


def left_behind(directory: Path, patience_s: float) -> list[str]:
    """Kill the processes of this run that have not ended after so long, and return their command lines."""
    deadline_s = time.monotonic() + patience_s
    while (strays := commands(processes.labelled(**{MARK: str(directory)}))) and time.monotonic() < deadline_s:
        time.sleep(0.2)
    for pid in strays:
        kill(pid)
    return list(strays.values())


def kill(pid: int) -> None:
    """Send SIGKILL to a process if it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def show(program: str, figures: Any, faults: Sequence[str], *, as_json: bool) -> int:
    """Print the figures of a run, a dataclass, and its faults; return the exit code."""
    if as_json:
        sys.stdout.write(json.dumps(vars(figures)) + "\n")
    else:
        rows: dict[str, object] = dict(facts(f"python -m tools.service.{program}", sys.argv[1:]))
        for name, value in vars(figures).items():
            rows[name.replace("_", " ")] = {float: "{:.2f}".format, list: len, Counter: dict}.get(type(value), str)(value)
        sys.stdout.write("\n".join(table_lines(("figure", "value"), rows.items())) + "\n")
    for fault in faults[:FAULTS_SHOWN]:
        sys.stderr.write(f"fault: {fault}\n")
    return int(bool(faults))
