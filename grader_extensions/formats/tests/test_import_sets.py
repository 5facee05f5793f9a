"""`problems import` of whole checkouts: each problem once, each bad file one refusal, and nothing of what is no problem."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from grader.cli.main import app
from grader.problems.store import Problems, read_kept
from grader_extensions.formats import problem_files
from grader_extensions.formats.problem_sets import import_all
from tests import fakes

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
KERNEL = FIXTURES / "kernelbench" / "1_Scaled_hinge.py"
TASK = FIXTURES / "reference_kernels" / "scaled_add"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["problems", "import", *map(str, arguments)])


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """Two versions of a task under a common root, each named by a competition's yaml too."""
    root = tmp_path / "problems"
    for version in ("first", "second"):
        for part in ("scaled_add", "shared"):
            shutil.copytree(TASK.parent / part, root / version / part)
        (root / f"{version}.yaml").write_text(f"name: {version}\nproblems: [{{directory: {version}/scaled_add}}]\n")
    reference = root / "second" / "scaled_add" / "reference.py"
    reference.write_text(f"{reference.read_text()}\n# the second version\n")
    return root


def test_tasks_of_one_name_get_their_directories_names(tasks: Path) -> None:
    """Each once, although a yaml and its directory both name it; the digests differ from those of the plain ids, and from each other."""
    results = list(import_all(tasks))
    assert [result.problem and result.problem.problem_id for result in results] == ["first_scaled_add", "second_scaled_add"]
    (alone,) = import_all(tasks / "second")
    problems = [result.problem for result in (*results, alone) if result.problem]
    assert problems[-1].problem_id == "scaled_add" and len({problem.digest for problem in problems}) == 3
    assert all(problem.spec.problem_id == problem.problem_id for problem in problems)


def test_the_same_problem_twice_is_counted_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "set" / name).mkdir(parents=True)
        shutil.copy(KERNEL, tmp_path / "set" / name)
    report = json.loads(run(tmp_path / "set", "--no-check", "--json", "--state-dir", tmp_path / "state").stdout)
    assert report["counts"] == {"imported": 1, "refused": 0, "same": 1}
    (same,), (imported,) = report["same"], report["imported"]
    assert same["same_as"] == imported["path"] and same["problem"] == imported["problem"]


def test_a_prefix_is_part_of_the_problem(tmp_path: Path) -> None:
    """Of its id, its spec and its digest, as it is kept; both versions are there."""
    state = ("--no-check", "--state-dir", tmp_path / "state")
    for prefix in ("", "v0", "v1_"):
        assert run(KERNEL, *state, *(("--prefix", prefix) if prefix else ())).exit_code == 0
    problems = Problems.load([], tmp_path / "state" / "problems").all()
    assert [problem.problem_id for problem in problems] == ["kb_1_scaled_hinge", "v0_kb_1_scaled_hinge", "v1_kb_1_scaled_hinge"]
    assert len({problem.digest for problem in problems}) == 3 and all(problem.spec.problem_id == problem.problem_id for problem in problems)
    assert read_kept(tmp_path / "state" / "problems" / "v0_kb_1_scaled_hinge.json") == problems[1]


def test_a_collision_that_no_directory_tells_apart_names_the_remedy(tmp_path: Path) -> None:
    text = KERNEL.read_text()
    (tmp_path / "1_a.py").write_text(text)
    (tmp_path / "1_A.py").write_text(f"{text}\n# other\n")
    first, second = import_all(tmp_path)
    assert first.problem is not None and second.problem is None
    assert "has the id 'kb_1_a', as " in second.reason and "--prefix" in second.reason


def test_one_bad_file_is_one_refusal(tmp_path: Path) -> None:
    """And files that are no problem are not listed: a yaml without problems, a script. Control: what is named by itself is explained."""
    fakes.write_problem(tmp_path / "set")
    for name, text in {
        "eval_config.yaml": "default: {atol: 0.01}\n",
        "unreadable.yaml": "a: [\n",
        "bad.yaml": "problems: [{directory: x}]\n",
        "worse.yaml": "problems: [\n",
        "missing.yaml": "name: m\nproblems: [{directory: nowhere}]\n",
        "setup.py": "import setuptools\n",
        "task.yml": "files: []\n",
        "model.py": "class Model:\n    pass\n",
        "package.json": "{}\n",
    }.items():
        target = tmp_path / "set" / ("task/task.yml" if name == "task.yml" else name)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    entries = {str(entry.path.relative_to(tmp_path / "set")): entry for entry in import_all(tmp_path / "set")}
    results = {path: entry.problem.problem_id if entry.problem else entry.reason for path, entry in entries.items()}
    assert results.pop("sum") == "sum"
    assert results.keys() == {"bad.yaml", "worse.yaml", "nowhere", "task", "model.py"}
    assert "name: Field required" in results["bad.yaml"] and "is not YAML" in results["worse.yaml"]
    assert "does not exist; missing.yaml names it" in results["nowhere"] and "class Model has no method forward" in results["model.py"]
    (explained,) = import_all(tmp_path / "set" / "eval_config.yaml")
    assert (
        "is not a problem of a known format; looked for " in explained.reason
        and "native: a directory with problem.toml" in explained.reason
    )


def test_a_task_that_needs_a_missing_package_is_refused_unless_forced(tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "set" / "p")
    shutil.copytree(TASK.parent / "shared", tmp_path / "set" / "shared")
    reference = tmp_path / "set" / "p" / "reference.py"
    reference.write_text(f"from no_such_package.ops import fused\n{reference.read_text()}")
    arguments = (tmp_path / "set", "--no-check", "--state-dir", tmp_path / "state", "--json")
    refused = run(*arguments)
    assert refused.exit_code == 2 and "its reference needs no_such_package, not installed here" in refused.stdout
    assert "or list its file under `files`" in refused.stdout
    assert run(*arguments, "--force").exit_code == 0
    assert Problems.load([], tmp_path / "state" / "problems").get("p")


def test_missing_packages_are_those_that_the_code_surely_imports() -> None:
    """Of the modules that it reaches, and of its functions; not what it guards, brings along or never reaches."""
    texts = {
        "reference": "import torch, json\nfrom task import x\nimport gone_a.b\ntry:\n    import gone_b\nexcept ImportError:\n    pass\n"
        "def ref_kernel(data):\n    import gone_c\n\ndef other():\n    import gone_d\n",
        "task": "import gone_e\nfrom . import sibling\n",
        "unused": "import gone_f\n",
    }
    assert "its reference needs gone_a, gone_c, gone_e, not installed here" in problem_files.unusable(texts, "reference", ("ref_kernel",))
    for text in ("def (:\n", "import json\n"):
        assert problem_files.unusable({"reference": text}, "reference") == ""
