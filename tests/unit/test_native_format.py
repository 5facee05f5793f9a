"""A native problem is read without being executed, and a wrong one says which key."""

import pytest

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import native
from grader.problems import Problems
from tests import fakes


def wrong(tmp_path, old, new):
    text = fakes.PROBLEM_TOML.format(name="sum")
    assert old in text
    with pytest.raises(ProblemInvalid) as caught:
        native.load(fakes.write_problem(tmp_path, text=text.replace(old, new)))
    return str(caught.value)


def test_a_problem_reads_back(tmp_path):
    """Shapes keep names and numbers apart; the reference is text."""
    problem = native.load(fakes.write_problem(tmp_path))
    assert problem.spec.inputs[0].shape == ("n",) and problem.spec.axes == ("n",) and problem.spec.entry == "solve"
    assert [one.hidden for one in problem.spec.workloads] == [False, True]
    assert problem.spec.reference.startswith("def reference") and len(problem.digest) == 64


def test_the_digest_changes_with_what_decides_a_verdict_only(tmp_path):
    """A new title is the same problem, a new reference is another."""
    directory = fakes.write_problem(tmp_path)
    before = native.load(directory).digest
    toml = directory / "problem.toml"
    toml.write_text(toml.read_text().replace("A sum", "The sum"))
    assert native.load(directory).digest == before
    (directory / "reference.py").write_text("def reference(a, n):\n    return a + 1\n")
    assert native.load(directory).digest != before


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('axes = ["n"]', 'axes = ["m"]', "'n', which is not in axes; add it there"),
        ("axes = { n = 64 }", "axes = { }", "must give exactly the axes"),
        ('name = "c"', 'name = "a"', "same name"),
        ('id = "secret33"', 'id = "n64"', "same id"),
        ('title = "A sum"', 'titel = "A sum"', "title"),
        ('name = "sum"', 'name = "../sum"', "name"),
        ('name = "sum"', "name =", "is no TOML"),
    ],
)
def test_a_wrong_problem_names_file_and_key(tmp_path, old, new, said):
    """And says what to do where it is not plain."""
    message = wrong(tmp_path, old, new)
    assert "problem.toml" in message and said in message


def test_a_directory_of_problems_is_loaded_whole(tmp_path):
    """By id; a problem's own directory may be named as well."""
    fakes.write_problem(tmp_path, "one")
    two = fakes.write_problem(tmp_path, "two")
    (tmp_path / "not_a_problem").mkdir()
    store = Problems.load([tmp_path, two])
    assert [problem.problem_id for problem in store.all()] == ["one", "two"]
    assert store.by_digest(store.get("two").digest) == store.get("two") and store.by_digest("0") is None
    with pytest.raises(ProblemNotFound, match="take one of: one, two"):
        store.get("three")


def test_a_root_without_problems_is_a_mistake(tmp_path):
    """Nobody serves nothing by a typing error."""
    for root, said in ((tmp_path / "missing", "is no directory"), (tmp_path, "holds no problem")):
        with pytest.raises(ProblemInvalid, match=said):
            Problems.load([root])


def test_two_problems_of_one_name_are_a_mistake(tmp_path):
    """It says where the other one is."""
    fakes.write_problem(tmp_path / "a")
    other = fakes.write_problem(tmp_path / "b")
    (other / "reference.py").write_text("def reference(a, n):\n    return -a\n")
    with pytest.raises(ProblemInvalid, match="rename one"):
        Problems.load([tmp_path / "a", tmp_path / "b"])
