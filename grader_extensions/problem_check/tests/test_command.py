"""`grader-cli problems check`, as a person runs it, and what stands behind it: a process that executes the problem and may die of it.

What a hostile problem tries in the box of a check is in `test_containment.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.formats import native
from grader.model import Problem
from grader_extensions.problem_check import admission
from tests.e2e.conftest import ROOT, Cli, started
from tests.e2e.test_cli_alone import ADD, all_end, descendants, watched

pytestmark = pytest.mark.slow

TOML = """
name = "{name}"
title = "A row's mean"
axes = ["rows", "cols"]
inputs = [{{ name = "x", shape = ["rows", "cols"] }}]
outputs = [{{ name = "y", shape = ["rows"] }}]
workloads = [{{ id = "4x64", axes = {{ rows = 4, cols = 64 }} }}, {{ id = "3x33", axes = {{ rows = 3, cols = 33 }}, hidden = true }}]
"""
MEAN = "return x.mean(-1)"
CONSTANT = "return torch.softmax(x, -1).mean(-1)"


def write(root: Path, body: str, name: str = "mean") -> Path:
    """A problem whose reference does that."""
    directory = root / name
    directory.mkdir(parents=True)
    (directory / "problem.toml").write_text(TOML.format(name=name))
    (directory / "reference.py").write_text(f"import os, signal, time, torch\n\n\ndef reference(x):\n    {body}\n")
    return directory


def load(root: Path, body: str) -> Problem:
    return native.load(write(root, body))


@pytest.mark.parametrize(
    ("body", "code", "texts"),
    [
        (MEAN, 0, ("admitted", "zeros", "4x64")),
        (CONSTANT, 1, ("FAILED", "refused (", "a kernel that remembers the answer to other inputs", "change what is asked for")),
    ],
)
def test_a_problem_that_tells_right_from_wrong_is_admitted(cli: Cli, tmp_path: Path, body: str, code: int, texts: tuple[str, ...]) -> None:
    """With a row for each thing that was tried; of another what could pass, and what to do."""
    ended = cli("problems", "check", write(tmp_path, body))
    assert ended.code == code, ended.stderr
    assert all(text in ended.stdout for text in texts) and ("FAILED" in ended.stdout) is (code == 1)


def test_a_directory_of_problems_is_checked_whole_as_json(cli: Cli, tmp_path: Path) -> None:
    """A single refused problem is enough for exit code 1."""
    write(tmp_path / "all", MEAN, "good")
    write(tmp_path / "all", CONSTANT, "bad")
    ended = cli("problems", "check", tmp_path / "all", "--json")
    assert ended.code == 1 and ended.json["admitted"] is False
    problems = {problem["problem_id"]: problem for problem in ended.json["problems"]}
    assert (problems["good"]["admitted"], problems["bad"]["admitted"]) == (True, False)
    failed = {finding["check"] for finding in problems["bad"]["findings"] if finding["outcome"] == "failed"}
    assert "seed" in failed and all(finding["message"] for finding in problems["bad"]["findings"] if finding["outcome"] != "passed")


def test_trusted_runs_the_reference_without_a_box(cli: Cli, tmp_path: Path) -> None:
    """A file of this host is written with --trusted, and not without."""
    mark = tmp_path / "mark"
    marking = write(tmp_path, f"open({str(mark)!r}, 'w').close(); {MEAN}")
    refused = cli("problems", "check", marking, "--json")
    assert refused.code == 1 and refused.json["admitted"] is False and not mark.exists()
    assert cli("problems", "check", marking, "--trusted", "--json").json["admitted"] is True and mark.exists()


@pytest.mark.parametrize("body", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGSEGV)"])
async def test_a_reference_that_ends_the_process_is_refused(tmp_path: Path, body: str) -> None:
    """Silence is no admission."""
    checked = await admission.check(load(tmp_path, body))
    assert not checked.admitted and "the process that ran the reference ended" in checked.refusals[-1].message


async def test_a_thread_that_a_reference_leaves_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The answer is there, and the interpreter would wait for the thread."""
    thread = f"__import__('threading').Thread(target=time.sleep, args=(1000,)).start(); {MEAN}"
    async with asyncio.timeout(200):
        assert (await admission.check(load(tmp_path, thread), patience_s=600.0)).admitted


@pytest.mark.parametrize("body", ["time.sleep(1000)", "return sum(iter(int, 1))"])
async def test_a_reference_that_never_returns_is_not_admitted(tmp_path: Path, body: str) -> None:
    """Its process ends itself soon after the budget, in Python or in C; nothing was found for the problem or against it."""
    mark = tmp_path / "pid"
    problem = load(tmp_path, f"open({str(mark)!r}, 'w').write(str(os.getpid())); {body}")
    notices: list[str] = []
    checked = await admission.check(problem, budget_s=1.0, patience_s=600.0, notice_s=0.2, waiting=notices.append)
    assert checked.outcome is admission.AdmissionOutcome.UNCHECKED and not checked.refusals
    assert checked.left_out[-1].check == "time" and "it was not done within 1 s" in checked.left_out[-1].message
    assert notices and all(line.startswith("still checking 'mean': ") and line.endswith(" s of at most 601 s") for line in notices)
    assert not mark.exists() or not Path(f"/proc/{mark.read_text()}").exists()  # a busy machine may not come as far as the reference


@pytest.mark.parametrize("loop", ["[None for _ in iter(int, 1)]", "sum(iter(int, 1))"])
def test_a_reference_that_loops_ends_with_the_command(environment: dict[str, str], tmp_path: Path, loop: str) -> None:
    """In Python or in C, however the command ended; as long as the command waits, it goes on."""
    os.mkfifo(mark := tmp_path / "pid")
    looping = write(tmp_path, f"open({str(mark)!r}, 'w').write(str(os.getpid())); {loop}")
    command = [sys.executable, "-m", "grader.cli.main", "problems", "check", str(looping), "--budget", "5", "--trusted"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as asking:
        child = os.pidfd_open(int(mark.read_text()))  # waits until there is somebody who writes
        try:
            waited = select.poll()
            waited.register(child, select.POLLIN)
            assert not waited.poll(1000)
            asking.kill()
            assert waited.poll(60_000)
        finally:
            asking.kill()
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


@pytest.mark.parametrize(
    "where", [pytest.param(("--trusted",), id="trusted"), pytest.param(("--sandbox", "bubblewrap"), id="box", marks=pytest.mark.bubblewrap)]
)
def test_a_check_of_a_problem_ends_with_the_command(environment: dict[str, str], tmp_path: Path, where: tuple[str, ...]) -> None:
    """SIGTERM ends what executes the reference, too."""
    if "bubblewrap" in where and shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed")
    with started(environment, "problems", "check", ADD, "--budget", "3600", *where) as process:
        deadline_s = time.monotonic() + 60
        while not descendants(process.pid) and time.monotonic() < deadline_s:
            time.sleep(0.01)
        with watched(descendants(process.pid)) as begun:
            assert begun
            process.send_signal(signal.SIGTERM)
            process.communicate()
            assert process.wait(timeout=300) == 143
            assert all_end(begun)
