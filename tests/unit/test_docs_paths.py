"""Pages name no file that is gone."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "grader|grader_extensions|sandbox|tests|tools|docs|examples|deploy"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")
PAGES = [*ROOT.glob("*.md"), *(page for folder in FOLDERS.split("|") for page in (ROOT / folder).rglob("*.md"))]
EXAMPLES = {"tests/exploits/attacks/NAME.cu"}


def missing(text, folder=ROOT):
    """The paths in code quotes that are neither there from the root nor from the page's folder."""
    bases = (ROOT, ROOT / "proto", folder)
    return {path for path in PATH.findall(text) if not any((base / path).exists() for base in bases)} - EXAMPLES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_that_are_there(page):
    if page.name != "CHANGELOG.md":  # which tells of what is gone, too
        assert not missing(page.read_text("utf-8"), page.parent)


def test_a_file_that_is_gone_is_noticed():
    """The control."""
    assert missing("see `grader/gone.py`, `grader/errors.py` and `a/b`") == {"grader/gone.py"}
