"""Pages read submitted text in a number of steps that grows with its length."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from grader_extensions.web import submit_page
from grader_extensions.web.report.source_lines import remarks_by_line, shown_sources
from tests.unit.step_counts import call_steps, pattern_steps
from tests.unit.test_linear_text import SOUPS, is_linear, patterns, submitted

READERS: dict[str, Callable[[str], object]] = {
    "C++": lambda text: shown_sources(submitted(text).sources, {}),
    "Python": lambda text: shown_sources(submitted(text, "k.py").sources, {}),
    "remarks": lambda text: remarks_by_line(text, [text], ["k.cu", "k.py"]),
}
PATTERNS = {pattern: where for where, pattern in patterns(submit_page)}


@pytest.mark.parametrize("name", READERS)
def test_a_page_is_made_in_linear_time(name: str) -> None:
    """Lines of Python that are executed, and characters that functions return."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: call_steps(lambda: READERS[name](text)), soup, 200)]


@pytest.mark.parametrize("pattern", PATTERNS, ids=PATTERNS.get)
def test_a_pattern_is_matched_in_linear_time(pattern: re.Pattern[str]) -> None:
    """Characters that a backtracking matcher tries."""
    assert not [soup for soup in SOUPS if not is_linear(lambda text: pattern_steps(pattern, text), soup, 100)]
