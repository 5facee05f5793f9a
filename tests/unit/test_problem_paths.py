"""Reading a problem set takes no file from outside of it: not by `..`, not by an absolute path, not by a symbolic link."""

import shutil
from pathlib import Path

import pytest

from grader.errors import ProblemInvalid
from grader.formats import kernelbench, native, reference_kernels
from grader.problems.store import Problems, import_all
from tests import fakes

FIXTURES = Path(__file__).parents[1] / "fixtures"
OUTSIDE = "is outside the problem set"
TASK = """
files:
  - {name: "reference.py", source: "SOURCE"}
lang: py
config: {main: eval.py}
tests: [{size: 4}]
"""


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


def test_what_is_imported_is_the_set(tmp_path):
    """A task that shares a file with others is imported with the directory that holds both, and not alone."""
    shutil.copytree(FIXTURES / "reference_kernels", tmp_path / "set")
    alone = list(import_all(tmp_path / "set" / "scaled_add"))
    assert [one.problem for one in alone] == [None]
    assert OUTSIDE in alone[0].reason and "name the directory that holds both" in alone[0].reason
    found = {one.problem.problem_id for one in import_all(tmp_path / "set") if one.problem}
    assert found == {path.parent.name for path in (FIXTURES / "reference_kernels").glob("*/task.yml")} and "scaled_add" in found
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


@pytest.mark.parametrize(
    ("format_module", "problem", "file"),
    [
        (native, "sum", "sum/problem.toml"),
        (native, "sum", "sum/reference.py"),
        (kernelbench, "1_Scaled_hinge.py", "1_Scaled_hinge.py"),
    ],
    ids=["native table", "native reference", "kernelbench"],
)
def test_no_file_of_a_problem_is_a_link_to_the_outside(tmp_path, format_module, problem, file):
    """Control: with the directory above as the set, it is read."""
    directory = tmp_path / "set"
    fakes.write_problem(directory)
    shutil.copy(FIXTURES / "kernelbench" / "1_Scaled_hinge.py", directory)
    (directory / file).rename(tmp_path / "outside")
    (directory / file).symlink_to(tmp_path / "outside")
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        format_module.load(directory / problem)
    assert format_module.load(directory / problem, root=tmp_path).problem_id
