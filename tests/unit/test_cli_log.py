"""`grader-cli log`: what the compiler and the kernel printed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from grader.cli import log_command
from grader.cli.exits import Exit, Misuse
from grader.cli.session import Target
from grader.v1 import submission_pb2

NAME = "submissions/abc"


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Prints the log of a submission with this compiler's log and kernel's output; None: it has no report yet."""

    async def printed(compiler_log: str | None, text: str = "", *, terminal: bool = False, **options: bool) -> str:
        submission = submission_pb2.Submission(name=NAME)
        if compiler_log is not None:
            submission.report.build.log, submission.report.output = compiler_log, text

        async def get_submission(_: str) -> submission_pb2.Submission:
            return submission

        async def whole_name(_: object, name: str) -> str:
            return name

        @asynccontextmanager
        async def connect(*_: object) -> Any:
            yield SimpleNamespace(get_submission=get_submission)

        monkeypatch.setattr(log_command, "connect", connect)
        monkeypatch.setattr(log_command, "whole_name", whole_name)
        monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
        asked = {"compiler": False, "output": False} | options
        assert await log_command.log(Target(server=None, state_dir=None), NAME, **asked) is Exit.DONE
        return capsys.readouterr().out

    return printed


async def test_both_are_printed_apart(printed: Any) -> None:
    """Without a heading where one is asked for, and without one for what is empty."""
    assert await printed("ptxas info\n", "hello") == "==> compiler <==\nptxas info\n==> output <==\nhello\n"
    assert await printed("ptxas info\n", "hello", output=True) == "hello\n"
    assert await printed("ptxas info\n", "hello", compiler=True) == "ptxas info\n"
    assert (await printed("ptxas info\n", "hello", compiler=True, output=True)).count("==>") == 2
    assert await printed("ptxas info\n") == "==> compiler <==\nptxas info\n"


async def test_a_terminal_does_not_obey_it(printed: Any) -> None:
    """A kernel prints what it likes; a pipe gets it as it was."""
    assert "\x1b" not in await printed("", "\x1b[2J", terminal=True)
    assert "\x1b[2J" in await printed("", "\x1b[2J")


@pytest.mark.parametrize(
    ("compiler", "options", "expected"),
    [
        (None, {}, "it is not graded yet; `grader-cli watch abc` waits for it"),
        ("", {}, "the compiler and the kernel printed nothing"),
        ("", {"output": True}, "the kernel printed nothing"),
    ],
)
async def test_nothing_to_print_is_said(printed: Any, compiler: str | None, options: dict[str, bool], expected: str) -> None:
    """Instead of nothing at all."""
    with pytest.raises(Misuse, match=expected):
        await printed(compiler, **options)
