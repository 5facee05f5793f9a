"""That the tests can be collected without the packages that take long to import (tests/collection.py)."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 240.0  # only bounds a hang
COLLECT = """
import json, sys, traceback
import pytest

names, importers = sys.argv[1].split(","), {}

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name in names and name not in importers:
            places = [(frame.filename, frame.lineno) for frame in traceback.extract_stack()]
            importers[name] = [f"{file}:{line}" for file, line in places if file[0] == "/" and "site-packages" not in file]

sys.meta_path.insert(0, Watch())
status = pytest.main(["--collect-only", "-q", "-m", "not gpu", "-p", "no:cacheprovider", "tests"])
print()
print(json.dumps({"status": int(status), "loaded": {name: importers.get(name) for name in names if name in sys.modules}}))
"""


def test_collection_imports_no_package_that_only_tests_need() -> None:
    """Each process of a run would pay for it, two seconds of CPU for torch; the failure shows who imported it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GRADER_TEST_"))}
    command = [sys.executable, "-c", COLLECT, "numba,numpy,torch,triton"]
    process = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    collection = json.loads(process.stdout.splitlines()[-1])
    assert collection["status"] == pytest.ExitCode.OK, process.stdout[-4000:] + process.stderr[-4000:]
    assert not collection["loaded"], json.dumps(collection["loaded"], indent=1)


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
