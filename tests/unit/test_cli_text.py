"""Untrusted text can't steer a terminal."""

import io

import pytest
from rich.console import Console

from grader.cli.output import plain
from grader.views.sanitize import escape_unprintable, one_line


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b[31mred", "\\x1b[2J\\x1b[31mred"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x9b31m", "\\x9b31m"),
        ("over\rwritten", "over\\x0dwritten"),
        ("a\bb", "a\\x08b"),
        ("left\u202eright", "left\\u202eright"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\ud800", "\\ud800"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_shown_as_an_escape(hostile: str, shown: str) -> None:
    """Control, format, surrogate and unassigned characters come out as text."""
    assert escape_unprintable(hostile) == shown


def test_ordinary_text_is_left_alone() -> None:
    """Letters of any script, newlines and tabs (as spaces) stay readable; what is cut, or put on one line, is so."""
    assert escape_unprintable("größer µs 日本 😀\n\ttab\r\n") == "größer µs 日本 😀\n    tab\n"
    assert escape_unprintable("abcdef", most_chars=3) == "abc [...]"
    assert one_line("a\n\n  b\r\nc\u2028d") == "a b c d"


def test_rich_markup_in_untrusted_text_is_text() -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=120).print(plain("[bold red]ACCEPTED[/] [link=x]y[/link] :smile: \x1b[0m"))
    assert "[bold red]ACCEPTED[/] [link=x]y[/link] :smile: \\x1b[0m" in out.getvalue()
    assert "\x1b[0m" not in out.getvalue().replace("\x1b[0m\n", "")
