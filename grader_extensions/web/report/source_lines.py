"""Sources line by line, with the classes of a highlighter and what compiler and sanitizer say of each line.  Sources are untrusted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from markupsafe import Markup, escape

from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import escape_unprintable, one_line
from sandbox.protocol.source_tokens import PYTHON, C, tokens

# Of all sources of a submission. A line costs a hundred bytes of a page, a highlighted character up to thirty.
SHOWN_CHARS, SHOWN_LINES, SHOWN_FILES = 400_000, 20_000, 100
HIGHLIGHTED_CHARS = 100_000
_CLASSES = {"comment": "t-c", "string": "t-s", "directive": "t-p", "number": "t-n"}
_KEYWORD, _FUNCTION = "t-k", "t-f"
_C_WORDS = (
    "alignas alignof asm auto bool break case catch char class concept const const_cast constexpr continue decltype default delete do "
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "nullptr operator private protected public register reinterpret_cast requires return short signed sizeof static static_assert "
    "static_cast struct switch template this throw true try typedef typename union unsigned using virtual void volatile while __global__ "
    "__device__ __host__ __shared__ __constant__ __managed__ __restrict__ __forceinline__ __noinline__ __launch_bounds__ half __half "
    "__half2 __nv_bfloat16 int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t threadIdx blockIdx blockDim gridDim "
    "warpSize"
)
_PYTHON_WORDS = (
    "False None True and as assert async await break class continue def del elif else except finally for from global if import in is "
    "lambda nonlocal not or pass raise return try while with yield match case self"
)
_GRAMMARS = {**dict.fromkeys(("cu", "cuh", "c", "cc", "cpp", "cxx", "h", "hpp"), C), "py": PYTHON}
_KEYWORDS = {C: frozenset(_C_WORDS.split()), PYTHON: frozenset(_PYTHON_WORDS.split())}


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line. number: from 1; code: escaped, with the highlighter's classes; remarks: of compiler and sanitizer."""

    number: int
    code: Markup
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True)
class ShownSource:
    """A file. anchor: of its lines, before their numbers; cut: its end is left out."""

    path: str
    anchor: str
    lines: Sequence[NumberedLine]
    cut: bool


def shown_sources(files: Sequence[submission_pb2.SourceFile], remarks: Mapping[str, Sequence[str]]) -> list[ShownSource]:
    """The files in their order, as much as the limits allow. remarks: by place, such as `kernel.cu:12`."""
    sources, chars, line_count, highlighted = [], SHOWN_CHARS, SHOWN_LINES, HIGHLIGHTED_CHARS
    for index, file in enumerate(files[:SHOWN_FILES], 1):
        content = "\n".join(file.content[:chars].split("\n")[: max(line_count, 0)])
        coded = _coded(file.path, content, len(content) <= highlighted)
        chars, line_count, highlighted = chars - len(content), line_count - len(coded), highlighted - len(content)
        lines = [NumberedLine(number, code, remarks.get(f"{file.path}:{number}", ())) for number, code in enumerate(coded, 1)]
        sources.append(ShownSource(file.path, "L" if index == 1 else f"F{index}L", lines, len(content) < len(file.content)))
    return sources


@lru_cache(maxsize=16)
def _coded(path: str, content: str, highlight: bool) -> tuple[Markup, ...]:
    text = escape_unprintable(content)
    lines = [list[Markup]()]  # joined at the end: a sum of strings takes quadratic time, 25 s for one line of 100 kB
    for kind, words in classed(path, text) if highlight else [("", text)]:
        first, *following = words.split("\n")
        lines[-1].append(_token(kind, first))
        lines += [[_token(kind, line)] for line in following]
    return tuple(Markup().join(parts) for parts in lines)


def classed(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The text in parts, each with the class of a highlighter; "" for what has none. path: tells the language."""
    grammar = _GRAMMARS.get(path.rpartition(".")[2].lower())
    if grammar is None:
        yield "", text
        return
    end = 0
    for kind, part in tokens(grammar, text):
        end += len(part)
        if kind == "word":
            yield _KEYWORD if part in _KEYWORDS[grammar] else _FUNCTION if text.startswith("(", end) else "", part
        else:
            yield _CLASSES.get(kind, ""), part


def _token(name: str, words: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(name, words) if name and words else escape(words)


def line_link(sources: Iterable[ShownSource], place: str) -> str:
    """The address of a line such as `kernel.cu:12` on the page; "" where it is not shown."""
    path, _, line = place.rpartition(":")
    source = next((source for source in sources if source.path == path), None)
    return f"#{source.anchor}{line}" if source and line.isdecimal() and 0 < int(line) <= len(source.lines) else ""


REMARKS_OF_LINE = 8


def remarks_by_place(report: report_pb2.Report) -> dict[str, list[str]]:
    """Remarks of compiler and sanitizer on each line, by its place, such as `kernel.cu:12`."""
    remarks = [(f"{note.file}:{note.line}", f"{note.severity}: {note.message}") for note in report.build.diagnostics]
    for text in (*report.build.remarks, report.build.mismatch):
        place, _, words = text.partition(": ")
        remarks.append((place, words))
    for finding in report.profile.findings:
        words = f"{formatting.words(finding, 'severity')}: {finding.message}"
        remarks += [(place, words) for place in formatting.sanitizer_places(finding)]
    by_place: dict[str, list[str]] = defaultdict(list)
    for place, words in remarks:
        if one_line(words) not in by_place[place] and len(by_place[place]) < REMARKS_OF_LINE:
            by_place[place].append(one_line(words))
    return by_place
