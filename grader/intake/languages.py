"""The server's half of the languages: which one a submission is in, and whether its entry point can be there at all.

Only sure misses are reported: a submission that might build goes to the builder, which knows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePosixPath

import tree_sitter_cuda
from tree_sitter import Language as Grammar
from tree_sitter import Parser

from grader.model import SourceFile
from sandbox.protocol.languages import LanguageInfo, languages

PARSED_LIMIT_BYTES = 64 * 1024  # above it comments are taken for code: hostile text takes 10 s a MiB to parse

_CONTINUED_LINE = re.compile(r"\\[ \t]*\r?\n")


def code(sources: Sequence[SourceFile]) -> str:
    """All sources as one text without comments, and with continued lines joined."""
    return _code(tuple(sources))


@lru_cache(maxsize=1)  # what language it is and what it lacks are asked one after the other
def _code(sources: tuple[SourceFile, ...]) -> str:
    left_bytes, texts = PARSED_LIMIT_BYTES, []
    for source in sources:  # the limit is of all of them together
        text = _CONTINUED_LINE.sub("", source.content)
        size_bytes = len(text.encode())
        texts.append(_without_comments(text) if size_bytes <= left_bytes else text)
        left_bytes -= size_bytes if size_bytes <= left_bytes else 0
    return "\n".join(texts)


def detect(sources: Sequence[SourceFile]) -> str | None:
    """The language's name; None where no file is of a known one. A language without a marker is what remains."""
    suffixes = {PurePosixPath(source.path).suffix for source in sources}
    fitting = [one for one in languages().values() if not suffixes.isdisjoint(one.suffixes)]
    if not fitting:
        return None
    first = min(fitting, key=lambda one: one.is_c)  # a Python module may bring CUDA files along
    rivals = [one for one in fitting if one.suffixes == first.suffixes]
    marked = [one for one in rivals if one.marker is not None and one.marker.search(_text(one, sources))]
    return next((one.name for one in (*marked, *rivals) if one in marked or one.marker is None), None)


def missing_entry(language: str, sources: Sequence[SourceFile], entry: str) -> str | None:
    """What to do about an entry point that is surely not there; None where it may be."""
    known = languages().get(language)
    return None if known is None else known.missing_entry(_text(known, sources), entry)


def _text(language: LanguageInfo, sources: Sequence[SourceFile]) -> str:
    return code(sources) if language.is_c else "\n".join(source.content for source in sources)


def _without_comments(content: str) -> str:
    data = content.encode()
    if b"//" not in data and b"/*" not in data:
        return content
    kept, position = [], 0
    for start, end in _comments(data):
        kept += [data[position:start], b" "]
        position = end
    return b"".join([*kept, data[position:]]).decode(errors="replace")


def _comments(data: bytes) -> list[tuple[int, int]]:
    cursor = Parser(Grammar(tree_sitter_cuda.language())).parse(data).walk()
    found, descending = [], True
    while True:  # by hand and not by recursion: the depth is the submitter's choice
        node = cursor.node
        if descending and node is not None and node.type == "comment" and not _in_directive(data, node.start_byte):
            found.append((node.start_byte, node.end_byte))
        if descending and cursor.goto_first_child():
            continue
        if cursor.goto_next_sibling():
            descending = True
        elif cursor.goto_parent():
            descending = False
        else:
            return found


def _in_directive(data: bytes, position: int) -> bool:
    # The grammar sees a comment in `#define GLOB "a/*"`.
    return data[data.rfind(b"\n", 0, position) + 1 : position].lstrip().startswith(b"#")
