"""The table of README.md is true: all 64 attacks are in it, each has the tests that it names, and each test is named."""

import ast
import re
from pathlib import Path

import pytest

from tests.exploits.attack_files import HERE as EXPLOITS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COUNT = 64
# A fixture that runs its test on each safe isolation.
ON_BOTH = {"cage", "graded_in"}
PLACES = {
    "access": "test_access",
    "resources": "test_resources",
    **{name: f"test_containment_{name}" for name in ("limits", "server", "artifacts", "builds", "verdicts")},
}


def rows():
    """The lines of the table: number, attack, expected, tested in, control, where."""
    for line in (HERE / "README.md").read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 6 and cells[0].isdigit():
            yield int(cells[0]), cells[3], cells[4], cells[5]


def numbered(module):
    """The numbers of a module's tests, each with the names of its tests' arguments."""
    arguments = {}
    for node in ast.parse((HERE / f"{module}.py").read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (match := re.match(r"test_(\d\d)_", node.name)):
            arguments.setdefault(int(match[1]), []).append({argument.arg for argument in node.args.args})
    return arguments


def places_in(text):
    """The modules of this directory that a row names: words outside code."""
    return {word for word in re.findall(r"\w+", re.sub(r"`[^`]*`", "", text)) if word in PLACES}


def test_every_attack_of_the_list_has_a_row_and_a_control():
    assert sorted({number for number, *_ in rows()}) == list(range(1, COUNT + 1))
    assert [number for number, tested, control, where in rows() if not (tested and control and where)] == []
    assert [number for number, tested, *_ in rows() if "not tested" in tested] == []


@pytest.mark.parametrize("place", PLACES)
def test_a_row_names_the_tests_that_there_are(place):
    """And one that says "both" has a test that runs on both."""
    tests = numbered(PLACES[place])
    named = {number for number, tested, *_ in rows() if place in places_in(tested)}
    assert named == tests.keys()
    both = {number for number, tested, _, where in rows() if place in places_in(tested) and where.startswith("both")}
    assert [number for number in both if not any(arguments & ON_BOTH for arguments in tests[number])] == []


def test_what_a_row_names_elsewhere_exists():
    """Files, and the kernels that are listed after them."""
    for number, tested, *_ in rows():
        for path, kernels in re.findall(r"`(tests/[\w/.]+)`(?:: ((?:`\w+`(?:, )?)+))?", tested):
            assert (ROOT / path).exists(), (number, path)
            directory = EXPLOITS / "attacks" if path == "tests/exploits" else ROOT / "tests/gpu/kernels/faults"
            missing = [name for name in re.findall(r"\w+", kernels) if not list(directory.glob(f"{name}.*"))]
            assert missing == [], number
