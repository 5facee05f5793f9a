"""Which server a command uses, by options, environment and what `login` stored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner, Result

from grader.api.credentials import Credential, CredentialStore
from grader.cli import own_server
from grader.cli.main import app as cli
from grader.cli.options import SandboxOption, Server, StateDir
from grader.cli.server_choice import GraderTyper
from grader.dispatch.lanes import JudgeProcess
from grader.server import running
from sandbox.protocol.wire import Mode

DEADLINE_S = 300.0
KERNEL = str(Path(__file__).parents[2] / "kernels_examples" / "vector_add" / "grid_stride.cu")
DEFAULT = "https://default:1"

app = GraderTyper()


@app.command()
def use(server: Server = None, state_dir: StateDir = None, sandbox: SandboxOption = "auto", mode: Mode = Mode.TEST) -> None:
    print(f"uses {server}")


@app.command()
def echo(word: Annotated[str, typer.Option()] = "") -> None:
    print(f"word {word}")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CredentialStore:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("GRADER_SERVER", raising=False)
    return CredentialStore(tmp_path / "grader")


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(words), env=environment)


@pytest.mark.parametrize(
    ("words", "environment", "server"),
    [
        ((), {}, DEFAULT),
        ((), {"GRADER_SERVER": "env:1"}, "env:1"),
        (("--server", "option:1"), {"GRADER_SERVER": "env:1"}, "option:1"),
        (("--local",), {}, None),
        (("--local",), {"GRADER_SERVER": "env:1"}, None),
        (("--state-dir", "/tmp"), {}, None),
        (("--sandbox", "process"), {}, None),
        (("--state-dir", "/tmp"), {"GRADER_SERVER": "env:1"}, "env:1"),
    ],
)
def test_the_server_is_the_most_specific_one(store, words, environment, server):
    """Options go before the environment, and that before the default. What only an own server can do asks for that."""
    store.put(DEFAULT, Credential(), default=True)
    ended = run("use", *words, **environment)
    assert ended.exit_code == 0 and ended.stdout == f"uses {server}\n" and ended.stderr == ""


def test_without_a_login_a_command_runs_its_own_server(store):
    assert run("use").stdout == "uses None\n"
    store.put("a:1", Credential())
    assert run("use").stdout == "uses None\n"


@pytest.mark.parametrize(("words", "begins"), [(("cancel", "abc"), False), (("submit", KERNEL, "--device", "emulated"), True)])
def test_a_command_that_needs_no_grading_begins_no_judge(store, tmp_path, monkeypatch, words, begins):
    """The control is one that does."""
    begun = []

    class Judge(JudgeProcess):
        async def begin(self) -> None:
            begun.append(words)

    def no_server(*_, **options):
        raise OSError("no server")

    monkeypatch.setattr(own_server, "JudgeProcess", Judge)
    monkeypatch.setattr(running, "embedded", no_server)
    ended = CliRunner().invoke(cli, [*words, "--state-dir", str(tmp_path / "state")])
    assert "no server" in ended.stderr and bool(begun) is begins


def test_local_and_a_server_exclude_each_other(store):
    ended = run("use", "--local", "--server", "a:1")
    assert ended.exit_code == 2 and "--server is given too" in ended.stderr and "--local" in ended.stderr


def test_a_file_that_others_can_read_is_misuse_and_not_passed_over(store):
    """Else a kernel would be graded elsewhere than the user thinks. A server that is named does not need the file."""
    store.put(DEFAULT, Credential(), default=True)
    store.path.chmod(0o644)
    ended = run("use")
    assert ended.exit_code == 2 and "chmod 600" in " ".join(ended.stderr.split())
    assert run("use", "--local").exit_code == run("use", "--server", "a:1").exit_code == 0


def test_help_shows_the_option_where_there_is_a_server_only(store):
    """Help works whatever is stored."""
    store.put(DEFAULT, Credential(), default=True)
    store.path.chmod(0o644)
    assert "--local" in run("use", "--help").stdout and "--local" not in run("echo", "--help").stdout


def test_a_terminal_shows_when_the_default_server_is_used(store):
    """On stderr, so that what is printed for programs stays as it is. Neither for --local nor for a server that is named."""
    store.put("unix:/nowhere/s", Credential(), default=True)
    program = "from tests.unit.test_cli_server_choice import app; app()"

    def shown(*words: str) -> tuple[str, bytes]:
        ours, its = os.openpty()
        process = subprocess.run(
            [sys.executable, "-c", program, "use", *words], stdout=subprocess.PIPE, stderr=its, timeout=DEADLINE_S, check=True, text=True
        )
        os.write(its, b"end")
        text = os.read(ours, 10_000)
        os.close(ours)
        os.close(its)
        return process.stdout, text

    out, text = shown()
    assert out == "uses unix:/nowhere/s\n" and b"server: unix:/nowhere/s (the default" in text
    assert shown("--local") == ("uses None\n", b"end") and shown("--server", "a:1") == ("uses a:1\n", b"end")
