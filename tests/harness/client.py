"""The tests' side of the grading service: submits, waits, and starts the service when the first test of a run needs it."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox.protocol import wire
from tests.harness.grading import ROOT, Graded
from tests.harness.messages import LENGTH_BYTES, SOCKET, Answer, BuildRequest, GradingRequest, ServiceFailed, Unusable, frame
from tests.requirements import absent

RUN_DIR_VARIABLE, OWNER_VARIABLE = "GRADER_TEST_RUN_DIR", "GRADER_TEST_OWNER_PID"
PID, LOG = "grading.pid", "grading.log"
START_S, STOP_S = 120.0, 60.0
LOG_SHOWN_BYTES = 4000


class GradingClient:
    """Submits to the service of this test run."""

    def __init__(self, run_dir: Path, owner_pid: int) -> None:
        self._run_dir, self._owner_pid = run_dir, owner_pid

    @classmethod
    def of_this_run(cls) -> GradingClient:
        """The client of the test run that this process belongs to; `conftest.py` sets the variables."""
        return cls(Path(os.environ[RUN_DIR_VARIABLE]), int(os.environ[OWNER_VARIABLE]))

    def grade(self, request: GradingRequest) -> Graded:
        """Grade this and wait for the verdict."""
        graded, *_ = self.grade_both(request)
        return graded

    def grade_both(self, request: GradingRequest) -> tuple[Graded, ...]:
        """Grade this, and what it names as next on the same lane."""
        answer = self._ask(request, request.isolation)
        assert isinstance(answer, tuple) and isinstance(answer[0], Graded)
        return answer

    def build(self, request: GradingRequest) -> tuple[wire.Build, bytes | None]:
        """Build this in a box, or take it from the cache of this run: the build's facts and the artifact."""
        build, artifact = self._ask(BuildRequest(submission=request), request.isolation)
        return build, artifact

    def build_somewhere(self, requests: Sequence[GradingRequest]) -> bytes | None:
        """The artifact by the first of these whose isolation works on this machine; None where it does not build."""
        for request in requests:
            answer = self._exchange(BuildRequest(submission=request))
            if not isinstance(answer, Unusable):
                _, artifact = self._checked(answer, request.isolation)
                return artifact
        pytest.skip("no isolation works on this machine")

    def _ask(self, request: GradingRequest | BuildRequest, isolation: str) -> tuple:
        return self._checked(self._exchange(request), isolation)

    def _checked(self, answer: Answer, isolation: str) -> tuple:
        match answer:
            case Unusable(detail=detail):
                absent(isolation, detail)
            case ServiceFailed(detail=detail):
                pytest.fail(f"the grading service failed: {detail}\n{self._log()}")
        return answer

    def _exchange(self, request: GradingRequest | BuildRequest) -> Answer:
        with self._connect() as connection, connection.makefile("rb") as reading:
            connection.sendall(frame(pickle.dumps(request)))
            length = reading.read(LENGTH_BYTES)
            if not length:
                pytest.fail(f"the grading service ended while a test waited for it\n{self._log()}")
            answer: Answer = pickle.loads(reading.read(int.from_bytes(length, "big")))
            return answer

    def _connect(self) -> socket.socket:
        path = self._run_dir / SOCKET
        with (self._run_dir / "grading.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of a run start one service
            if not path.exists():
                self._start(path)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        return connection

    def _start(self, path: Path) -> None:
        command = [sys.executable, "-m", "tests.harness.service", str(self._run_dir), str(self._owner_pid)]
        with (self._run_dir / LOG).open("ab") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        (self._run_dir / PID).write_text(str(process.pid))
        deadline = time.monotonic() + START_S
        while not path.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"the grading service did not start\n{self._log()}")
            time.sleep(0.05)

    def _log(self) -> str:
        path = self._run_dir / LOG
        return path.read_bytes()[-LOG_SHOWN_BYTES:].decode(errors="replace") if path.exists() else ""


def stop(run_dir: Path) -> None:
    """End the service of this run, if there is one, and wait until it has removed its boxes."""
    path = run_dir / PID
    if not path.exists():
        return
    pid, deadline = int(path.read_text()), time.monotonic() + STOP_S
    try:
        os.kill(pid, signal.SIGTERM)
        while time.monotonic() < deadline and _runs(pid):
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _runs(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
