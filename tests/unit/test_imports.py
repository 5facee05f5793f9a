"""docs/imports.md shows the imports between folders as they are, and they form no cycle."""

import re
import subprocess
import sys
from graphlib import CycleError
from pathlib import Path

import pytest

from tools import imports


def test_the_page_is_what_the_code_says():
    """In a process of its own: CPython 3.11 fails to parse where a finaliser of another test's object logs a traceback meanwhile."""
    done = subprocess.run([sys.executable, "-m", "tools.imports", "--check"], cwd=imports.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_import_that_goes_round_is_an_error(tmp_path: Path):
    """The control, with two folders that import each other; one for types alone is none."""
    for name, text in {
        "a": "from grader.b import x",
        "b": "from grader import a",
        "c": "if TYPE_CHECKING:\n    from grader import a",
    }.items():
        (tmp_path / "grader" / name).mkdir(parents=True)
        (tmp_path / "grader" / name / "__init__.py").write_text(text)
    found = imports.imports(tmp_path)
    assert found == {"grader.a": {"grader.b"}, "grader.b": {"grader.a"}, "grader.c": set()}
    with pytest.raises(CycleError):
        imports.page(found)


def test_no_tool_imports_tests():
    """Tests use tools; the other direction would be a cycle."""
    found = [
        path for path in (imports.ROOT / "tools").rglob("*.py") if re.search(r"^\s*(from|import) tests\b", path.read_text(), re.MULTILINE)
    ]
    assert found == []
