"""Sources line by line, with the classes of a highlighter and what the compiler says of each line.  Sources are untrusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from grader.v1 import submission_pb2
from grader.views.sanitize import escape_unprintable
from sandbox.protocol.source_tokens import grammar_of, tokens

# Of all sources of a submission. A line costs a hundred bytes of a page, a highlighted character up to thirty.
SHOWN_CHARS, SHOWN_LINES, SHOWN_FILES = 400_000, 20_000, 100
HIGHLIGHTED_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """One line. number: from 1; code: escaped, with the highlighter's classes; remarks: of the compiler."""

    number: int
    code: Markup
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownSource:
    """One file. cut: whether its end is left out."""

    path: str
    lines: Sequence[NumberedLine]
    cut: bool


def shown_sources(files: Sequence[submission_pb2.SourceFile], remarks: Mapping[str, Mapping[int, Sequence[str]]]) -> list[ShownSource]:
    """The files in their order, as much as the limits allow. remarks: by path and line number."""
    found, chars, line_count, highlighted = [], SHOWN_CHARS, SHOWN_LINES, HIGHLIGHTED_CHARS
    for file in files[:SHOWN_FILES]:
        content = "\n".join(file.content[:chars].split("\n")[: max(line_count, 0)])
        coded = _coded(file.path, content, len(content) <= highlighted)
        chars, line_count, highlighted = chars - len(content), line_count - len(coded), highlighted - len(content)
        of_file = remarks.get(file.path, {})
        lines = [NumberedLine(number, code, of_file.get(number, ())) for number, code in enumerate(coded, 1)]
        found.append(ShownSource(file.path, lines, len(content) < len(file.content)))
    return found


@lru_cache(maxsize=16)
def _coded(path: str, content: str, highlight: bool) -> tuple[Markup, ...]:
    """The lines of a file as HTML."""
    text = escape_unprintable(content)
    grammar = grammar_of(path) if highlight else None
    if grammar is None:
        return tuple(escape(line) for line in text.split("\n"))
    lines = [list[Markup]()]  # joined at the end: a sum of strings takes quadratic time, 25 s for one line of 100 kB
    for kind, words in tokens(grammar, text):
        first, *others = words.split("\n")
        lines[-1].append(_token(kind, first))
        lines += [[_token(kind, line)] for line in others]
    return tuple(Markup().join(parts) for parts in lines)


def _token(name: str, words: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(name, words) if name and words else escape(words)
