"""Constants of a Python file are set in its text, and nothing else of it changes."""

from __future__ import annotations

import pytest

from grader.formats.kernelbench import NotALiteral, literal, with_constants


@pytest.mark.parametrize(
    ("source", "values", "wanted"),
    [
        ("a = 1\n", {"a": "2"}, "a = 2\n"),
        ("a = 1  # one\nb = a * 2\n", {"a": "22"}, "a = 22  # one\nb = a * 2\n"),
        ("b = a * 2\n", {"b": "7"}, "b = 7\n"),
        ("a: int = 1\n", {"a": "2"}, "a: int = 2\n"),
        ("D, H = 24, 32\n", {"H": "3"}, "D, H = 24, 3\n"),
        ("D, H = (24,\n        32)\nx = 1\n", {"D": "1", "H": "2", "x": "3"}, "D, H = (1,\n        2)\nx = 3\n"),
        ("a = b = 256  # both\n", {"b": "8"}, "a = b = 256; b = 8  # both\n"),
        ("a, b = size()\n", {"a": "8"}, "a, b = size(); a = 8\n"),
        ("a, *b = 1, 2, 3\n", {"a": "8"}, "a, *b = 1, 2, 3; a = 8\n"),
        ("s = 'é'; a = 1; t = 'ü'\n", {"a": "2", "t": "0"}, "s = 'é'; a = 2; t = 0\n"),
        ("a = '''x\ny'''; b = 1\n", {"a": "2", "b": "3"}, "a = 2; b = 3\n"),
        ("a = 1\na = 2\n", {"a": "3"}, "a = 3\na = 3\n"),
        ("shape = (n, 4)\nn = 1\n", {"shape": "(2, 4)"}, "shape = (2, 4)\nn = 1\n"),
        ("a = 1\n", {"other": "2"}, "a = 1\n"),
    ],
)
def test_a_constant_is_set_where_it_is_assigned(source: str, values: dict[str, str], wanted: str) -> None:
    assert with_constants(source, values) == wanted


@pytest.mark.parametrize("text", ["", "M * 2", "relu", "f()", "1; import os", "1\nimport os", "(" * 1000, "f'{x}'", "'\0'", "a=1"])
def test_what_would_have_to_be_computed_is_no_literal(text: str) -> None:
    """It would be executed with the file, and is not what somebody means who sets a size."""
    with pytest.raises(NotALiteral, match="is not a literal"):
        literal(text)
