"""Reading a problem takes no file from outside of its set, no more than its tensors need, and a number of steps by its length."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from extensions.formats import flashinfer, robust_kbench
from extensions.formats.tests.test_flashinfer import FIXTURES as FLASHINFER
from extensions.formats.tests.test_robust_kbench import FIXTURES as ROBUST_KBENCH
from grader.errors import ProblemInvalid
from grader.model import NewSubmission, SourceFile
from grader.problems import kept
from tests import fakes
from tests.unit.step_counts import call_steps, pattern_steps
from tests.unit.test_linear_text import SOUPS, is_linear, patterns
from tests.unit.test_problem_paths import OUTSIDE

PATTERNS = {pattern: where for where, pattern in patterns(flashinfer)}


def convention(text: str) -> None:
    """Find the calling convention of a submission."""
    sources = (SourceFile(path="k.py", content=text), SourceFile(path="run.py", content=text))
    flashinfer.with_calling_convention(fakes.problem().spec, NewSubmission(problem_id="p", language="python", sources=sources))


def test_the_calling_convention_is_found_in_linear_time() -> None:
    """Lines of Python, as in `test_linear_text.py`."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: call_steps(lambda: convention(text)), soup, 200)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.get)
def test_a_pattern_is_matched_in_linear_time(pattern) -> None:
    """Characters that a backtracking matcher tries."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: pattern_steps(pattern, text), soup, 100)]


def test_the_config_of_a_task_is_no_link_to_the_outside(tmp_path) -> None:
    """Control: with the directory above as the set, it is read."""
    task = tmp_path / "set" / "row_scale"
    shutil.copytree(ROBUST_KBENCH / "row_scale", task)
    (task / "config_forward.json").rename(tmp_path / "outside")
    (task / "config_forward.json").symlink_to(tmp_path / "outside")
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        robust_kbench.load(task / "func_forward.py")
    assert robust_kbench.load(task / "func_forward.py", root=tmp_path).problem_id


def write_tensor(path, shape=(4,), count=None):
    data = bytes(4 * (count or 4))
    header = json.dumps({"x": {"dtype": "F32", "shape": list(shape), "data_offsets": [0, len(data)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


DEFINITION = {
    "name": "sum_two",
    "op_type": "elementwise",
    "axes": {"n": {"type": "var"}},
    "inputs": {"x": {"shape": ["n"], "dtype": "float32"}, "y": {"shape": ["n"], "dtype": "float32"}},
    "outputs": {"z": {"shape": ["n"], "dtype": "float32"}},
    "reference": "import torch\n\ndef run(x, y):\n    return x + y\n",
}


@pytest.mark.parametrize("how", ["dots", "absolute", "symlink"])
def test_a_workload_takes_no_tensor_from_outside_its_set(tmp_path, how):
    """The control: the same file inside the set is taken."""
    directory = tmp_path / "set" / "p"
    directory.mkdir(parents=True)
    write_tensor(tmp_path / "x.safetensors")
    (directory / "link").symlink_to(tmp_path / "x.safetensors")
    shutil.copy(tmp_path / "x.safetensors", directory / "inside")

    def load(path):
        inputs = {"x": {"type": "safetensors", "path": path, "tensor_key": "x"}, "y": {"type": "random"}}
        (directory / "definition.json").write_text(json.dumps(DEFINITION))
        (directory / "workload.jsonl").write_text(json.dumps({"uuid": "w", "axes": {"n": 4}, "inputs": inputs}))
        return flashinfer.load(directory)

    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        load({"dots": "../../x.safetensors", "absolute": str(tmp_path / "x.safetensors"), "symlink": "link"}[how])
    assert str(directory / "inside") in load("inside").spec.workloads[0].arguments


def test_the_tensors_of_a_problem_are_bounded(tmp_path):
    """Before they are read; and a shape that no tensor has is not multiplied out."""
    write_tensor(path := tmp_path / "x")
    assert flashinfer.find(path, "x", limit_bytes=16).shape == (4,)
    with pytest.raises(flashinfer.SafetensorsInvalid, match="is too much"):
        flashinfer.find(path, "x", limit_bytes=15)
    for shape in ((1,) * 33, (1 << 41,)):
        write_tensor(path, shape=shape)
        with pytest.raises(flashinfer.SafetensorsInvalid, match="a shape that no tensor has"):
            flashinfer.find(path, "x")


def test_the_name_of_a_definition_may_be_long(tmp_path: Path) -> None:
    """The problem was read, and an OSError when it was kept in a file of that name."""
    shutil.copytree(FLASHINFER / "scaled_rows", tmp_path / "d")
    data = json.loads((tmp_path / "d" / "definition.json").read_text())
    (tmp_path / "d" / "definition.json").write_text(json.dumps({**data, "name": "long_" * 100}))
    (tmp_path / "kept").mkdir()
    kept.keep(flashinfer.load(tmp_path / "d"), tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1
