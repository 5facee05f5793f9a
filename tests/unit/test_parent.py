"""Processes that execute a problem's code end with whoever started them, whatever that code is doing."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.protocol import wire
from tests import fakes

ROOT = Path(__file__).parents[2]
ENDS_S, STARTS_S, LIVES_S = 60.0, 60.0, 0.5
# Loops in C, where no other thread of the interpreter gets to run.
LOOP = "import itertools\nsum(itertools.repeat(0))"
TIED = "from sandbox.judge import end_with_parent\nend_with_parent(1)"
# Starts a command in a session of its own, as the server does, and hands a message to it.
STARTER = """
import subprocess, sys
command, message = sys.argv[2:], open(sys.argv[1], 'rb').read()
child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
child.stdin.write(message)
child.stdin.flush()
print(child.pid, flush=True)
child.wait()
"""
# Returns at once in the judge; in the trusted runner's process it never does.
REFERENCE = """
import multiprocessing, os, pathlib, torch
mine = pathlib.Path({marks!r}, multiprocessing.current_process().name)
mine.with_suffix('.part').write_text(f'{{os.getpid()}} {{torch.backends.cudnn.allow_tf32}}')
mine.with_suffix('.part').rename(mine)
if mine.stem == 'baseline':
    while True:
        pass


def reference(a, b, n):
    return a + b
"""


@contextmanager
def started(message: Path, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield what starts the command, and the command's pid once it has said a line; both end with the test."""
    parent = subprocess.Popen([sys.executable, "-c", STARTER, str(message), *command], cwd=ROOT, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = 0
    try:
        pid = int(parent.stdout.readline())
        yield parent, pid
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
        if pid:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def ends(descriptor: int, patience_s: float) -> bool:
    """Return whether the process ends in that time."""
    waited = select.poll()
    waited.register(descriptor, select.POLLIN)
    return bool(waited.poll(patience_s * 1000))


@contextmanager
def handle(pid: int) -> Iterator[int]:
    """A descriptor that means this process, even when its number is another's."""
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(("tied", "ended"), [(TIED, True), ("", False)])
def test_a_loop_in_c_ends_with_the_parent(tmp_path: Path, tied: str, ended: bool) -> None:
    """Killed, so that it could end nobody itself. One that is not tied goes on."""
    (tmp_path / "message").touch()
    code = f"{tied}\nprint('r', flush=True)\n{LOOP}"
    with started(tmp_path / "message", sys.executable, "-c", code) as (parent, pid), handle(pid) as child:
        assert not ends(child, LIVES_S)
        parent.kill()
        assert ends(child, ENDS_S if ended else LIVES_S) is ended


@pytest.mark.parametrize("alive", [True, False])
def test_a_parent_that_died_before_is_noticed(alive: bool) -> None:
    """By the other end of the pipe, which nobody else has."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", f"import sys\nsys.stdin.read()\n{TIED}"]
    child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=writing)
    os.close(writing)
    if not alive:
        os.close(reading)
    child.communicate(timeout=STARTS_S)
    if alive:
        os.close(reading)
    assert child.returncode == (0 if alive else 1)


@pytest.mark.slow
def test_a_judge_and_its_trusted_runner_end_with_the_server(tmp_path: Path) -> None:
    (marks := tmp_path / "marks").mkdir()
    (tmp_path / "artifact").write_bytes(b"")
    spec = fakes.problem().spec
    problem = replace(spec, inputs=(spec.inputs[0], replace(spec.inputs[0], name="b")), reference=REFERENCE.format(marks=str(marks)))
    places = {"link_path": str(tmp_path / "link"), "artifact_path": str(tmp_path / "artifact")}
    job = fakes.job(problem=problem, mode=wire.Mode.BENCHMARK, artifact_digest=hashlib.sha256(b"").hexdigest(), **places)
    (tmp_path / "message").write_bytes(wire.encode(job))
    command = (sys.executable, "-m", "sandbox.judge", "emulated")
    with started(tmp_path / "message", *command) as (parent, pid), handle(pid) as judge, handle(_runner(marks)) as runner:
        assert not ends(judge, LIVES_S) and not ends(runner, 0)
        # Forked before the judge makes its own settings: a baseline is PyTorch's own speed.
        assert [(marks / name).read_text().split()[1] for name in ("MainProcess", "baseline")] == ["False", "True"]
        parent.kill()
        assert ends(judge, ENDS_S) and ends(runner, ENDS_S)


def _runner(marks: Path) -> int:
    """The pid that the reference left in the trusted runner; waits for it."""
    mark = marks / "baseline"
    with subprocess.Popen(["sh", "-c", f'until [ -e "{mark}" ]; do sleep 0.05; done']) as waiting:
        try:
            waiting.wait(STARTS_S)
        finally:
            waiting.kill()
    return int(mark.read_text().split()[0])
