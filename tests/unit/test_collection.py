"""That the tests can be collected without the packages that take long to import (tests/collection.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collection import LOADED

ROOT = Path(__file__).parents[2]


def test_collection_imports_no_package_that_only_tests_need(request: pytest.FixtureRequest) -> None:
    """Each process of a run would pay for it, two seconds of CPU for torch. `python -X importtime -m pytest --collect-only` shows who."""
    assert not request.config.stash[LOADED]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module that are executed while it is collected."""
    for statement in body:
        if not (isinstance(statement, ast.If) and ast.unparse(statement.test) == "AFTER_COLLECTION"):
            yield statement


@pytest.mark.slow
def test_what_a_module_leaves_out_is_missed_by_no_other() -> None:
    """A module's block is executed for its own tests: another that was collected with it would find its functions without their imports."""
    paths = (path for top in ("tests", "grader_extensions") for path in (ROOT / top).rglob("*.py") if "attacks" not in path.parts)
    trees = {path: ast.parse(path.read_bytes()).body for path in paths}
    deferring = {path for path, body in trees.items() if len(list(_statements(body))) < len(body)}
    assert ROOT / "tests" / "unit" / "test_lane.py" in deferring
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in deferring}
    for path, body in trees.items():
        imports = [statement for statement in _statements(body) if isinstance(statement, ast.ImportFrom | ast.Import)]
        named = {alias.name for statement in imports for alias in statement.names}
        named |= {statement.module for statement in imports if isinstance(statement, ast.ImportFrom) and statement.module is not None}
        assert not named & modules, f"{path} imports {named & modules}; do it in `if AFTER_COLLECTION:`"
    for path in deferring:
        assert path.name.startswith("test_"), f"{path} is no test module: nothing executes what it leaves out"
