"""Makes untrusted text safe to show.  Everything that a kernel, a compiler or a caller wrote goes through here before people see it."""

from __future__ import annotations

import unicodedata

# Controls, formats (bidirectional overrides, zero width), surrogates, private use, unassigned, line and paragraph separators:
# what can move a cursor, hide text or reorder it.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def escape_unprintable(text: str, *, most_chars: int | None = None) -> str:
    """Write every character that a terminal would obey, or not show, as its escape; newlines stay, tabs become spaces."""
    lines = text.replace("\r\n", "\n").expandtabs(4)
    cut = lines if most_chars is None or len(lines) <= most_chars else lines[:most_chars] + " [...]"
    # isprintable is quick, and strict: most lines need no look at each character.
    return "\n".join(line if line.isprintable() else "".join(map(_escape, line)) for line in cut.split("\n"))


def one_line(text: str, *, most_chars: int = 300) -> str:
    """The same on one line."""
    return escape_unprintable(" ".join(text.split()), most_chars=most_chars)


def _escape(character: str) -> str:
    if unicodedata.category(character) not in _UNSEEN:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
