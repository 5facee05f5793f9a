"""README names every folder of the product, and each says what it owns."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATHS = [path for half in ("grader", "sandbox") for path in (ROOT / half).iterdir() if path.is_dir() and not path.name.startswith("_")]
FOLDERS = sorted(str(path.relative_to(ROOT)) for path in PATHS)


def test_readme_names_every_folder_once():
    table = re.findall(r"^\| (`(?:grader|sandbox)/.+?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for row in table for name in re.findall(r"`([\w/]+)`", row)) == FOLDERS


@pytest.mark.parametrize("folder", [one for one in FOLDERS if (ROOT / one / "__init__.py").is_file()])
def test_a_folder_says_what_it_owns(folder):
    assert ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text()))
