"""Reading a problem takes no file from outside of its set, no more than its tensors need, and a number of steps by its length."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.model import NewSubmission, SourceFile
from grader.problems import store
from grader.problems.store import Problems
from grader_extensions.formats import flashinfer, kernelbench, reference_kernels, robust_kbench
from grader_extensions.formats.problem_sets import import_all
from grader_extensions.formats.tests.tasks import FIXTURES as KERNELBENCH
from grader_extensions.formats.tests.test_flashinfer import FIXTURES as FLASHINFER
from grader_extensions.formats.tests.test_reference_kernels import FIXTURES as REFERENCE_KERNELS
from grader_extensions.formats.tests.test_robust_kbench import FIXTURES as ROBUST_KBENCH
from tests import fakes
from tests.unit.step_counts import call_steps, pattern_steps
from tests.unit.test_linear_text import SOUPS, is_linear, patterns
from tests.unit.test_problem_paths import OUTSIDE

PATTERNS = {pattern: where for where, pattern in patterns(flashinfer)}
TASK = """
files:
  - {name: "reference.py", source: "SOURCE"}
lang: py
config: {main: eval.py}
tests: [{size: 4}]
"""
HUGE = "1" + "0" * 400
MARK = "problem_file_ran"
YAML_VALUES = (
    "!!timestamp x", "!!bool x", "!!int ''", "!!float ''", "!!binary x", "!!omap x", "!!pairs x", "&a [*a]", "*a", "<<: 1", "? [a]",
    "2001-99-99", "0b_", "-0x", '"\\UFFFFFFFF"', '"\\ud800"', "---", "!!python/name:os.system",
    f"!!python/object/apply:builtins.exec [\"__import__('builtins').{MARK} = 1\"]",
)  # fmt: skip


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


@pytest.mark.parametrize(
    ("load", "problem", "link"),
    [
        (robust_kbench.load, ROBUST_KBENCH / "row_scale" / "func_forward.py", "config_forward.json"),
        (kernelbench.load, KERNELBENCH / "1_Scaled_hinge.py", "1_Scaled_hinge.py"),
    ],
)
def test_a_file_of_a_problem_is_no_link_to_the_outside(tmp_path, load, problem, link) -> None:
    """Control: with the directory above as the set, it is read."""
    path = shutil.copytree(problem.parent, tmp_path / "set") / problem.name
    path.with_name(link).rename(tmp_path / "outside")
    path.with_name(link).symlink_to(tmp_path / "outside")
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        load(path)
    assert load(path, root=tmp_path).problem_id


@pytest.mark.parametrize(
    ("load", "path"),
    [
        (flashinfer.load, FLASHINFER / "scaled_rows"),
        (kernelbench.load, KERNELBENCH / "1_Scaled_hinge.py"),
        (reference_kernels.load, REFERENCE_KERNELS / "scaled_add"),
        (robust_kbench.load, ROBUST_KBENCH / "row_scale" / "func_forward.py"),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_nothing_is_executed(tmp_path, load, path):
    """Control: the same text writes its file when it is executed."""
    problem = shutil.copytree(path.parent, tmp_path / "set") / path.name
    line, witness = f"open('{tmp_path}/witness', 'w').close(); ", tmp_path / "witness"
    for file in problem.iterdir() if problem.is_dir() else [problem]:
        file.write_text(file.read_text().replace("import torch", line + "import torch", 1))
    assert line in load(problem, root=problem.parent).spec.reference and not witness.exists()
    exec(line)
    assert witness.exists()


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
    assert flashinfer.find(path, "x", limit_bytes=16)[1] == (4,)
    with pytest.raises(ValueError, match="is too much"):
        flashinfer.find(path, "x", limit_bytes=15)
    for shape in ((1,) * 33, (1 << 41,)):
        write_tensor(path, shape=shape)
        with pytest.raises(ValueError, match="a shape that no tensor has"):
            flashinfer.find(path, "x")


def test_the_name_of_a_definition_may_be_long(tmp_path: Path) -> None:
    """The problem was read, and an OSError when it was kept in a file of that name."""
    shutil.copytree(FLASHINFER / "scaled_rows", tmp_path / "d")
    data = json.loads((tmp_path / "d" / "definition.json").read_text())
    (tmp_path / "d" / "definition.json").write_text(json.dumps({**data, "name": "long_" * 100}))
    (tmp_path / "kept").mkdir()
    store.keep(flashinfer.load(tmp_path / "d"), tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 1


def task(directory, source):
    directory.mkdir(parents=True)
    (directory / "task.yml").write_text(TASK.replace("SOURCE", source))
    return directory


@pytest.fixture
def secret(tmp_path):
    """A file beside the set."""
    path = tmp_path / "secret.py"
    path.write_text("def generate_input(): ...\ndef ref_kernel(data): ...\ndef check_implementation(data, output): ...\n")
    return path


@pytest.mark.parametrize("how", ["dots", "absolute", "symlink"])
def test_a_task_takes_no_source_from_outside_its_set(tmp_path, secret, how):
    """The control: with a set that holds the file, the same task is read."""
    directory = task(tmp_path / "set" / "p", {"dots": "../../secret.py", "absolute": str(secret), "symlink": "link.py"}[how])
    (directory / "link.py").symlink_to(secret)
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        reference_kernels.load(directory, root=tmp_path / "set")
    assert "ref_kernel" in reference_kernels.load(directory, root=tmp_path).spec.reference


@pytest.mark.parametrize(
    ("source", "kind"),
    [("../utils.py", "file"), ("../utils.py", "link"), ("../utils.py", "pipe"), ("../other.py", "file"), ("../../utils.py", "file")],
)
def test_a_task_that_is_named_itself_may_share_utils_with_its_neighbours(tmp_path, secret, source, kind):
    """As GPU MODE's folders do. No other file, no link, nothing further up, and nothing for a server or a set that holds the folder."""
    directory = task(tmp_path / "set" / "p", source)
    shared = directory / source
    {"file": lambda: shutil.copy(secret, shared), "link": lambda: shared.symlink_to(secret), "pipe": lambda: os.mkfifo(shared)}[kind]()
    (alone,) = import_all(directory)
    assert (alone.problem is not None) == (source == "../utils.py" and kind == "file") and (alone.problem or OUTSIDE in alone.reason)
    (tmp_path / "linked").symlink_to(directory)
    for root in (directory, directory / "task.yml", tmp_path / "linked"):
        with pytest.raises(ProblemInvalid, match=OUTSIDE):
            Problems.load([root])
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        reference_kernels.load(directory, root=directory)


def test_what_is_imported_is_the_set(tmp_path):
    """A task that shares a file with others is imported with the directory that holds both, and not alone."""
    shutil.copytree(REFERENCE_KERNELS, tmp_path / "set")
    alone = list(import_all(tmp_path / "set" / "scaled_add"))
    assert [result.problem for result in alone] == [None]
    assert OUTSIDE in alone[0].reason and "name the directory that holds both" in alone[0].reason
    problem_ids = {result.problem.problem_id for result in import_all(tmp_path / "set") if result.problem}
    assert problem_ids == {path.parent.name for path in (REFERENCE_KERNELS).glob("*/task.yml")} and "scaled_add" in problem_ids
    assert Problems.load([tmp_path / "set"]).get("scaled_add")


@pytest.mark.parametrize("listed", ["..", "../other", "/etc", "link"])
def test_a_competition_names_no_directory_outside(tmp_path, listed):
    """Control: one inside is a member."""
    (tmp_path / "set" / "inside").mkdir(parents=True)
    (tmp_path / "set" / "link").symlink_to(tmp_path)
    yaml = tmp_path / "set" / "competition.yaml"
    yaml.write_text(f"name: x\nproblems: [{{directory: '{listed}'}}]\n")
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        reference_kernels.members(yaml)
    yaml.write_text("name: x\nproblems: [{directory: inside}]\n")
    assert reference_kernels.members(yaml) == (tmp_path / "set" / "inside",)


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
        entries = list(import_all(tmp_path / "competition.yaml"))
    except ProblemInvalid as invalid:
        assert invalid.message
    else:
        assert all(entry.problem is None and entry.reason for entry in entries)


def test_a_tolerance_that_no_float_holds_is_no_tolerance(tmp_path: Path) -> None:
    """Such a tolerance was an OverflowError."""
    shutil.copytree(REFERENCE_KERNELS, tmp_path / "r")
    with (tmp_path / "r" / "scaled_add" / "reference.py").open("a") as file:
        file.write(f"\ncheck_implementation = make_match_reference(ref_kernel, rtol={HUGE}, atol=1e999)\n")
    with suppress(ProblemInvalid):
        reference_kernels.load(tmp_path / "r" / "scaled_add")
