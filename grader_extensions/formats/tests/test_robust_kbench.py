"""A task of robust-kbench is read without being executed, and what is wrong is named by file and key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import detect_format, formats
from grader_extensions.formats import kernelbench, problem_files, reference_kernels, robust_kbench
from grader_extensions.formats.problem_sets import import_all
from sandbox.protocol import wire

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "robust_kbench"
FORWARD = FIXTURES / "row_scale" / "func_forward.py"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A copy of a task, to be changed."""
    return Path(shutil.copytree(FIXTURES / "row_scale", tmp_path / "set" / "row_scale"))


def configure(task: Path, **changes: object) -> Path:
    """Change the forward config; the path of the problem."""
    path = task / "config_forward.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return task / "func_forward.py"


def refusal(path: Path) -> str:
    with pytest.raises(ProblemInvalid) as caught:
        robust_kbench.load(path)
    return str(caught.value)


def test_a_task_is_two_problems() -> None:
    """Forward and backward, each called with arguments; the workloads are the single settings, with what is shared in both."""
    forward, backward = map(robust_kbench.load, robust_kbench.members(FIXTURES / "row_scale"))
    assert (forward.problem_id, backward.problem_id) == ("row_scale", "row_scale_backward")
    assert (forward.spec.entry, backward.spec.entry) == ("forward", "backward")
    assert forward.title == "row_scale: Scales and shifts every column: y = gain * x * scale + shift."
    assert forward.spec.convention is wire.Convention.ARGUMENTS and forward.languages == ("torch_extension", "python")
    settings = [json.loads(workload.arguments) for workload in forward.spec.workloads]
    assert settings[0] == {"backward": False, "given": {"columns": 64, "rows": 5}, "init": {"columns": 64, "gain": 1.5}}
    assert [setting["given"]["rows"] for setting in settings] == [5, 33] and forward.digest != backward.digest
    assert 'm.def("backward", ...)' in backward.statement and "class AutogradFunction" in backward.statement


def test_its_files_are_not_taken_for_kernelbench_files(task: Path) -> None:
    """Control: without its config a file is. What lies next to a task is looked at, too."""
    shutil.copy(FIXTURES.parent / "kernelbench" / "1_Scaled_hinge.py", task)
    names = [result.problem.problem_id if result.problem else result.reason for result in import_all(task.parent)]
    assert names == ["row_scale", "row_scale_backward", "kb_1_scaled_hinge"]
    assert detect_format(task / "func_forward.py") is robust_kbench
    (task / "config_forward.json").unlink()
    assert detect_format(task / "func_forward.py") is kernelbench


class AnyFile:
    """A format of another package, which takes every file for its own."""

    NAME, __name__ = "any_file", "elsewhere"
    matches = staticmethod(Path.is_file)


def test_a_format_of_another_package_is_shown_a_path_before_ours(monkeypatch, task: Path) -> None:
    """A file of theirs may look like one of kernelbench or reference_kernels. Control: without that package it is taken for one."""
    files = {reference_kernels: task / "task.yml", kernelbench: task / "1_x.py"}
    files[kernelbench].write_text("class Model:\n    pass\n")
    files[reference_kernels].touch()
    modules = {module.NAME: module for module in (kernelbench, reference_kernels, robust_kbench)}
    try:
        for installed in (modules, modules | {"z": AnyFile()}):
            monkeypatch.setattr("grader.formats.load_named", lambda *_, installed=installed: installed)
            formats.cache_clear()
            assert [detect_format(path) for path in files.values()] == [installed.get("z", module) for module in files]
    finally:
        formats.cache_clear()


def test_the_digest_changes_with_what_decides(task: Path) -> None:
    """A multi setting, which is not used, is no part of it."""
    before = robust_kbench.load(task / "func_forward.py").digest
    assert robust_kbench.load(configure(task, multi_input_configs=[])).digest == before
    assert robust_kbench.load(configure(task, single_init_configs=[{"gain": 2.0}])).digest != before


def test_a_large_setting_has_a_smaller_batch_on_the_emulated_device(task: Path) -> None:
    """Of the sizes that only the inputs have; a GPU gets the setting as it is. Control: a small one is for both."""
    path = configure(task, single_input_configs=[{"rows": 1 << 20}, {"rows": 8}])
    problem = robust_kbench.load(path)
    kinds = {entry.workload_id: (entry.device_kind, entry.axes["rows"], entry.axes["columns"]) for entry in problem.spec.workloads}
    assert kinds.pop("setting-0") == ("cuda", 1 << 20, 64) and kinds.pop("setting-1") == ("", 8, 64)
    ((name, (device, rows, columns)),) = kinds.items()
    assert (name, device, columns) == (
        "setting-0-small",
        "emulated",
        64,
    ) and 0 < rows * columns <= problem_files.SMALL < rows * columns * 4
    assert robust_kbench.warnings(problem) == ("the emulated device gets a smaller batch than the config's",)
    assert robust_kbench.warnings(robust_kbench.load(FORWARD)) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"single_input_configs": []}, "config_forward.json:1: single_input_configs: List should have at least 1 item"),
        ({"single_init_configs": 3}, "config_forward.json:1: single_init_configs: Input should be a valid list"),
        ({"single_init_configs": [{"gain": {}}]}, "config_forward.json:1: single_init_configs.0.gain"),
        ({"single_init_configs": [{"eps": 1.0}]}, "config_forward.json: single_init_configs: gives Model 'eps', which it does not take"),
        ({"single_shared_configs": [{}]}, "config_forward.json: single_init_configs: does not give Model 'columns', which it needs"),
        ({"single_input_configs": [{"depth": 2}]}, "single_input_configs: gives get_inputs 'depth', which it does not take"),
        ({"single_input_configs": [{"rows": n} for n in range(65)]}, "single_input_configs: List should have at most 64 items"),
        ({"single_input_configs": [{"rows": n} for n in range(33)], "single_init_configs": [{"gain": 1.0}, {"gain": 2.0}]}, "make 66"),
    ],
)
def test_a_wrong_config_names_its_key(task: Path, changes: dict[str, object], expected: str) -> None:
    assert expected in refusal(configure(task, **changes))


@pytest.mark.parametrize(
    ("old", "replacement", "expected"),
    [
        ("def forward_fn", "def forward_function", "func_forward.py: has no forward_fn; define it at the top level"),
        ("class Model", "class Module", "func_forward.py: has no Model"),
        ("def get_inputs", "def inputs", "func_forward.py: has no get_inputs"),
        ("def get_inputs(", "def get_inputs((", "is not Python"),
        ("columns: int, gain", "columns: int, gate, gain", "does not give Model 'gate', which it needs"),
    ],
)
def test_a_wrong_file_says_what_is_missing(task: Path, old: str, replacement: str, expected: str) -> None:
    path = task / "func_forward.py"
    path.write_text(path.read_text().replace(old, replacement, 1))
    assert expected in refusal(path)
