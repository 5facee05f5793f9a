"""The commands against a server whose grading is a fake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader.cli.main import app
from tests import fakes
from tests.threaded_server import embedded_server


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server in a thread of its own: the commands run an event loop themselves."""
    with embedded_server(tmp_path_factory.mktemp("served")) as server_address:
        yield server_address


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    return write(tmp_path, "accept")


def write(directory: Path, order: str) -> Path:
    path = directory / f"{order}.cu"
    path.write_text(f"// grader: problem=sum\n{fakes.source(order)}")
    return path


def short(name: str) -> str:
    return name.removeprefix("submissions/")[:8]


def run(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_an_accepted_kernel_exits_0_with_progress_and_report(address: str, kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps as they happened, then the verdict. The server keeps it, and this host nothing."""
    monkeypatch.setenv("GRADER_STATE_DIR", str(kernel.parent / "state"))
    ended = run("submit", kernel, "--server", address)
    assert ended.exit_code == 0, ended.output
    assert not (kernel.parent / "state").exists()
    assert (
        ended.stdout.index("building: built")
        < ended.stdout.index("verifying 2 workloads: 2 trials passed")
        < ended.stdout.index("\nACCEPTED\n")
    )


def test_a_wrong_kernel_exits_1(address: str, tmp_path: Path) -> None:
    ended = run("submit", write(tmp_path, "wrong"), "--server", address)
    assert ended.exit_code == 1, ended.output
    assert "WRONG_ANSWER" in ended.stdout and "mismatched" in ended.stdout


def test_json_is_all_that_is_on_stdout(address: str, kernel: Path) -> None:
    """With proto field names, and nothing on stderr where that is no terminal."""
    ended = run("submit", kernel, "--server", address, "--json")
    submission = json.loads(ended.stdout)
    assert submission["report"]["verdict"] == "VERDICT_ACCEPTED" and "create_time" in submission
    assert (ended.exit_code, ended.stderr) == (0, "")


def test_what_was_asked_is_what_is_sent(address: str, kernel: Path) -> None:
    words = ("--mode", "test", "--device", "emulated", "--language", "cuda", "--entry", "solve", "--no-wait", "--json")
    sent = json.loads(run("submit", kernel, "--server", address, *words).stdout)
    assert (sent["problem"], sent["mode"], sent["device_kind"]) == ("problems/sum", "MODE_TEST", "emulated")
    assert (sent["language"], sent["entry"], sent["sources"][0]["path"]) == ("cuda", "solve", "accept.cu")
    words = ("--no-wait", "--json", "--request-id", "6f9619ff-8b86-4d01-b42d-00cf4fc964ff")  # a command that got no answer is given again
    first, second = (json.loads(run("submit", kernel, "--server", address, *words).stdout)["name"] for _ in range(2))
    assert first == second


def test_tags_parent_and_annotations_arrive_and_a_list_is_by_tag(address: str, kernel: Path) -> None:
    """Each option may be repeated; a list without tags has no column of them."""
    parent = json.loads(run("submit", kernel, "--server", address, "--no-wait", "--json").stdout)["name"].removeprefix("submissions/")
    words = f"--tag run7 --tag run7:b --parent {parent} --annotate tile=16 --annotate why=a=b --no-wait --json".split()
    sent = json.loads(run("submit", kernel, "--server", address, *words).stdout)
    assert (sent["tags"], sent["parent"]) == (["run7", "run7:b"], f"submissions/{parent}")
    assert sent["annotations"] == {"tile": "16", "why": "a=b"}
    listed = run("list", "--server", address, "--tag", "run7").stdout
    assert short(sent["name"]) in listed and short(parent) not in listed and "run7, run7:b" in listed
    assert "no such submissions" in run("list", "--server", address, "--tag", "run8").stdout


def test_a_submission_that_was_left_can_be_watched(address: str, kernel: Path) -> None:
    name = json.loads(run("submit", kernel, "--server", address, "--no-wait", "--json").stdout)["name"]
    for spelled in (name, name.removeprefix("submissions/")):
        ended = run("watch", spelled, "--server", address)
        assert ended.exit_code == 0 and "ACCEPTED" in ended.stdout, ended.output


def test_without_a_server_nothing_can_be_left(kernel: Path) -> None:
    ended = run("submit", kernel, "--no-wait")
    assert ended.exit_code == 2 and "--no-wait: without --server nothing would be left to grade it; name a server, or wait" in ended.stderr


def test_a_running_submission_can_be_cancelled(address: str, tmp_path: Path) -> None:
    """A watch ends with exit 3: there is no verdict."""
    name = json.loads(run("submit", write(tmp_path, "hang"), "--server", address, "--no-wait", "--json").stdout)["name"]
    assert run("cancel", name, "--server", address).exit_code == 0
    ended = run("watch", name, "--server", address)
    assert ended.exit_code == 3 and "cancelled before it was graded" in ended.stdout


def test_every_command_has_help() -> None:
    for words in ("", "submit", "watch", "show", "list", "cancel"):
        ended = run(*words.split(), "--help")
        assert ended.exit_code == 0 and "Usage:" in ended.stdout
    assert run("--version").stdout.startswith("grader-cli ")
