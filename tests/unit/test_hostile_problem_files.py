"""Problem files that fuzzing has found: each is refused in a sentence, or taken and kept."""

from __future__ import annotations

import builtins
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import kernelbench, native, reference_kernels
from grader.problems import store

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
NATIVE = (ROOT / "kernels_examples" / "vector_add" / "problem.toml").read_text()
HUGE = "1" + "0" * 400
MARK = "problem_file_ran"
NATIVE_FILES = {
    "nested too deep": "a = " + "[" * 2000,
    "a number of 5000 digits": "a = " + "1" * 5000,
    "a negative size": NATIVE.replace('shape = ["n"]', "shape = [-1]"),
    "a size beyond every device": NATIVE.replace('shape = ["n"]', f"shape = [{10**30}]"),
    "nine axes of a tensor": NATIVE.replace('shape = ["n"]', f"shape = {[1] * 9}"),
    "an axis twice": NATIVE.replace('axes = ["n"]', 'axes = ["n", "n"]'),
    "a formula that cannot be shown": NATIVE.replace('moved_bytes = "', f'moved_bytes = "{"-" * 190}'),
}
YAML_VALUES = (
    "!!timestamp x", "!!bool x", "!!int ''", "!!float ''", "!!binary x", "!!omap x", "!!pairs x", "&a [*a]", "*a", "<<: 1", "? [a]",
    "2001-99-99", "0b_", "-0x", '"\\UFFFFFFFF"', '"\\ud800"', "---", "!!python/name:os.system",
    f"!!python/object/apply:builtins.exec [\"__import__('builtins').{MARK} = 1\"]",
)  # fmt: skip


@pytest.mark.parametrize("text", NATIVE_FILES.values(), ids=NATIVE_FILES)
def test_a_native_problem_is_refused(tmp_path: Path, text: str) -> None:
    """Other exceptions came of some; the others were taken, and broke the judge's layout later."""
    (tmp_path / "reference.py").touch()
    (tmp_path / "problem.toml").write_text(NATIVE)
    native.load(tmp_path)  # the control
    assert text != NATIVE
    (tmp_path / "problem.toml").write_text(text)
    with pytest.raises(ProblemInvalid):
        native.load(tmp_path)


@pytest.mark.parametrize("value", YAML_VALUES)
def test_yaml_that_its_reader_cannot_read_is_refused(tmp_path: Path, value: str) -> None:
    """PyYAML raises KeyError, IndexError, AttributeError and others; nothing is executed."""
    (tmp_path / "task.yml").write_text(f"lang: {value}\n")
    with pytest.raises(ProblemInvalid):
        reference_kernels.load(tmp_path)
    assert not hasattr(builtins, MARK)


@pytest.mark.parametrize("name", ["x" * 300, "a\\0b", "../" * 300, "/", "~", "\\udcff"])
def test_a_competition_that_names_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    """A name too long for the file system was an OSError."""
    (tmp_path / "competition.yaml").write_text(f'name: x\nproblems:\n- directory: "{name}"\n')
    try:
        entries = list(store.import_all(tmp_path / "competition.yaml"))
    except ProblemInvalid as invalid:
        assert invalid.message
    else:
        assert all(entry.problem is None and entry.reason for entry in entries)


def test_a_tolerance_that_no_float_holds_is_no_tolerance(tmp_path: Path) -> None:
    """It was an OverflowError."""
    shutil.copytree(FIXTURES / "reference_kernels", tmp_path / "r")
    with (tmp_path / "r" / "scaled_add" / "reference.py").open("a") as file:
        file.write(f"\ncheck_implementation = make_match_reference(ref_kernel, rtol={HUGE}, atol=1e999)\n")
    with suppress(ProblemInvalid):
        reference_kernels.load(tmp_path / "r" / "scaled_add")


def test_a_dropout_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    """It was an OverflowError too."""
    model = f"class Model(nn.Module):\n    def __init__(self):\n        self.d = nn.Dropout({HUGE})\n"
    model += "    def forward(self, x):\n        return x\n"
    functions = "def get_inputs(): return []\ndef get_init_inputs(): return []\n"
    (tmp_path / "1_A.py").write_text(f"import torch.nn as nn\n{model}{functions}")
    with pytest.raises(ProblemInvalid):
        kernelbench.load(tmp_path / "1_A.py")
