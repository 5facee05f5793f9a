"""Which commit messages are accepted."""

import runpy
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
    assert problem in " ".join(problems(message))
