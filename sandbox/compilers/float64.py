"""Finds arithmetic in float64 in PTX, and the lines that it comes from: on many GPUs it is dozens of times as slow as float32, and mostly
it was not meant.  What comes of it is a claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.compilers.nvcc import STANDS_IN

REMARK_LIMIT = 4
_FUNCTION = re.compile(r"\.(?:entry|func)\s")
_BODY = re.compile(r"\.entry\s+([\w$]+)")
_DOUBLE = re.compile(r"\s*(?:@!?%p\d+\s+)?(?:add|sub|mul|mad|fma|div|rcp|sqrt|rsqrt|neg|abs|min|max|cvt)(?:\.\w+)*\.f64[.\s]")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d{1,9})\s[^\n]*?(?:inlined_at\s+(\d+)\s+(\d{1,9})\s.*)?$")
_LITERAL = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])|(?<![\w.])\d+[eE][+-]?\d+(?![\w.])")
_DOUBLE_WORD = re.compile(r"\bdouble\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """Where an instruction comes from: of the files that a compiler noted, the line of the instruction, and of the call that it was inlined
    at. Numbers are 0 where nothing is noted."""

    path: str = ""
    line: int = 0
    caller_path: str = ""
    caller_line: int = 0


def instructions(texts: Sequence[str]) -> dict[str, list[SourceLine]]:
    """Instructions in float64, by the name of the entry whose body they stand in: arithmetic, and conversions to and from it. What a
    function does that is called is nobody's."""
    found: dict[str, list[SourceLine]] = {}
    for text in texts:
        lines = text.splitlines()
        files = {match[1]: match[2].removeprefix(f"{STANDS_IN[1]}/") for match in map(_FILE.match, lines) if match is not None}
        entry, place = None, SourceLine()
        for line in lines:
            if _FUNCTION.search(line):
                entry, place = named[1] if (named := _BODY.search(line)) is not None else None, SourceLine()
            elif (loc := _LOC.match(line)) is not None:
                place = SourceLine(
                    path=files.get(loc[1], ""), line=int(loc[2]), caller_path=files.get(loc[3] or "", ""), caller_line=int(loc[4] or 0)
                )
            elif entry is not None and _DOUBLE.match(line):
                found.setdefault(entry, []).append(place)
    return found


def remarks(texts: Sequence[str], sources: Mapping[str, str], demangled: Callable[[Sequence[str]], Sequence[str]]) -> tuple[str, ...]:
    """Sentences on kernels in CUDA C++ that take no double, and whose source never says `double`: each with the first line that makes one
    all the same. sources: by the paths that the compiler noted."""
    found: dict[str, None] = {}
    entries = instructions(texts)
    for name, places in zip(demangled(list(entries)), entries.values(), strict=True):
        place = next((own for one in places if (own := _own(one, sources)) is not None), None)
        if place is None or _DOUBLE_WORD.search(name) or _DOUBLE_WORD.search(sources[place[0]]):
            continue
        path, number = place
        lines = sources[path].split("\n")
        literal = _LITERAL.search(lines[number - 1].split("//")[0]) if 0 < number <= len(lines) else None
        why = "nothing in the source says `double`"
        if literal is not None:
            why = f"the literal `{literal[0]}` is a double; write `{literal[0]}f`"
        found[f"{path}:{number}: computes in float64: {why}"] = None
    return tuple(found)[:REMARK_LIMIT]


def _own(place: SourceLine, sources: Mapping[str, str]) -> tuple[str, int] | None:
    """The line of the submission's own: what a header computes is asked for where it was inlined."""
    if place.path in sources and place.line:
        return place.path, place.line
    return (place.caller_path, place.caller_line) if place.caller_path in sources and place.caller_line else None
