"""The core's tests pass where no extension is installed, as `make test-core` runs them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORT = re.compile(r"^\s*(from|import) grader_extensions\b|[\"']grader_extensions\.\w", re.MULTILINE)


def test_no_test_of_the_core_imports_an_extension():
    """It belongs into the tests of that extension, or takes a made-up part. Tests for a GPU run with all extensions.

    The controls: an import, and one by name."""
    assert IMPORT.search("if True:\n    from grader_extensions.web import pages") and IMPORT.search(
        "importorskip('" + "grader_extensions.web')"
    )
    assert [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__) and "gpu" not in path.parts and IMPORT.search(path.read_text("utf-8"))
    ] == []
