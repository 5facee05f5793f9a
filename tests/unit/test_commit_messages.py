"""Which commit messages are accepted."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOOK = ROOT / ".githooks" / "commit-msg"
problems = runpy.run_path(str(HOOK))["problems"]
GOOD = "Check commit messages\n\nA long subject hides a second change.\n"


def test_a_good_message_breaks_no_rule() -> None:
    """Nor do comments that git removes, nor commits that git has worded."""
    assert problems(GOOD) == problems(f"{GOOD}\n# On branch main;\n") == problems("Merge branch 'main'") == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (f"{'Check ' * 11}\n\nWhy.", "66 characters"),
        ("check messages\n\nWhy.", "upper-case"),
        ("Check messages.\n\nWhy.", "dot"),
        ("Check messages; sort files\n\nWhy.", "semicolon"),
        ("Check messages\nWhy.\n", "not blank"),
        ("Check messages\n", "no body"),
        ("", "upper-case"),
    ],
)
def test_a_message_that_breaks_a_rule_is_refused(message: str, problem: str) -> None:
    """The text names the rule."""
    assert problem in " ".join(problems(message))


def test_git_calls_the_hook(tmp_path: Path) -> None:
    """By the path that `make setup-dev` sets; a bad message makes no commit."""
    settings = ["-c", f"core.hooksPath={HOOK.parent}", "-c", "user.name=n", "-c", "user.email=e@example.com"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(*words: str) -> int:
        return subprocess.run(["git", *settings, *words], cwd=tmp_path, env=environment, capture_output=True, check=False).returncode

    assert git("init", "-q") == 0
    assert git("commit", "--allow-empty", "-m", "bad.") != 0
    assert git("commit", "--allow-empty", "-m", GOOD) == 0
    checked = subprocess.run([sys.executable, HOOK], cwd=tmp_path, env=environment, check=False)
    assert checked.returncode == 0
