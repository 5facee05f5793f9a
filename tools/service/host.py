"""What the tries share: a server as a process, a problem and users for it, what its processes take, and how figures are printed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from grader.api.client import GraderClient
from grader.config import Settings
from grader.errors import GraderError
from grader.ledger import Ledger
from grader.model import Scope
from grader.v1 import submission_pb2
from tools.page import facts, table_lines

PROBLEM = "stub"
_PROBLEM_TOML = f"""
name = "{PROBLEM}"
title = "What no stub looks at"
axes = ["n"]
inputs = [{{ name = "a", shape = ["n"] }}]
outputs = [{{ name = "c", shape = ["n"] }}]
workloads = [{{ id = "n64", axes = {{ n = 64 }} }}]
"""
_SOURCE = 'extern "C" void solve(const float* a, float* c, long n, void* stream) {{ /* {} */ }}\n'
START_S = 60.0
MARK = "STUB_RUN"  # in the environment of all processes of a try: its directory
SCOPES = frozenset({Scope.SUBMIT, Scope.READ})
FAULTS_SHOWN = 20


class CoreTimes(NamedTuple):
    """What this machine's cores have done since it started, in seconds: proc_stat(5)."""

    busy_s: float
    idle_s: float  # or waiting for the disk

    @classmethod
    def now(cls) -> CoreTimes:
        """Of all cores together."""
        user, nice, system, idle, disk, irq, softirq = map(int, Path("/proc/stat").read_text("ascii").split(maxsplit=8)[1:8])
        second = os.sysconf("SC_CLK_TCK")
        return cls(busy_s=(user + nice + system + irq + softirq) / second, idle_s=(idle + disk) / second)


def write_problem(directory: Path) -> Path:
    """The one problem, in a directory of its own."""
    place = directory / PROBLEM
    place.mkdir(parents=True, exist_ok=True)
    (place / "problem.toml").write_text(_PROBLEM_TOML, "utf-8")
    (place / "reference.py").write_text("def reference(a, n):\n    return a\n", "utf-8")
    return place


def submission(note: str, mode: submission_pb2.Mode = submission_pb2.MODE_TEST) -> submission_pb2.Submission:
    """A kernel whose source holds a note."""
    source = submission_pb2.SourceFile(path="kernel.cu", content=_SOURCE.format(note))
    return submission_pb2.Submission(problem=f"problems/{PROBLEM}", sources=[source], mode=mode)


def make_keys(count: int, state_dir: Path, database: str) -> dict[str, str]:
    """Make users, each with a key, in the ledger that the servers will open; the text of each user's key."""
    return asyncio.run(_make(count, Settings(state_dir=state_dir, database=database)))


async def _make(count: int, settings: Settings) -> dict[str, str]:
    async with Ledger.open(settings.ledger) as ledger:
        return {user: (await ledger.keys.create(user, SCOPES))[1] for user in (f"user{index}" for index in range(count))}


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A program, started and killed at will. Its log goes on in one file."""

    def __init__(self, module: str, words: Sequence[str], state_dir: Path) -> None:
        self._log = state_dir.with_suffix(".log")
        self._environment = {**os.environ, MARK: str(state_dir.parent)}
        self._command = [sys.executable, "-m", module, *words, "--state-dir", str(state_dir)]
        self._command += ["--log-format", "json", "--drain-s", "5"]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it; its calls are answered a moment later."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)

    def kill(self) -> None:
        """SIGKILL, as a power cut would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """SIGTERM, and wait for the drain."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def log_tail(self) -> str:
        """The end of its log, which may show why it does not answer."""
        return self._log.read_text("utf-8", "replace")[-2000:]


class Server(Process):
    """A stub server."""

    def __init__(self, kind: str, wait_ms: float, state_dir: Path, problems: Path, words: Sequence[str] = ()) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        given = [kind, str(wait_ms), "--listen", self.address, "--problems", str(problems), *words]
        super().__init__("tools.service.stub_server", given, state_dir)


class Worker(Process):
    """A stub worker of a server whose fleet port is a unix socket."""

    def __init__(self, wait_ms: float, join: str, state_dir: Path, words: Sequence[str] = (), kind: str = "processes") -> None:
        super().__init__("tools.service.stub_worker", [kind, str(wait_ms), "--join", join, *words], state_dir)


async def until_answering(server: Process, client: GraderClient) -> None:
    """Wait until it answers; RuntimeError with its log where it does not."""
    until = time.monotonic() + START_S
    while True:
        try:
            await client.list_problems()
            return
        except GraderError as error:
            if time.monotonic() > until:
                raise RuntimeError(f"{error}\n{server.log_tail()}") from None


def children(pid: int) -> Iterator[tuple[int, str]]:
    """Direct children with their command lines."""
    for child, parent in _parents():
        if parent == pid:
            with contextlib.suppress(OSError):
                yield child, _command(child)


def descendants(pid: int) -> dict[int, str]:
    """Children, theirs, and so on, with their command lines."""
    parents = dict(_parents())
    found: dict[int, str] = {}
    layer = {pid}
    while layer := {child for child, parent in parents.items() if parent in layer}:
        for child in layer:
            with contextlib.suppress(OSError):
                found[child] = _command(child)
    return found


def marked(directory: Path) -> dict[int, str]:
    """All processes of the try in this directory, with their command lines."""
    found, mark = {}, f"{MARK}={directory}\0".encode()
    for pid, _ in _parents():
        with contextlib.suppress(OSError):
            if mark in Path(f"/proc/{pid}/environ").read_bytes():
                found[pid] = _command(pid)
    return found


def left_behind(directory: Path, patience_s: float) -> list[str]:
    """The command lines of processes of this try that have not ended after so long; they are killed."""
    until = time.monotonic() + patience_s
    while (found := marked(directory)) and time.monotonic() < until:
        time.sleep(0.2)
    for pid in found:
        kill(pid)
    return list(found.values())


def _parents() -> Iterator[tuple[int, int]]:
    """All processes with their parents."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                yield int(entry.name), int((entry / "stat").read_text().rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")


def kill(pid: int) -> None:
    """SIGKILL, where it is still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def resident_bytes(pid: int) -> int:
    """What a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """What a process has used of the cores since it began."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(program: str, figures: Any, faults: Sequence[str], *, as_json: bool) -> int:
    """Print the figures of a run, a dataclass, and what is wrong with them; the exit code."""
    if as_json:
        sys.stdout.write(json.dumps(asdict(figures)) + "\n")
    else:
        found = dict(_rows(asdict(figures)))
        rows = {**facts(f"python -m tools.service.{program} {shlex.join(sys.argv[1:])}"), **found}
        sys.stdout.write("\n".join(table_lines(("what", "which"), rows.items())) + "\n")
    for fault in faults[:FAULTS_SHOWN]:
        sys.stderr.write(f"fault: {fault}\n")
    return int(bool(faults))


def _rows(figures: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """A row for each figure; of a table in a table, one for each of its rows."""
    for name, value in figures.items():
        label = name.replace("_", " ")
        if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
            for key, parts in value.items():
                yield f"{label}: {key}", ", ".join(f"{part} {_shown(one)}" for part, one in parts.items())
        else:
            yield label, _shown(value)


def _shown(value: object) -> object:
    return f"{value:.2f}" if isinstance(value, float) else len(value) if isinstance(value, list) else value
