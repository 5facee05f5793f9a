"""A failure in a runner before it has anything of the submission is the grader's fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import NoRunner, accept, connect
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0


def loaded(place: Path, *, device_kind: str) -> object:
    """How a real runner takes an artifact that is none."""
    path = str(place / "judge.sock")
    job = wire.RunnerJob(device_kind=device_kind, language="cuda", entry="solve", inputs=(), outputs=(), arena_bytes=65536)
    runner = subprocess.Popen([sys.executable, "-m", "sandbox.runner.run", path], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        with accept(path, None, LIMIT_S) as link, connect(EmulatedDevice(), link, job, b"no artifact", LIMIT_S) as subject:
            return subject.loaded
    finally:
        runner.kill()
        runner.wait()


def test_a_device_that_does_not_open_is_our_fault(tmp_path: Path) -> None:
    """A driver that is missing in the box, or no memory: the attempt is broken and made again, and no submission is charged."""
    with pytest.raises(NoRunner, match="ended before it had opened its device"):
        loaded(tmp_path, device_kind="nonexistent")


def test_an_artifact_that_does_not_load_is_the_submissions(tmp_path: Path) -> None:
    """The control."""
    outcome = loaded(tmp_path, device_kind="emulated")
    assert isinstance(outcome, Answer) and outcome.status is Status.RAISED
