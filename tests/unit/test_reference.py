"""docs/reference shows the commands, the API, the exit codes and the errors as they are; the links of all documents lead to files."""

import re
import subprocess
import sys

import pytest

from grader import extensions
from tools import reference

pytestmark = pytest.mark.skipif(not extensions.named(extensions.COMMANDS), reason="the pages hold the commands of the extensions, too")


def test_the_pages_are_what_the_code_makes():
    """In a process of its own: other tests of this one define errors and options."""
    command = [sys.executable, "-m", "tools.reference", "--check"]
    process = subprocess.run(command, cwd=reference.ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_a_page_that_differs_is_found(tmp_path):
    """The control: one page has another text, one is missing, one is not made any more."""
    pages = reference.pages()
    for name in ("cli.md", "api.md", "emulated-device.md", "old.md"):
        (tmp_path / name).write_text(pages.get(name, ""))
    (tmp_path / "cli.md").write_text(pages["cli.md"].replace("--problem", "--task"))
    assert reference.stale(tmp_path) == ["cli.md", "exit-codes-and-errors.md", "old.md"]


def test_every_command_method_and_error_is_there():
    pages = reference.pages()
    for text in ("`grader-cli rejudge create`", "`grader-server admin keys create`", "`--web-address-limit N`", "[env var: GRADER_SERVER]"):
        assert text in pages["cli.md"]
    types = ("`map<string, Samples>`", "`oneof event: Trial`", "| `score_low` | `optional double` | ")
    for text in ("#### WatchSubmission", "| `VERDICT_WRONG_ANSWER` | ", *types):
        assert text in pages["api.md"]
    assert "| `QUOTA_EXCEEDED` | RESOURCE_EXHAUSTED | limit, retry_s, period | 3 |" in pages["exit-codes-and-errors.md"]


def test_the_picture_has_the_lines_that_stay():
    """Progress that was drawn again is gone; fonts of other sites are, too."""
    svg = reference.picture("kept\r\nqueued\r\nspins\r\x1b[2K\x1b[1A\x1b[2Kended\r\n")
    assert [word for word in ("kept", "queued", "spins", "ended", "https://cdn") if word in svg] == ["kept", "ended"]


def test_links_and_pictures_of_documents_are_files():
    """Those of docs/ are in docs/: the site has nothing else, and its own check knows pages only."""
    pages = [path for folder in (".", "docs", "docs/*") for path in reference.ROOT.glob(f"{folder}/*.md")]
    links = [(path, link) for path in pages for link in re.findall(r'(?:\]\(|src=")([^)#:"]+)[#)"]', path.read_text())]
    docs = reference.DIRECTORY.parent
    inside = {(path, link) for path, link in links if not path.is_relative_to(docs) or (path.parent / link).resolve().is_relative_to(docs)}
    assert len(links) > 100 and [link for link in links if link not in inside or not (link[0].parent / link[1]).is_file()] == []
