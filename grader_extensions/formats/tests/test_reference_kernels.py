"""A reference_kernels problem is read without being executed, and a wrong one says which file and key."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from grader.errors import ProblemInvalid
from grader.model import Problem
from grader_extensions.formats import reference_kernels
from sandbox.protocol import wire

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "reference_kernels"


def copied(tmp_path: Path, name: str = "scaled_add") -> Path:
    """A problem's directory, to be spoilt."""
    place = tmp_path / "problems"
    shutil.copytree(FIXTURES, place)
    return place / name


def change(directory: Path, **changes: object) -> Path:
    """Change keys of a task.yml; None takes one away."""
    path = directory / "task.yml"
    keys = {**yaml.safe_load(path.read_text()), **changes}
    path.write_text(yaml.safe_dump({key: value for key, value in keys.items() if value is not None}))
    return directory


def load(directory: Path) -> Problem:
    return reference_kernels.load(directory, root=directory.parent)


def refusal(directory: Path) -> str:
    with pytest.raises(ProblemInvalid) as caught:
        load(directory)
    return str(caught.value)


def cases(name: str) -> list[dict[str, object]]:
    return [json.loads(workload.arguments)["case"] for workload in load(FIXTURES / name).spec.workloads]


def test_a_problem_reads_back():
    """Tests are for every device, benchmarks for a GPU; the files go along as text, without the submission and their harness."""
    problem = load(FIXTURES / "scaled_add")
    spec = problem.spec
    assert (problem.problem_id, problem.languages, spec.entry, spec.convention) == (
        "scaled_add",
        ("python",),
        "custom_kernel",
        wire.Convention.DATA,
    )
    assert [(workload.workload_id, workload.device_kind, workload.axes) for workload in spec.workloads] == [
        ("test-0", "", {"size": 33, "factor": 2}),
        ("test-1", "", {"size": 128, "factor": 3}),
        ("benchmark-0", "cuda", {"size": 2048, "factor": 2}),
    ]
    assert json.loads(spec.workloads[0].arguments) == {"case": {"size": 33, "factor": 2, "seed": 4242}}
    assert set(json.loads(spec.reference)) == {"task.py", "utils.py", "reference.py"}
    assert (spec.tolerance.atol, spec.tolerance.rtol) == (1e-2, 1e-2) and "factor * b" in problem.statement
    assert problem.statement.endswith("\nA submission can import task.py and utils.py.\n")


def test_where_there_are_no_tests_benchmarks_are_for_every_device(tmp_path):
    """Or nothing could be graded without a GPU."""
    problem = load(change(copied(tmp_path), tests=None))
    assert [workload.device_kind for workload in problem.spec.workloads] == [""]


def test_booleans_and_lists_stay_what_they_are():
    """Their own harness would pass the text "False", and no list at all."""
    assert [case["negate"] for case in cases("masked_sums")] == [False, True, False]
    assert [case["sizes"] for case in cases("row_topk")] == [[4, 32], [9, 50]]


def test_the_digest_changes_with_what_decides_a_verdict_only(tmp_path):
    """A new description is the same problem; a new case and a new text of a file make another, the file with another rule."""
    directory = copied(tmp_path)
    task, utils = directory / "task.yml", directory.parent / "shared" / "utils.py"
    before = load(directory).spec
    task.write_text(task.read_text().replace("written into", "put into"))
    assert load(directory).digest == before.digest
    task.write_text(task.read_text().replace('"size": 33', '"size": 34'))
    changed = load(directory).spec
    utils.write_text(utils.read_text() + "\n")
    checked = load(directory).spec
    assert len({before.digest, changed.digest, checked.digest}) == 3
    assert before.rule == changed.rule != checked.rule and "check_implementation of reference.py" in checked.rule


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"test": []}, "test: is not a key here; did you mean 'tests'?"),
        ({"files": None}, "files: Field required"),
        ({"files": [{"name": "a.py", "source": "task.py", "mode": "x"}]}, "files.0.mode: is not a key here; take one of: name, source"),
        ({"files": [{"name": "../a.py", "source": "task.py"}]}, "files.0.name"),
        ({"files": [{"name": "task.py", "source": "task.py"}]}, "files has no reference.py"),
        ({"files": [{"name": "reference.py", "source": "reference.py"}] * 2}, "files has a name twice"),
        ({"files": [{"name": "reference.py", "source": "nowhere.py"}]}, "nowhere.py: can't be read"),
        ({"files": [{"name": "reference.py", "source": "/dev/zero"}]}, "/dev/zero is outside the problem set"),
        ({"lang": "cu"}, "only 'py' is"),
        ({"lang": "rust"}, "lang: Input should be 'py' or 'cu'"),
        ({"config": {"main": "eval.py", "sources": []}}, "config of lang 'py' has the key main"),
        ({"multi_gpu": True}, "multi_gpu problems are not judged here"),
        ({"tests": [{"world_size": 2}]}, "multi_gpu problems are not judged here"),
        ({"tests": [], "benchmarks": []}, "neither tests nor benchmarks"),
        ({"tests": {"size": 3}}, "tests: Input should be a valid list"),
        ({"tests": [{"size": {"n": 3}}]}, "tests.0.size"),
        ({"tests": [{"size": [[3]]}]}, "tests.0.size"),
        ({"tests": [{"size": float("nan")}]}, "tests.0.size"),
        ({"tests": [{"a b": 3}]}, "tests.0"),
        ({"tests": [{"size": 10**12}]}, "tests.0.size is over 2 ** 31 - 1"),
        ({"tests": [{"sizes": [1, 10**12]}]}, "tests.0.sizes is over 2 ** 31 - 1"),
        ({"test_timeout": 0}, "test_timeout"),
        ({"ranking_by": "best"}, "ranking_by"),
    ],
)
def test_a_wrong_task_names_file_and_key(tmp_path, changes, expected):
    message = refusal(change(copied(tmp_path), **changes))
    assert "task.yml" in message and expected in message and "Value error" not in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("files: [", "is not YAML"),
        ("files: !!python/object/apply:os.system ['true']", "is not YAML"),
        ("[" * 5000, "can't be read"),
        ("size: " + "9" * 5000, "can't be read"),
        ("- a\n- b", "valid dictionary"),
        ("", "valid dictionary"),
        ("x: " + "a" * 300_000, "is not a file of at most"),
    ],
)
def test_what_is_no_task_says_so(tmp_path, text, expected):
    directory = copied(tmp_path)
    (directory / "task.yml").write_text(text)
    with pytest.raises(ProblemInvalid, match=expected):
        load(directory)


@pytest.mark.parametrize(
    ("old", "text", "expected"),
    [
        ("def ref_kernel", "def other", "defines no 'ref_kernel'"),
        ("def generate_input", "def other", "defines no 'generate_input'"),
        ("check_implementation =", "other =", "defines no 'check_implementation'"),
        ("import torch", "import torch torch", "line 1: is not Python"),
    ],
)
def test_a_wrong_reference_names_file_and_function(tmp_path, old, text, expected):
    directory = copied(tmp_path)
    reference = directory / "reference.py"
    reference.write_text(reference.read_text().replace(old, text, 1))
    message = refusal(directory)
    assert "reference.py" in message and expected in message


def listed(place: Path, **texts: str) -> Path:
    """A problem of these files, task.yml among them."""
    place.mkdir(parents=True)
    names = [f"{name}.py" for name in texts]
    files = [{"name": "submission.py", "source": "@SUBMISSION@"}, *({"name": name, "source": name} for name in names)]
    keys = {"files": files, "lang": "py", "config": {"main": "eval.py"}, "tests": [{"n": 1, "seed": 1}]}
    (place / "task.yml").write_text(yaml.safe_dump(keys))
    for name, text in texts.items():
        (place / f"{name}.py").write_text(text)
    return place


FUNCTIONS = "def generate_input(n): ...\ndef ref_kernel(data): ...\ndef check_implementation(data, output): ...\n"


def test_a_submission_is_given_task_and_utils_and_what_they_import(tmp_path):
    """Never the reference, nor what only that imports, nor the harness; not even where utils imports it."""
    problem = listed(
        tmp_path / "p",
        reference=f"import task, secret\nfrom utils import x\n{FUNCTIONS}",
        task="import torch\ninput_t = object\n",
        utils="import os, reference\ndef x():\n    from helpers import y\n",
        helpers="from deeper import z\n",
        deeper="z = 1\n",
        secret="def ref(): ...\n",
        eval="import reference\n",
        spare="unused = 1\n",
    )
    spec = reference_kernels.load(problem).spec
    assert set(spec.modules) == {"task.py", "utils.py", "helpers.py", "deeper.py"}
    assert spec.modules["deeper.py"] == "z = 1\n"
    assert set(json.loads(spec.reference)) == {*spec.modules, "reference.py", "secret.py", "spare.py"}
