"""The core's tests pass where no extension is installed, as `make test-core` runs them."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox.protocol import box_modules
from tests import requirements

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^\s*(from|import) grader_extensions\b|[\"']grader_extensions\.\w", re.MULTILINE)


def test_no_test_of_the_core_imports_an_extension():
    """Such a test belongs to the tests of that extension, or takes a made-up part. Tests for a GPU run with all extensions.

    The controls: an import, and one by name."""
    assert IMPORT.search("if True:\n    from grader_extensions.web import pages") and IMPORT.search(
        "importorskip('" + "grader_extensions.web')"
    )
    assert [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and "gpu" not in path.parts and IMPORT.search(path.read_text("utf-8"))
    ] == []


@pytest.mark.parametrize(
    ("text", "installed", "required", "outcome"),
    [
        (f"RuntimeError: {box_modules.MISSING}", False, "", "skipped"),
        ("AssertionError: assert 1 == 2", False, "", "failed"),
        (f"RuntimeError: {box_modules.MISSING}", True, "", "failed"),
        (f"RuntimeError: {box_modules.MISSING}", False, "1", "failed"),
    ],
)
def test_what_fails_for_want_of_a_package_is_skipped_only_without_it(monkeypatch, text, installed, required, outcome):
    """And not where CI says that it has to be there; nor is what fails for another reason."""
    monkeypatch.setattr(requirements, "entry_points", lambda **_: ("emulated",) if installed else ())
    monkeypatch.setenv("GRADER_REQUIRE_EXTENSIONS", required)
    report = pytest.TestReport("test", ("test.py", 1, "test"), {}, "failed", text, "call")
    hook = requirements.pytest_runtest_makereport(SimpleNamespace(location=report.location))
    next(hook)
    with pytest.raises(StopIteration):
        hook.send(report)
    assert report.outcome == outcome and (outcome == "failed" or "kernel-grader-extensions" in report.longrepr[2])


def test_ci_requires_the_extensions():
    assert "GRADER_REQUIRE_EXTENSIONS=1" in (ROOT / ".ci" / "run").read_text()
