"""How long the tests took: the report that ends `make test`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import durations, tiers
from tests.durations import Timing

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

@pytest.fixture
def broken(): yield; raise OSError

class TestOne:
    def test_passes(self): ...
    def test_fails(self): assert False

def test_ends_in_an_error(broken): ...
def test_skips(): pytest.skip()
"""


def timing(directory, duration_s, number=0, outcome="passed"):
    return Timing(name=f"{directory}/test_it.py::test_it[{number}]", directory=directory, duration_s=duration_s, outcome=outcome)


@pytest.fixture
def junit(tmp_path):
    """A JUnit file of pytest's, of a test that fails, one whose teardown fails, one that skips and one that passes."""
    place = tmp_path / "tests" / "unit"
    place.mkdir(parents=True)
    (place / "test_it.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=junit/one.xml", "tests/unit/test_it.py"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    return tmp_path / "junit", done.stdout


def test_what_pytest_wrote_is_read(junit, monkeypatch, capsys):
    """The counts are those of pytest's own last line, but that a test counts once: not as passed and as an error."""
    place, printed = junit
    assert "1 failed, 2 passed, 1 skipped, 1 error in " in printed
    timings = durations.read([place / "one.xml"])
    assert {(one.name, one.directory) for one in timings} == {
        (f"tests/unit/test_it.py::{name}", "tests/unit")
        for name in ("TestOne::test_passes", "TestOne::test_fails", "test_ends_in_an_error", "test_skips")
    }
    monkeypatch.setenv(tiers.SCOPE_VARIABLE, "all")
    assert durations.main([str(place), "--wall-s", "3"]) == 0
    *_, failed, broken, last = capsys.readouterr().out.splitlines()
    assert (failed, broken) == (
        "FAILED tests/unit/test_it.py::TestOne::test_fails",
        "ERROR tests/unit/test_it.py::test_ends_in_an_error",
    )
    assert "1 failed, 1 passed, 1 skipped, 1 error in 3.00s" in last


def test_a_run_without_tests_is_a_failure(tmp_path, capsys):
    assert durations.main([str(tmp_path), "--wall-s", "0"]) == 1
    assert "no tests ran" in capsys.readouterr().out


def test_the_last_line_is_like_pytests():
    line = durations.total([timing("tests/unit", 1.0), timing("tests/unit", 1.0, outcome="skipped")], 3725.0)
    assert line.strip("= ") == "1 passed, 1 skipped in 3725.00s (1:02:05)"


def test_the_slowest_tests_come_first():
    _, *lines = durations.slowest([timing("tests/unit", float(number), number) for number in range(30)])
    assert [float(line.split()[0]) for line in lines] == [float(number) for number in range(29, 9, -1)]


@pytest.mark.parametrize(("spent_s", "words"), [(14.9, ""), (15.0, "WARNING: over its budget by 50 %"), (30.0, "by 200 %")])
def test_half_more_than_the_budget_is_a_warning(spent_s, words):
    line = next(line for line in durations.directories([timing("tests/unit", spent_s)], {"tests/unit": 10.0}) if "tests/unit" in line)
    assert words in line
    assert ("WARNING" in line) == bool(words)


def test_a_directory_that_runs_whole_has_no_budget_of_a_part():
    *_, line, _ = durations.directories([timing("tests/e2e", 100.0)], {"tests/e2e": 10.0}, frozenset({"tests/e2e"}))
    assert line.split() == ["tests/e2e", "1", "100.0"]


def test_every_directory_of_tests_has_a_budget():
    """In both kinds of run, and nothing else has one."""
    there = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")} - {"tests/gpu"}
    assert durations.budgets("all").keys() == durations.budgets("reduced").keys() == there
