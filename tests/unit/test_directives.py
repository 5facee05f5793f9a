"""Lines of a source that say how it is built and called."""

from __future__ import annotations

import pytest

from sandbox.protocol.directives import directives_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("// grader: flags=-DA=1 -std=c++20", ["-DA=1 -std=c++20"]),
        ("int x;\r\n \t#grader:problem=p flags=-DA  arguments=y, x\r\n", ["-DA"]),
        ("// grader: flags=-DA flags=-DB\n// grader: flags=\n", ["-DA", "-DB", ""]),
        ("// grader: mode=test flags=-DX mode=test", ["-DX mode=test"]),
        ("int x;  // grader: flags=-DA\n// a grader: flags=-DA\n/* grader: flags=-DA */\n//\ngrader: flags=-DA", []),
        ("// grader: problem=p -flags=-DA noflags=-DA", []),
    ],
)
def test_a_value_ends_at_the_next_key_or_with_its_line(text, values):
    """In a comment of its own, in either style; a key that nobody reads belongs to the value before it."""
    assert directives_of(text, "flags") == values
