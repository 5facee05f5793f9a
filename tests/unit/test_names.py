"""Class names are unique in the product, pronouns are recognised as names (STYLE.md), and docs/architecture.md names every folder."""

import ast
import re
from pathlib import Path

import pytest

from tools import names

ROOT = Path(__file__).parents[2]


def test_class_names_are_unique():
    paths = [path for folder in ("grader", "sandbox", "grader_extensions") for path in (ROOT / folder).rglob("*.py")]
    paths = [path for path in paths if not {"v1", "tests"} & {*path.relative_to(ROOT).parts}]
    assert names.duplicate_classes((path, ast.parse(path.read_text())) for path in paths) == []


def test_a_duplicate_class_is_reported():
    tree = ast.parse("class Part: ...\nclass _Part: ...")
    (line,) = names.duplicate_classes([(Path("grader/x.py"), tree)])
    assert "class Part is defined 2 times" in line


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("one = 1", 1),
        ("for found in x: ...", 1),
        ("def f(asked, *, kept=0): ...", 2),
        ("[_ for one in x]", 1),
        ("with x as taken: ...", 1),
        ("x.one = 1", 0),
        ("one()", 0),
        ("f(one=1)", 0),
    ],
)
def test_a_pronoun_is_a_name_where_it_is_assigned(source, count):
    assert len([*names.pronoun_names(ast.parse(source))]) == count


def test_a_docstring_begins_with_a_noun_or_a_verb():
    tree = ast.parse("def f():\n    'What is left.'\ndef g():\n    'Return the whole.'")
    assert [text for _, text in names.pronoun_docstrings(tree)] == ["What is left."]


# Not those that a move has left behind in a checkout, which have only bytecode.
FOLDERS = [path for half in ("grader", "sandbox") for path in (ROOT / half).iterdir() if path.is_dir() and not path.name.startswith("_")]
PATHS = [path for path in FOLDERS if any(path.glob("[!_]*")) or (path / "__init__.py").exists()]


def test_the_architecture_names_every_folder_once():
    table = re.findall(r"^\| (`(?:grader|sandbox)/.+?) \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert sorted(name for row in table for name in re.findall(r"`([\w/]+)`", row)) == sorted(str(path.relative_to(ROOT)) for path in PATHS)
