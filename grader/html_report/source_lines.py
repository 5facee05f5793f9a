"""Sources line by line, with the classes of a highlighter and what the compiler says of each line.  Sources are untrusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape
from pygments.lexer import Lexer
from pygments.lexers import CppLexer, CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String, _TokenType

from grader.v1 import submission_pb2
from grader.views.sanitize import escape_unprintable

SHOWN_CHARS = 400_000  # of all sources of a submission
# A highlighter's patterns take long on long lines that were made for it; plain text is shown then.
HIGHLIGHTED_CHARS, HIGHLIGHTED_LINE = 100_000, 1_000
_LEXERS: Mapping[str, type[Lexer]] = {
    **dict.fromkeys(("cu", "cuh"), CudaLexer),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp"), CppLexer),
    "py": PythonLexer,
}
_CLASSES = (
    (Comment.Preproc, "t-p"),
    (Comment, "t-c"),
    (Keyword, "t-k"),
    (String, "t-s"),
    (Number, "t-n"),
    (Name.Function, "t-f"),
    (Name.Builtin, "t-k"),
)


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
    """The files in their order, SHOWN_CHARS of them. remarks: by path and line number."""
    found, room = [], SHOWN_CHARS
    for file in files:
        content = file.content[:room]
        room -= len(content)
        of_file = remarks.get(file.path, {})
        lines = [NumberedLine(number, code, of_file.get(number, ())) for number, code in enumerate(_coded(file.path, content), 1)]
        found.append(ShownSource(file.path, lines, len(content) < len(file.content)))
    return found


@lru_cache(maxsize=16)
def _coded(path: str, content: str) -> tuple[Markup, ...]:
    """The lines of a file as HTML."""
    text = escape_unprintable(content)
    lines = text.split("\n")
    lexer = _LEXERS.get(path.rpartition(".")[2].lower())
    if lexer is None or len(text) > HIGHLIGHTED_CHARS or any(len(line) > HIGHLIGHTED_LINE for line in lines):
        return tuple(escape(line) for line in lines)
    coded = [Markup()]
    for kind, words in lexer(stripnl=False, ensurenl=False).get_tokens(text):
        first, *others = words.split("\n")
        coded[-1] += _token(kind, first)
        coded += [_token(kind, one) for one in others]
    return tuple(coded)


def _token(kind: _TokenType, words: str) -> Markup:
    name = next((name for among, name in _CLASSES if kind in among), "")
    return Markup('<span class="{}">{}</span>').format(name, words) if name and words else escape(words)
