"""`grader-cli problems import` with the check: what is refused, what is kept with a warning, and what is learned of arguments."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from grader.api import messages
from grader.problems.store import Problems
from grader_extensions.formats.tests.test_kernelbench_import import FIXTURES, GOOD, run

pytestmark = pytest.mark.slow


def test_one_problem_is_checked_before_it_is_kept(tmp_path: Path) -> None:
    """A reference that ignores its input is refused, and kept where that is wanted."""
    path = tmp_path / "1_same.py"
    path.write_text(GOOD.format(size=64).replace("torch.relu(x) + size", "torch.ones_like(x)"))
    state = ("--state-dir", tmp_path / "state")
    refused = run("import", path, *state)  # in a box, which is the default
    assert refused.exit_code == 2 and "--force" in refused.stdout and not (tmp_path / "state" / "problems").exists()
    assert run("import", path, "--force", "--trusted", *state).exit_code == 0
    assert (tmp_path / "state" / "problems" / "kb_1_same.json").exists()


def test_what_can_not_be_checked_is_kept_and_says_so(tmp_path: Path) -> None:
    """Not as if a wrong answer could pass; with the constants that make it smaller. A warning is kept too."""
    state = ("--state-dir", tmp_path / "state", "--json")
    (tmp_path / "1_huge.py").write_text(GOOD.format(size=10**6))
    (tmp_path / "2_idle.py").write_text(GOOD.format(size=16))
    huge = run("import", tmp_path / "1_huge.py", *state)
    (entry,) = json.loads(huge.stdout)["imported"]
    (warning,) = entry["warnings"]
    assert huge.exit_code == 0 and warning.startswith("not checked: ") and "its constants: size = 1000000" in warning
    idle = run("import", tmp_path / "2_idle.py", *state)
    (entry,) = json.loads(idle.stdout)["imported"]
    assert idle.exit_code == 0 and entry["warnings"] == ["a wrong kernel could pass (half precision, idle relu)"]


def test_the_arguments_of_a_level_are_learned(tmp_path: Path) -> None:
    """In one box, also where a file ends its process; `--no-check` executes nothing, and then they are not known."""
    level = tmp_path / "level"
    level.mkdir()
    for path in FIXTURES.glob("*.py"):
        shutil.copy(path, level)
    (level / "2_Ends.py").write_text(GOOD.format(size=2) + "\nimport os\nos._exit(0)\n")
    signatures = {}
    for option in ((), ("--no-check",)):
        state = tmp_path / f"state{len(option)}"
        assert run("import", level, *option, "--state-dir", state).exit_code == 0
        problems = Problems.load([], state / "problems").all()
        signatures[option] = {problem.problem_id: messages.problem_to_proto(problem).cuda_signature for problem in problems}
    assert not any(signatures["--no-check",].values())
    assert {name for name, text in signatures[()].items() if not text} == {"kb_2_ends"}
    assert signatures[()]["kb_5_scaled_product"].startswith('extern "C" void solve(const float* x, double factor, const float* shift, ')
    shown = run("show", "kb_2_ends", "--state-dir", tmp_path / "state0").stdout
    assert "only the problem's code says which arguments the entry takes" in shown
