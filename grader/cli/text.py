"""Untrusted text on a terminal.  Everything that a kernel, a compiler or a server wrote goes through here before it is printed."""

from __future__ import annotations

import sys

from rich.text import Text

from grader.views.sanitize import escape_unprintable, one_line

__all__ = ["escape_unprintable", "one_line", "plain", "print_untrusted"]


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for rich: no control characters, no markup, no emoji codes."""
    return Text(escape_unprintable(text), style=style)


def print_untrusted(text: str) -> None:
    """Print untrusted text as whole lines. A pipe gets it as it is; on a terminal, which would obey control characters, it is escaped."""
    shown = escape_unprintable(text) if sys.stdout.isatty() else text
    print(shown, end="" if shown.endswith("\n") else "\n")
