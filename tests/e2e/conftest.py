"""Runs `grader-cli` and `grader-server` as a person would: as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader.isolation import NoIsolationWorks
from tests.harness.grading import Grading, grader
from tests.requirements import absent
from tests.run_files import cache_directory

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "kernels_examples"
TIMEOUT_S = 480


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.stdout)


Cli = Callable[..., Ended]


@asynccontextmanager
async def emulated_grader(isolation: str) -> AsyncIterator[Grading]:
    """Start a fleet with the emulated device on this isolation; skip the test where it does not work."""
    async with AsyncExitStack() as stack:
        started = grader(isolation=isolation, lanes=(), artifacts=cache_directory(), device="emulated")
        try:
            grading = await stack.enter_async_context(started)
        except NoIsolationWorks as error:
            absent(isolation, str(error))
        yield grading


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a user whose state is empty. What other tests of this run have built is not built again."""
    variables = {"GRADER_STATE_DIR": tmp_path / "state", "GRADER_CACHE_DIR": cache_directory(), "XDG_CONFIG_HOME": tmp_path / "conf"}
    return {**os.environ, **{name: str(path) for name, path in variables.items()}}


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path) -> Cli:
    """Run grader-cli with these words in tmp_path."""

    def run(*words: object) -> Ended:
        command = [sys.executable, "-m", "grader.cli.main", *map(str, words)]
        result = subprocess.run(
            command, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
        return Ended(code=result.returncode, stdout=result.stdout.decode(), stderr=result.stderr.decode())

    return run


def first_word(process: subprocess.Popen[str]) -> str:
    """The first word that a command prints; its errors fail the test where there is none."""
    assert process.stdout is not None and process.stderr is not None
    line = process.stdout.readline()
    assert line, process.stderr.read()
    return line.split()[0]


def heed_signals() -> None:
    """As from a terminal: a shell has its background jobs ignore interrupts, and that would be inherited."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started(environment: dict[str, str], *words: object) -> subprocess.Popen[str]:
    """grader-cli with these words, on its way."""
    return subprocess.Popen(
        [sys.executable, "-m", "grader.cli.main", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=heed_signals,  # noqa: PLW1509  nothing else runs in this process meanwhile
    )
