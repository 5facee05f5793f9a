"""docs/reference shows the commands, the API, the exit codes and the errors as they are."""

import subprocess
import sys

import pytest

from grader import extensions
from tools import reference

pytestmark = pytest.mark.skipif(not extensions.named(extensions.COMMANDS), reason="the pages hold the commands of the extensions, too")


def test_the_pages_are_what_the_code_makes():
    """In a process of its own: other tests of this one define errors and options."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"], cwd=reference.ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_page_that_differs_is_found(tmp_path):
    """The control: one page has another text, one is missing, one is not made any more."""
    made = reference.pages()
    for name in ("cli.md", "api.md", "emulated-device.md", "old.md"):
        (tmp_path / name).write_text(made.get(name, ""))
    (tmp_path / "cli.md").write_text(made["cli.md"].replace("--problem", "--task"))
    assert reference.stale(tmp_path) == ["cli.md", "exit-codes-and-errors.md", "old.md"]


def test_every_command_method_and_error_is_there():
    made = reference.pages()
    for text in ("`grader-cli rejudge create`", "`grader-server admin keys create`", "`--web-address-limit N`", "[env var: GRADER_SERVER]"):
        assert text in made["cli.md"]
    for text in (
        "#### WatchSubmission",
        "| `score_low` | `optional double` | 19 |",
        "| `VERDICT_WRONG_ANSWER` | 6 |",
        "`map<string, Samples>`",
        "`oneof event: Trial`",
    ):
        assert text in made["api.md"]
    assert "| `QUOTA_EXCEEDED` | RESOURCE_EXHAUSTED | limit, retry_s, period | 3 |" in made["exit-codes-and-errors.md"]
