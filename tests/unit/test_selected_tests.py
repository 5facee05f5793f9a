"""Which tests a change runs (tests/selection.py), and which of the slow ones have their turn (tests/turns.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import ROOT, TABLE, matches, select

ATTACKS = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/exploits/test_*.py")}
TESTS = """
import pytest

@pytest.mark.slow
@pytest.mark.parametrize("number", range(16))
def test_slow(number): ...

def test_quick(): ...

@pytest.mark.daily
def test_daily(): ...
"""


def test_every_commit_runs_the_unit_tests_and_a_part_of_the_attacks() -> None:
    assert [path for path in select(["docs/api.md"]) if path.startswith("tests/")] == ["tests/exploits", "tests/unit"]


@pytest.mark.parametrize("path", ["sandbox/judge/x.py", "grader/isolation/x.py", "tests/exploits/attacks/x.cu"])
def test_a_change_of_what_protects_runs_all_attacks_and_controls(path: str) -> None:
    assert set(select([path])) >= ATTACKS and len(ATTACKS) > 1


def test_each_folder_of_the_product_is_in_a_package() -> None:
    """A folder that is forgotten would run everything with each of its changes."""
    sources = [source for package in TABLE["package"].values() for source in package["sources"]]
    folders = {
        f"{path.parent.relative_to(ROOT)}/x.py"
        for top in ("grader", "sandbox", "grader_extensions")
        for path in ROOT.glob(f"{top}/*/__init__.py")
    }
    assert [folder for folder in folders if not any(matches(folder, source) for source in sources)] == []
    tests = [test for package in TABLE["package"].values() for test in package["tests"] if (ROOT / test.partition("/")[0]).is_dir()]
    assert [test for test in tests if not list(ROOT.glob(test))] == []


@pytest.fixture
def collected(tmp_path: Path):
    """Collect a file of tests below a folder with these options; the names that run."""
    folder = tmp_path / "tests" / "images"
    (tmp_path / "tests" / "some").mkdir(parents=True)
    folder.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    slow\n    daily\n")
    (tmp_path / "tests" / "some" / "test_a.py").write_text(TESTS)
    (folder / "test_b.py").write_text("def test_image(): ...\n")

    def collect(*words: str, turn: int = 0) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "tests.turns", "-p", "no:cacheprovider", "--collect-only", "-q", *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "GRADER_TEST_TURN": str(turn)}
        process = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return [line.partition("::")[2] for line in process.stdout.splitlines() if "::" in line]

    return collect


def test_slow_tests_take_turns(collected) -> None:
    turns = [collected("tests", turn=turn) for turn in range(8)]
    assert [len(names) for names in turns] == [3] * 8 and all("test_quick" in names for names in turns)
    assert len({name for names in turns for name in names}) == 17
