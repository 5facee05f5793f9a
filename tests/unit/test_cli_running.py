"""How a command ends: by itself, by a signal, or because nobody reads what it writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from grader.cli import running
from grader.cli.exits import Exit, GraderFailed, UsageError, exit_of_error
from grader.cli.output import open_console
from grader.cli.server_choice import GraderTyper
from grader.errors import FieldViolation, InvalidSubmission, ServerUnreachable, SettingsInvalid

DEADLINE_S = 300.0
# What a user's Ctrl-C does where it meets `module` being imported: the command line begins like the installed script does.
INTERRUPTED_AT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Finder())
sys.argv = ["grader-cli", "submit", "--help"]
from grader.cli.main import main
sys.exit(main())
"""

PRINTING = """
import typer
from grader.cli import exits, running
async def work():
    print("a line")
    return exits.Exit.DONE
try:
    running.run(work())
except typer.Exit as ended:
    raise SystemExit(ended.exit_code)
"""


@pytest.fixture(params=[(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)], ids=lambda signal_case: signal_case[0].name)
def order(request: pytest.FixtureRequest) -> Iterator[tuple[signal.Signals, int]]:
    """A signal that ends a command, and the exit code for it; as if nobody had taken or ignored it before."""
    number, code = request.param
    former = signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield number, code
    signal.signal(number, former)


class Work:
    """A command that waits for ever, and takes a while to clean up."""

    def __init__(self, *signals: signal.Signals, cleaning_s: float = 0.2) -> None:
        self.signals, self.cleaning_s, self.cleaned = signals, cleaning_s, False

    async def run(self) -> Exit:
        """Send the signals to this process, once it would wait."""
        for signal_number in self.signals:
            os.kill(os.getpid(), signal_number)
        try:
            await asyncio.sleep(DEADLINE_S)
        finally:
            await asyncio.sleep(self.cleaning_s)
            self.cleaned = True
        return Exit.DONE


async def at_once(code: Exit) -> Exit:
    return code


NO_N = InvalidSubmission((FieldViolation("submission.size", "write n=5"), FieldViolation("submission.mode", "write test")))


@pytest.mark.parametrize(
    ("error", "described"),
    [
        (NO_N, ("INVALID_ARGUMENT", "INVALID_SUBMISSION", "submission.size", "submission.size: write n=5; submission.mode: write test")),
        (UsageError("no file 'a.cu'"), ("INVALID_ARGUMENT", "INVALID_REQUEST", "", "no file 'a.cu'")),
        (GraderFailed("no server"), ("INTERNAL", "GRADER_FAILED", "", "no server")),
        (SettingsInvalid("PORT", "is no port"), ("INVALID_ARGUMENT", "INVALID_REQUEST", "PORT", "PORT: is no port")),
        (UsageError("sources: no file 'a.cu'"), ("INVALID_ARGUMENT", "INVALID_REQUEST", "sources", "sources: no file 'a.cu'")),
        (ServerUnreachable("a:1", "refused"), ("UNAVAILABLE", "SERVER_UNREACHABLE", "", "no answer from a:1: refused")),
    ],
)
def test_a_refusal_is_json_where_the_command_prints_json(
    error: Exception, described: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the words for people on stderr as ever, and without it nothing on stdout."""

    async def refuse(json: bool = False) -> Exit:
        raise error

    app = GraderTyper()
    app.command()(refuse)
    for options in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            app(options)
        assert end.value.code == exit_of_error(error)
        printed = capsys.readouterr()
        assert str(error) in printed.err
        keys = ("code", "reason", "field", "message")
        assert printed.out == "" if not options else json.loads(printed.out) == {"error": dict(zip(keys, described, strict=True))}


def ended(work: Work) -> int:
    with pytest.raises(typer.Exit) as raised:
        running.run(work.run())
    return raised.value.exit_code


def test_a_signal_ends_a_command_in_order(order: tuple[signal.Signals, int]) -> None:
    """The command gives up its resources first, and the exit code is the signal's."""
    number, code = order
    work = Work(number)
    assert ended(work) == code
    assert work.cleaned


def test_a_second_signal_breaks_the_cleaning_up_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it comes later than an echo: `timeout` signals its command, then the group that this is in. The code is that of the first."""
    work = Work(signal.SIGTERM, signal.SIGTERM, signal.SIGHUP)
    assert ended(work) == 143 and work.cleaned
    monkeypatch.setattr(running, "ECHO_S", -1.0)
    work = Work(signal.SIGTERM, signal.SIGTERM, cleaning_s=DEADLINE_S)
    assert ended(work) == 143 and not work.cleaned


def test_what_is_ignored_stays_ignored() -> None:
    """The control, and nohup: the command ends by itself."""
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        with pytest.raises(typer.Exit) as raised:
            running.run(at_once(Exit.OTHER_VERDICT))
        assert raised.value.exit_code == 1
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)


def test_a_closed_pipe_is_no_exit_of_the_consoles(monkeypatch: pytest.MonkeyPatch) -> None:
    """rich would raise SystemExit(1), which no command can tell from another verdict."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(BrokenPipeError):
            open_console().print("a line")
        monkeypatch.undo()
        os.dup2(1, writer)  # so that it can be closed


@pytest.mark.parametrize(
    ("words", "unbuffered"), [(("submit", "--help"), ""), (("submit", "--help"), "1"), (("--version",), ""), (("nonsense",), "1")]
)
def test_help_that_nobody_reads_ends_as_a_command_does(words: tuple[str, ...], unbuffered: str) -> None:
    """`grader-cli --help | true`: quietly, with the code of an output that can't be written, and not with that of another verdict."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.DEVNULL, "stderr": writer} if words == ("nonsense",) else {"stdout": writer, "stderr": subprocess.PIPE}
    command, environment = [sys.executable, "-m", "grader.cli.main", *words], {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.run(command, env=environment, timeout=DEADLINE_S, check=False, **streams)  # type: ignore[call-overload]
    os.close(writer)
    assert (process.returncode, process.stderr or b"") == (3, b"")


@pytest.mark.parametrize(("words", "code"), [(("submit", "--help"), 0), (("--version",), 0), (("nonsense",), 2)])
def test_help_that_is_read_ends_as_before(words: tuple[str, ...], code: int) -> None:
    """The control."""
    process = subprocess.run([sys.executable, "-m", "grader.cli.main", *words], capture_output=True, timeout=DEADLINE_S, check=False)
    assert process.returncode == code and process.stdout + process.stderr


@pytest.mark.parametrize(("output", "code", "message"), [("/dev/full", 3, "the output can't be written"), ("/dev/null", 0, "")])
def test_an_output_that_can_not_be_written_is_no_verdict(output: str, code: int, message: str) -> None:
    """Even where Python has kept it until the end. The control can be written."""
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    with Path(output).open("w") as stdout:
        process = subprocess.run(
            [sys.executable, "-c", PRINTING], env=env, stdout=stdout, stderr=subprocess.PIPE, timeout=DEADLINE_S, check=False, text=True
        )
    assert process.returncode == code, process.stderr
    assert message in process.stderr and "Traceback" not in process.stderr


@pytest.mark.parametrize(("module", "code"), [("typer", 130), ("grader.cli.submit", 130), ("no_such_module", 0)])
def test_ctrl_c_during_the_imports_is_quiet(module: str, code: int) -> None:
    """No traceback; the control meets no such import."""
    command = [sys.executable, "-c", INTERRUPTED_AT.format(module=module)]
    process = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, text=True, check=False)
    assert (process.returncode, process.stderr) == (code, "")
