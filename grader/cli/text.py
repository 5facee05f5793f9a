"""Untrusted text on a terminal.  Everything that a kernel, a compiler or a server wrote goes through here before it is printed."""

from __future__ import annotations

from rich.text import Text

from grader.views.sanitize import escape_unprintable, one_line

__all__ = ["escape_unprintable", "one_line", "plain"]


def plain(text: str, style: str = "") -> Text:
    """Untrusted text for rich: no control characters, no markup, no emoji codes."""
    return Text(escape_unprintable(text), style=style)
