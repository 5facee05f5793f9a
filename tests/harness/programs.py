"""Runs programs of ours as processes, and reads their logs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

START_S = 300.0  # of a busy machine
POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process, and the file of its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def until(self, word: str, count: int = 1) -> dict[str, str]:
        """The first line of its log with this word, or the one after so many of them."""
        end_s = time.monotonic() + START_S
        while time.monotonic() < end_s:
            ended = self.process.poll() is not None
            lines = [line for line in self.log.read_text().splitlines() if f'"{word}"' in line]
            if len(lines) >= count:
                event: dict[str, str] = json.loads(lines[count - 1])
                return event
            if ended:
                break
            time.sleep(POLL_S)
        pytest.fail(f"no {word!r} in the log:\n{self.log.read_text()[-5000:]}")


@contextmanager
def program(module: str, *words: object) -> Iterator[Program]:
    """A program of ours with a log as JSON; it is stopped afterwards, and ends well unless it was killed."""
    command = [sys.executable, "-m", module, *map(str, words), "--log-format", "json"]
    with tempfile.NamedTemporaryFile(prefix="grader-log-") as log:
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log) as process:
            child = Program(process=process, log=Path(log.name))
            try:
                yield child
            finally:
                process.send_signal(signal.SIGTERM)
                code = process.wait(timeout=300)
        assert code in (0, -signal.SIGKILL), child.log.read_text()[-3000:]
