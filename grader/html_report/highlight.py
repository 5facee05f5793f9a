"""Colours CUDA C++ and Python, in time that is linear in the length of the source.  Pure.

Sources are a stranger's, and a page is made while a server does other work. Pygments takes 98 s for a CUDA source of 20,000 empty lines,
because patterns of its lexer for C go over lines. Here no pattern has a repetition within a repetition that could match the same text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

COMMENT, KEYWORD, STRING, NUMBER, FUNCTION, DIRECTIVE = "t-c", "t-k", "t-s", "t-n", "t-f", "t-p"
_NUMBER = r"\.?[0-9](?:[eEpP][+-]|[0-9A-Za-z_.'])*"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_C_WORDS = _words(
    "alignas alignof asm auto bool break case catch char class concept const const_cast constexpr continue decltype default delete do "
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept "
    "nullptr operator private protected public register reinterpret_cast requires return short signed sizeof static static_assert "
    "static_cast struct switch template this throw true try typedef typename union unsigned using virtual void volatile while __global__ "
    "__device__ __host__ __shared__ __constant__ __managed__ __restrict__ __forceinline__ __noinline__ __launch_bounds__ half __half "
    "__half2 __nv_bfloat16 int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t threadIdx blockIdx blockDim gridDim "
    "warpSize"
)
_PYTHON_WORDS = _words(
    "False None True and as assert async await break class continue def del elif else except finally for from global if import in is "
    "lambda nonlocal not or pass raise return try while with yield match case self"
)


@dataclass(frozen=True, slots=True)
class _Grammar:
    """tokens: its groups are classes, or `open`, `raw` and `triple`, which end at another text. words: the keywords."""

    tokens: re.Pattern[str]
    words: frozenset[str]


_C = _Grammar(
    re.compile(
        r"(?P<comment>//[^\n]*)|(?P<open>/\*)|(?P<raw>\b(?:u8|[uUL])?R\"(?P<delimiter>[^()\\\s\"]{0,16})\()"
        r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?)"
        r"|(?P<directive>^ *#[ ]*[a-z]+)"
        rf"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>{_NUMBER})",
        re.MULTILINE,
    ),
    _C_WORDS,
)
_PYTHON = _Grammar(
    re.compile(
        r"(?P<comment>#[^\n]*)|(?P<triple>(?<![A-Za-z0-9_])[A-Za-z]{0,2}(?:\"\"\"|'''))"
        r"|(?P<string>(?<![A-Za-z0-9_])[A-Za-z]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"?|'(?:[^'\\\n]|\\.)*'?))"
        r"|(?P<directive>^ *@[A-Za-z_][A-Za-z0-9_.]*)"
        rf"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>{_NUMBER})",
        re.MULTILINE,
    ),
    _PYTHON_WORDS,
)
_GRAMMARS: Mapping[str, _Grammar] = {
    **dict.fromkeys(("cu", "cuh", "c", "cc", "cpp", "cxx", "h", "hpp"), _C),
    "py": _PYTHON,
}
_OF_GROUP = {"comment": COMMENT, "string": STRING, "directive": DIRECTIVE, "number": NUMBER}


def known(path: str) -> bool:
    """Whether sources of this name are coloured."""
    return _suffix(path) in _GRAMMARS


def tokens(path: str, text: str) -> Iterator[tuple[str, str]]:
    """The text in parts, each with its class; "" for what has none. KeyError where the name is not known."""
    grammar = _GRAMMARS[_suffix(path)]
    place = 0
    while found := grammar.tokens.search(text, place):
        if found.start() > place:
            yield "", text[place : found.start()]
        kind, end = _classified(grammar, found, text)
        yield kind, text[found.start() : end]
        place = end
    if place < len(text):
        yield "", text[place:]


def _classified(grammar: _Grammar, found: re.Match[str], text: str) -> tuple[str, int]:
    """The class of a token, and where it ends; what is not closed goes to the end of the text."""
    group = found.lastgroup or ""
    if group == "word":
        if found[0] in grammar.words:
            return KEYWORD, found.end()
        return (FUNCTION if text.startswith("(", found.end()) else ""), found.end()
    match group:
        case "open":
            closing = "*/"
        case "raw":
            closing = f'){found["delimiter"]}"'
        case "triple":
            closing = found[0][-3:]
        case _:
            return _OF_GROUP[group], found.end()
    end = text.find(closing, found.end())
    return (COMMENT if group == "open" else STRING), len(text) if end < 0 else end + len(closing)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()
