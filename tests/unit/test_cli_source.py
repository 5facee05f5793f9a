"""`grader-cli submit -`, `show --source`, `show --log`, quotas and completion."""

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from grader.cli.exits import GraderFailed, UsageError
from grader.cli.login import quota_table
from grader.cli.main import app
from grader.cli.saved_files import save_sources
from grader.cli.sources import file_name
from grader.v1 import grader_service_pb2, submission_pb2
from tests import fakes
from tests.unit.test_cli_commands import address, run, write  # noqa: F401  # address is a fixture

DEADLINE_S = 300.0
PYTHON = 'import torch\nCUDA = r"""\n#include <x>\n__global__ void f() {}\n"""\ndef solution(a): return a\n'


def piped(address, content, *words):  # noqa: F811
    return CliRunner().invoke(app, ["submit", "-", "--server", address, "--no-wait", "--json", *words], input=content)


def submitted(address, *files):  # noqa: F811
    return json.loads(run("submit", *files, "--server", address, "--no-wait", "--json", "--problem", "sum").stdout)["name"]


def source_file(path, content="x"):
    return submission_pb2.SourceFile(path=path, content=content)


def test_standard_input_is_a_submission(address):  # noqa: F811
    """Its problem is named by an option, or in its first lines."""
    ended = piped(address, fakes.source("accept"), "--problem", "sum")
    assert [(file["path"], file["content"]) for file in json.loads(ended.stdout)["sources"]] == [("kernel.cu", fakes.source("accept"))]
    assert piped(address, "// grader: problem=sum\n" + fakes.source("accept")).exit_code == 0


@pytest.mark.parametrize(
    ("content", "words", "expected"),
    [
        (fakes.source("accept"), (), "give --problem NAME"),
        ("", ("--problem", "sum"), "standard input is empty"),
        (b"\xff", ("--problem", "sum"), "not UTF-8 (byte 0)"),
        ("x" * (1024 * 1024 + 1), ("--problem", "sum"), "more than the 1,048,576 bytes allowed"),
        ('{"name": 1}', ("--problem", "sum"), "looks like a solution file"),
        (fakes.source("accept"), ("other.cu", "--problem", "sum"), "leave out the other files"),
    ],
)
def test_what_is_no_source_on_standard_input_is_misuse(address, content, words, expected):  # noqa: F811
    ended = piped(address, content, *words)
    assert ended.exit_code == 2 and expected in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("content", "language", "name"),
    [(PYTHON, "", "kernel.py"), (PYTHON, "cuda", "kernel.cu"), ("#include <x>\n", "", "kernel.cu"), ("def f(): pass", "", "kernel.py")],
)
def test_the_language_of_standard_input_is_found_in_it(content, language, name):
    """Unless it is named: CUDA in a string of a Python file is no CUDA file."""
    assert file_name(content, language) == name


@pytest.mark.parametrize("how", ["pipe", "file"])
def test_a_process_reads_pipes_and_files(tmp_path, how):
    """`grader-cli submit - < FILE` and `cat FILE | grader-cli submit -`, more than a pipe holds at a time."""
    program = "import asyncio; from grader.cli.sources import stdin_text; print(asyncio.run(stdin_text()), end='')"
    path = tmp_path / "kernel.cu"
    path.write_text("// " + "x" * 200_000 + "\n")
    with path.open("rb") as file:
        stdin = {"stdin": file} if how == "file" else {"input": path.read_bytes()}
        process = subprocess.run([sys.executable, "-c", program], **stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    assert process.stdout == path.read_bytes(), process.stderr


def test_the_source_of_a_submission_comes_back_as_it_was(address, tmp_path):  # noqa: F811
    """Printed, or saved; by the beginning of its id. Several files are expected apart."""
    kernel = write(tmp_path, "accept")
    name = submitted(address, kernel).removeprefix("submissions/")
    assert run("show", name[:12], "--source", "--server", address).stdout == kernel.read_text()
    (tmp_path / "deep").mkdir()
    header = tmp_path / "deep" / "a.cuh"
    header.write_text("// no line end")
    name = submitted(address, kernel, header)
    assert (
        run("show", name, "--source", "--server", address).stdout
        == f"==> accept.cu <==\n{kernel.read_text()}==> deep/a.cuh <==\n// no line end\n"
    )
    assert run("show", name, "--source", "--server", address, "--out", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "deep" / "a.cuh").read_text() == "// no line end"
    (tmp_path / "out" / "deep" / "a.cuh").write_text("mine")
    again = run("show", name, "--source", "--server", address, "--out", tmp_path / "out")
    assert again.exit_code == 2 and "is there already" in again.stderr


def test_logs_are_printed_apart(address, tmp_path):  # noqa: F811
    """A submission that is not graded yet has none, and options that exclude each other are misuse."""
    name = json.loads(run("submit", write(tmp_path, "wrong"), "--server", address, "--json").stdout)["name"]
    ended = run("show", name, "--log", "--server", address)
    assert ended.stdout.startswith("==> ") or "printed nothing" in ended.stderr
    waiting = submitted(address, write(tmp_path, "hang"))
    ended = run("show", waiting, "--log", "--server", address)
    assert ended.exit_code == 2 and "`grader-cli watch" in ended.stderr
    for words in (("--log", "--source"), ("--json", "--log"), ("--out", tmp_path)):
        assert run("show", name, *words, "--server", address).exit_code == 2


@pytest.mark.parametrize("path", ["../x", "/x", "a/../../x", "", ".", "a\nb"])
def test_a_server_can_not_choose_where_a_file_is_saved(tmp_path, path):
    with pytest.raises(GraderFailed, match="not a path below a directory"):
        save_sources([source_file(path)], tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_no_link_is_followed_when_a_file_is_saved(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "out" / "b").symlink_to(tmp_path / "elsewhere" / "b")
    for path in ("a/x", "b"):
        with pytest.raises(UsageError):
            save_sources([source_file(path)], tmp_path / "out")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_quotas_are_shown_with_what_is_left(address):  # noqa: F811
    assert "no quotas" in run("whoami", "--server", address).stdout
    assert json.loads(run("whoami", "--server", address, "--json").stdout) is not None
    quota = grader_service_pb2.QuotaUse(competition="competitions/cup", limit=3, used_count=5)
    quota.window.seconds = 86_400
    assert [str(next(iter(column.cells))) for column in quota_table([quota]).columns][1:] == ["a day", "0", "3", "-"]


@pytest.mark.parametrize(("typed", "completion"), [("grader-cli can", "cancel"), ("grader-cli submit --mode pro", "profile")])
def test_a_shell_is_told_commands_and_values(typed, completion, tmp_path):
    """As bash asks. Nothing that `login` stored is in the way."""
    (tmp_path / "grader").mkdir()
    (tmp_path / "grader" / "credentials.json").write_text("damaged")
    completion_request = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1), "_GRADER_CLI_COMPLETE": "complete_bash"}
    program = "import sys; sys.argv = ['grader-cli']; from grader.cli.main import main; main()"
    variables = {**os.environ, **completion_request, "XDG_CONFIG_HOME": str(tmp_path)}
    child = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert child.stdout.split() == [completion], child.stderr
