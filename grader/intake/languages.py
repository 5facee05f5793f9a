"""The server's half of the languages: which one a submission is in, and whether its entry point can be there at all.

Only sure misses are reported: a submission that might build goes to the builder, which knows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

import tree_sitter_cuda
from tree_sitter import Language as Grammar
from tree_sitter import Parser

from grader.model import SourceFile

COMPILED_SUFFIXES = (".cu", ".cpp", ".cc", ".cxx")
PYTHON_SUFFIX = ".py"
SUFFIXES = (*COMPILED_SUFFIXES, PYTHON_SUFFIX)
PARSED_LIMIT_BYTES = 64 * 1024  # above it comments are taken for code: hostile text takes 10 s a MiB to parse

_REGISTERS_MODULE = re.compile(r"PYBIND11_|TORCH_LIBRARY|TORCH_EXTENSION_NAME|PyInit_|PyModuleDef|pybind11")
# With these a name may be made of parts, or linked without being spelled: say nothing then.
_MAKES_NAMES = re.compile(r"##|%:%:|\basm\b|__asm")
# Without one of these no name comes into being; what does not even parse has them in most cases, and the builder has the line.
_MAKES_PYTHON_NAMES = re.compile(r"\b(?:def|class|import|for|with|exec|eval|globals|locals|vars|setattr|del)\b|=")
_CONTINUED_LINE = re.compile(r"\\[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class Language:
    """A language that submissions may be in. missing_entry takes the code, where it is C++ without comments, and the entry's name.

    most_files: how many files a submission may have; 0: as many as any.
    """

    name: str
    missing_entry: Callable[[str, str], str | None]
    is_c: bool = True
    most_files: int = 0


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
    """The language's name; None where no file is of a known one."""
    suffixes = {PurePosixPath(source.path).suffix for source in sources}
    if PYTHON_SUFFIX in suffixes:
        return "python"
    if suffixes.isdisjoint(COMPILED_SUFFIXES):
        return None
    text = code(sources)
    return "torch_extension" if _REGISTERS_MODULE.search(text) or "torch/extension.h" in text else "cuda"


def missing_entry(language: str, sources: Sequence[SourceFile], entry: str) -> str | None:
    """What to do about an entry point that is surely not there; None where it may be."""
    known = LANGUAGES.get(language)
    if known is None:
        return None
    return known.missing_entry(code(sources) if known.is_c else "\n".join(source.content for source in sources), entry)


def _missing_cuda_entry(text: str, entry: str) -> str | None:
    if _MAKES_NAMES.search(text):
        return None
    if not re.search(rf"\b{re.escape(entry)}\b", text):
        return f'nothing is named {entry!r}; define the function `extern "C" void {entry}(...)`, or set `entry` to the name that yours has'
    if '"C"' not in text:
        return f'{entry!r} has no C linkage, so it can not be found by name; declare it `extern "C"`'
    return None


def _missing_torch_entry(text: str, entry: str) -> str | None:
    if _MAKES_NAMES.search(text) or _REGISTERS_MODULE.search(text):
        return None
    return (
        'no Python module is registered; add `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }`, '
        'or set `language` to `cuda` for a plain `extern "C"` function'
    )


def _missing_python_entry(text: str, entry: str) -> str | None:
    if _MAKES_PYTHON_NAMES.search(text):
        return None
    return f"the module defines nothing; define a function `{entry}` that takes the inputs and returns the outputs, or a class `ModelNew`"


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


LANGUAGES = {
    "cuda": Language("cuda", _missing_cuda_entry),
    "torch_extension": Language("torch_extension", _missing_torch_entry),
    "python": Language("python", _missing_python_entry, is_c=False, most_files=1),
}
