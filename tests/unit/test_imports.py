"""docs/imports.md shows the imports between folders as they are, and they form no cycle."""

from graphlib import CycleError
from pathlib import Path

import pytest

from tools import imports


def test_the_page_is_what_the_code_says():
    assert imports.PAGE.read_text() == imports.page(imports.imports()), "run `python -m tools.imports`"


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
