"""`grader-cli problems import`: what is kept, what is refused and why, and that later commands find it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader.api import messages
from grader.cli.main import app
from grader.cli.submit import problem_at
from grader.errors import ProblemInvalid
from grader.problems.store import Problems, read_kept
from grader.rules.disclosure import Redactor
from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import Adjustments
from grader_extensions.formats.problem_sets import import_all
from tests import fakes

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "kernelbench"
GOOD = """\
import torch
import torch.nn as nn

size = {size}


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + size


def get_inputs():
    return [torch.rand(size, size)]


def get_init_inputs():
    return []
"""
BROKEN = {
    13: ("def get_inputs(:\n", "line 1: is not Python"),
    29: ("class Model:\n    def forward(self):\n        pass\n", "has no function get_inputs"),
    57: ("def get_inputs():\n    return []\n", "has no class Model"),
    88: ("class Model:\n    pass\n", "has no method forward"),
}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["problems", *map(str, arguments)])


@pytest.fixture
def level(tmp_path: Path) -> Path:
    """A level as KernelBench has it: 100 files, four of them broken, and what else lies there."""
    directory = tmp_path / "KernelBench" / "level1"
    directory.mkdir(parents=True)
    for number in range(1, 101):
        text = BROKEN[number][0] if number in BROKEN else GOOD.format(size=number)
        (directory / f"{number}_Thing_{number}.py").write_text(text)
    (directory / "README.md").write_text("not a problem")
    (directory / "run.py").write_text("import sys\n")
    (directory / "__pycache__").mkdir()
    (directory / "__pycache__" / "x.py").write_text("")
    return directory.parent


def test_a_level_is_imported_and_every_broken_file_told(tmp_path: Path, level: Path) -> None:
    """A few seconds of processor time for 100 files; the broken ones stop nobody; the order is that of the numbers."""
    began = time.process_time()
    result = run("import", level, "--no-check", "--state-dir", tmp_path / "state", "--json")
    assert time.process_time() - began < 10
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert [entry["problem"] for entry in report["imported"]] == [f"kb_{n}_thing_{n}" for n in range(1, 101) if n not in BROKEN]
    assert {entry["format"] for entry in report["imported"]} == {"kernelbench"}
    reasons = {int(Path(entry["path"]).name.split("_")[0]): entry["reason"] for entry in report["refused"]}
    assert reasons.keys() == BROKEN.keys()
    assert all(BROKEN[number][1] in reason for number, reason in reasons.items())


def test_nothing_imported_is_misuse(tmp_path: Path) -> None:
    """A directory without problems, a broken file, a path that is not there, an unknown format or precision."""
    state = ("--state-dir", tmp_path / "state")
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "1_x.py"
    broken.write_text("x = 1\n")
    fixture = FIXTURES / "1_Scaled_hinge.py"
    wrong = ((empty,), (broken,), (tmp_path / "missing",), (fixture, "--format", "nothing"), (fixture, "--precision", "fp8"))
    assert [run("import", *arguments, *state).exit_code for arguments in wrong] == [2] * 5
    assert not (tmp_path / "state" / "problems").exists()
    assert run("import", fixture, "--no-check", *state).exit_code == 0


def test_what_was_imported_is_listed_shown_and_loaded(tmp_path: Path) -> None:
    """With format, workload and tolerance; the problem as it is kept is the one that was read."""
    state = ("--state-dir", tmp_path / "state")
    assert run("import", FIXTURES, "--no-check", *state).exit_code == 0
    assert run("import", FIXTURES / "3_Label_loss.py", "--precision", "bf16", "--no-check", *state).exit_code == 0
    listed = run("list", *state).stdout
    assert "kb_3_label_loss_bf16" in listed and "kernelbench" in listed and "kb_2_conv_norm_gate" in listed
    shown = run("show", "kb_3_label_loss_bf16", *state).stdout
    assert "default" in shown and "0.01 + 0.01" in shown and "cross_entropy" in shown and "class ModelNew" in shown
    problem = Problems.load([], tmp_path / "state" / "problems").get("kb_2_conv_norm_gate")
    assert problem == kernelbench.load(FIXTURES / "2_Conv_norm_gate.py")
    assert Redactor.for_problem(problem).dtype == "" and not messages.problem_to_proto(problem).cuda_signature


def test_a_submission_may_name_a_problems_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = FIXTURES / "1_Scaled_hinge.py"
    assert problem_at(str(path)) == ("kb_1_scaled_hinge", path)
    assert problem_at(None) == (None, None)
    assert problem_at("kb_1_scaled_hinge") == ("kb_1_scaled_hinge", None)
    assert problem_at("problems/kb_1_scaled_hinge") == ("problems/kb_1_scaled_hinge", None)
    monkeypatch.chdir(tmp_path)
    fakes.write_problem(tmp_path)
    assert problem_at("sum") == ("sum", None)
    assert problem_at("./sum") == ("sum", Path("sum"))
    with pytest.raises(ProblemInvalid, match="is not a problem of a known format"):
        problem_at("./")


def constants(*names: str) -> str:
    return GOOD.format(size=3).replace("size = 3\n", "".join(f"{name} = 3\n" for name in ("size", *names)))


def test_constants_are_set_where_a_file_has_them(tmp_path: Path) -> None:
    """In a set every file takes the names that it has; one that no file has is an error that lists the others."""
    directory = tmp_path / "level"
    directory.mkdir()
    for number, names in ((1, ("batch",)), (2, ("width",))):
        (directory / f"{number}_x.py").write_text(constants(*names))
    (directory / "3_broken.py").write_text("def get_inputs(:\n")
    state = ("--no-check", "--state-dir", tmp_path / "state")
    assert run("import", directory, "--set", "batch=7", "--set", "size=5", *state).exit_code == 0
    first, second = (read_kept(tmp_path / "state" / "problems" / f"kb_{number}_x.json") for number in (1, 2))
    assert "size = 5\nbatch = 7\n" in first.spec.reference and "size = 5\nwidth = 3\n" in second.spec.reference
    assert (first.title, second.title) == ("1 x (batch = 7, size = 5)", "2 x (size = 5)")
    assert "Set at import: batch = 7, size = 5." in first.statement
    with pytest.raises(ProblemInvalid, match="assigns a constant 'height' at its top level; the constants are: batch, size, width"):
        list(import_all(directory, adjustments=Adjustments(constants={"height": "1"})))
    (alone,) = import_all(directory / "1_x.py", adjustments=Adjustments(constants={"width": "1"}))
    assert alone.problem is None and "assigns no constant 'width' at its top level; it assigns size = 3, batch = 3" in alone.reason


def test_the_memory_of_the_host_is_known_in_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes refuse sysinfo; sysconf then answers with what was on the stack, and the problem was imported unchecked."""
    from grader_extensions.formats.kernelbench_reference import memory_bytes

    monkeypatch.setattr(os, "sysconf", lambda _: -1)
    assert memory_bytes("cpu") > 1 << 28
