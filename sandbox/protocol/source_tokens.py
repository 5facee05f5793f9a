"""Splits CUDA C++ and Python into comments, strings, words and the rest, in time that is linear in the length of the source.  Pure.

Sources are a stranger's, and server and judge have other work, so they parse none. Tree-sitter takes minutes for 65 kB of `a::b<c>::`,
`tokenize` for 32 kB of spaces, `ast` a GB for a MiB, and Pygments 98 s for 20,000 empty lines. Here a repetition without a limit is
possessive, so that it never goes back, and what is not closed goes to the end of the text, so that no text is read twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

COMMENT, STRING = "comment", "string"  # these, and directive, word and number, are what a token may be
_NUMBER = r"\.?[0-9](?:[eEpP][+-]|'?[0-9A-Za-z_.])*+"

_STRINGS = "|".join(rf"{quote}(?:[^{quote}\\\n]|\\[\s\S])*+{quote}?" for quote in "\"'")
_TRIPLES = "|".join(rf"{quote * 3}(?:[^{quote}\\]|\\[\s\S]|{quote}(?!{quote * 2}))*+(?:{quote * 3})?" for quote in "\"'")
C = re.compile(
    r"(?P<comment>//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?)"
    r"|(?P<string>\b(?:u8|[uUL])?R\"(?P<delimiter>[^()\\\s\"]{0,16})\((?:[^)]|\)(?!(?P=delimiter)\"))*+(?:\)(?P=delimiter)\")?"
    rf"|{_STRINGS})"
    r"|(?P<directive>^[ \t]*+\#[ \t]*+[a-z]++)|(?<=include)[ \t]*+<[^>\n]*+>?"
    rf"|(?P<word>[A-Za-z_][A-Za-z0-9_]*+)|(?P<number>{_NUMBER})",
    re.MULTILINE,
)
PYTHON = re.compile(
    rf"(?P<comment>\#[^\n]*+)|(?P<string>(?<![A-Za-z0-9_])[A-Za-z]{{0,2}}(?:{_TRIPLES}|{_STRINGS}))"
    r"|(?P<directive>^ *+@[A-Za-z_][A-Za-z0-9_.]*+)"
    rf"|(?P<word>[A-Za-z_][A-Za-z0-9_]*+)|(?P<number>{_NUMBER})",
    re.MULTILINE,
)


def tokens(grammar: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """The text in parts, each with what it is; "" for what has no name."""
    place = 0
    for token in grammar.finditer(text):
        start, end = token.span()
        if start > place:
            yield "", text[place:start]
        yield token.lastgroup or "", token[0]
        place = end
    if place < len(text):
        yield "", text[place:]
