"""Which part of the sampled tests a run takes, and that a few consecutive runs take all."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.sampling import PART_VARIABLE, Part, Sample, current_part, every, is_named, named, sample_of

ROOT = Path(__file__).parents[2]
NTHS = (1, 2, 3, 8, 24)
FILE = "tests/exploits/test_exploits.py"
IDS = [f"{FILE}::test_an_attack_fails[attack-{number}]" for number in range(200)]
TESTS = """
import pytest

@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(12))
def test_sampled(number): ...

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("number", [pytest.param(number, marks=pytest.mark.sampled(4)) for number in range(12)])
def test_in_a_group(number): ...

def test_always(): ...
"""


def taken(number, nth):
    part = Part(number=number, source="a test")
    return [one for one, has_turn in zip(IDS, part.takes([(FILE, Sample(nth)) for _ in IDS]), strict=True) if has_turn]


@pytest.mark.parametrize("nth", NTHS)
@pytest.mark.parametrize("first", [0, 155])
def test_consecutive_parts_take_everything_once(nth, first):
    runs = [one for number in range(first, first + nth) for one in taken(number, nth)]
    assert sorted(runs) == sorted(IDS)


@pytest.mark.parametrize("nth", NTHS)
def test_the_same_part_takes_the_same(nth):
    assert taken(7, nth) == taken(7, nth) == taken(7 + nth, nth)


@pytest.mark.parametrize("first", [0, 155])
def test_the_tests_of_a_file_are_shared_equally(first):
    assert [len(taken(number, 8)) for number in range(first, first + 8)] == [25] * 8


def test_files_do_not_all_begin_with_the_same_part():
    first = [Part(number=0, source="a test").takes([(f"tests/unit/test_{name}.py", Sample(8))]) for name in range(100)]
    assert 0 < first.count([True]) < 50


def test_a_test_with_a_turn_does_not_change_whose_turn_it_is_next():
    part = Part(number=0, source="a test")
    plain = part.takes([(FILE, Sample(2)), (FILE, Sample(2))])
    assert part.takes([(FILE, Sample(2)), (FILE, Sample(2, 0)), (FILE, Sample(4)), (FILE, Sample(2))])[::3] == plain


def test_the_options_part_goes_before_the_environments_and_that_before_the_commit_count(monkeypatch, tmp_path):
    monkeypatch.setenv(PART_VARIABLE, "5")
    assert current_part(4, tmp_path) == Part(number=4, source="--part")
    assert current_part(None, tmp_path) == Part(number=5, source=PART_VARIABLE)
    monkeypatch.delenv(PART_VARIABLE)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert current_part(None, tmp_path) == Part(number=0, source="without git")


def test_the_part_is_the_commit_count(monkeypatch, tmp_path):
    monkeypatch.delenv(PART_VARIABLE, raising=False)
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True, timeout=60)
    for count in (1, 2):
        subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "change"], cwd=tmp_path, check=True, timeout=60)
        assert current_part(None, tmp_path) == Part(number=count, source="the commit count")


def test_a_part_that_is_no_number_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(PART_VARIABLE, "first")
    with pytest.raises(pytest.UsageError, match="'first'; write a number"):
        current_part(None, tmp_path)


def test_every_case_has_its_name_and_the_mark():
    (case,) = every(3, [("name", "value")], [pytest.mark.slow])
    assert (case.id, case.values) == ("name", ("value",))
    assert [(mark.name, mark.args) for mark in case.marks] == [("slow", ()), ("sampled", (3,))]


def test_ids_on_the_command_line_are_relative_to_the_root():
    arguments = ["test_a.py::test_b[c]", str(ROOT / "tests/test_d.py::Class"), "-q", "tests"]
    assert named(arguments, ROOT / "tests" / "unit", ROOT) == ("tests/unit/test_a.py::test_b[c]", "tests/test_d.py::Class")


def test_a_test_is_named_with_and_without_its_parameters():
    ids = ("a.py::test_x[1]", "a.py::test_x", "a.py::test", "b.py::test_x")
    assert [is_named("a.py::test_x[1]", [one]) for one in ids] == [True, True, False, False]


@pytest.mark.parametrize(("numbers", "nth"), [((), 1), ((3,), 3), ((2, 8, 4), 8)])
def test_of_several_marks_the_largest_decides(numbers, nth):
    marks = [pytest.mark.sampled(number).mark for number in numbers]
    assert sample_of(SimpleNamespace(nodeid="a.py::test", iter_markers=lambda name: marks)) == Sample(nth)


def test_the_turn_is_that_of_the_largest():
    marks = [pytest.mark.sampled(2, turn=1).mark, pytest.mark.sampled(8, turn=5).mark, pytest.mark.sampled(4).mark]
    assert sample_of(SimpleNamespace(nodeid="a.py::test", iter_markers=lambda name: marks)) == Sample(8, 5)


MARK = pytest.mark.sampled


@pytest.mark.parametrize("mark", [MARK, MARK(0), MARK("8"), MARK(nth=8), MARK(8, 1), MARK(8, turn="1")])
def test_a_mark_without_a_number_is_refused(mark):
    with pytest.raises(pytest.UsageError, match="write the mark as sampled"):
        sample_of(SimpleNamespace(nodeid="a.py::test", iter_markers=lambda name: [mark.mark]))


@pytest.fixture
def project(tmp_path):
    """Runs pytest with the plugin on a project of 25 tests: the names of those that ran, and what was printed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = sampled(n)\n")
    (tmp_path / "test_it.py").write_text(TESTS)

    def run(*words, scope="all"):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GRADER_TEST_SCOPE": scope}
        command = [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.sampling", "-p", "no:cacheprovider", "-v", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
        return set(re.findall(r"test_it\.py::(\w+(?:\[\d+\])?)", done.stdout)), done.stdout + done.stderr

    return run


@pytest.mark.slow
def test_workers_take_what_one_process_takes(project):
    """Whichever way tests are spread: with groups, xdist writes them into the ids."""
    alone, text = project("--part", "1")
    assert "sampled tests: part 1 (--part)" in text
    assert "scope: all directories" in text
    assert 1 < len(alone) < 25 and "test_always" in alone
    assert project("--part", "1", "-n", "2", "--dist", "loadgroup")[0] == alone
    assert len(project("--all-cases", "-n", "1", "--dist", "worksteal")[0]) == 25


def test_a_test_that_is_named_runs_in_every_part(project):
    ids = [f"test_it.py::test_sampled[{number}]" for number in range(3)]
    assert project("--part", "0", *ids)[0] == {f"test_sampled[{number}]" for number in range(3)}


def test_an_unknown_scope_is_refused(project):
    assert "GRADER_TEST_SCOPE: unknown scope 'some'" in project(scope="some")[1]
