"""Count the steps of code that reads a text, so that a test of its complexity needs no clock."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]  # the same tree that `re` compiles
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_CATEGORIES = {
    op.CATEGORY_DIGIT: str.isdecimal,
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_WORD: lambda character: character.isalnum() or character == "_",
}
_NEGATED = {
    op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT,
    op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
    op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
}


def call_steps(call: Callable[[], object]) -> int:
    """Count the lines of Python that a call executes, and the characters that its functions return, but no finalizers of garbage."""
    count = 0

    def trace(frame: Any, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        if event == "return" and isinstance(argument, (str, bytes)):
            count += len(argument)
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def pattern_steps(pattern: re.Pattern[str], text: str, spans: list[tuple[int, int]] | None = None) -> int:
    """Count the characters and places that a backtracking matcher tries to find all matches in a text. spans: gets where they are."""
    matcher, place = _Matcher(pattern, text), 0
    while place <= len(text):
        end = next(matcher.ends(matcher.tree, place), None)
        if end is None or end == place:
            place += 1
            continue
        if spans is not None:
            spans.append((place, end))
        place = end
    return matcher.steps


def _plain(tree: Any) -> Any:
    """The tree in lists and tuples, whose parts are read in a tenth of the time."""
    if isinstance(tree, parser.SubPattern | list):
        return [_plain(part) for part in tree]
    return tuple(_plain(part) for part in tree) if isinstance(tree, tuple) else tree


class _Matcher:
    """A matcher like that of `re`, which goes back in a repetition by whole turns only."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        source = pattern.pattern
        self.tree = _plain(parser.parse(source if isinstance(source, str) else source.decode("latin-1"), pattern.flags & ~re.LOCALE))
        self.text, self.steps, self.groups = text, 0, dict[int, tuple[int, int]]()
        self.ignores_case = bool(pattern.flags & re.IGNORECASE)
        self.flags = pattern.flags

    def ends(self, nodes: Sequence[Any], place: int) -> Iterator[int]:
        """Yield the places where a match of these nodes, one after the other, can end."""
        if not nodes:
            yield place
            return
        for end in self.node_ends(nodes[0], place):
            yield from self.ends(nodes[1:], end)

    def node_ends(self, node: Any, place: int) -> Iterator[int]:
        """Yield the places where a match of a node can end, the preferred place first."""
        self.steps += 1
        kind, argument = node
        if kind is op.BRANCH:
            for branch in argument[1]:
                yield from self.ends(branch, place)
        elif kind is op.SUBPATTERN:
            for end in self.ends(argument[3], place):
                self.groups[argument[0]] = (place, end)
                yield end
        elif kind is op.ATOMIC_GROUP:
            yield from list(self.ends(argument, place))[:1]
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            if (self.looks(*argument, place)) == (kind is op.ASSERT):
                yield place
        elif kind is op.AT:
            if self.is_at(argument, place):
                yield place
        elif kind is op.GROUPREF:
            start, end = self.groups[argument]
            if self.text.startswith(self.text[start:end], place):
                yield place + end - start
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            yield from self.repeated(kind, *argument, place)
        elif place < len(self.text) and self.takes(kind, argument, self.text[place]):
            yield place + 1

    def looks(self, direction: int, nodes: Any, place: int) -> bool:
        starts = [place] if direction > 0 else range(max(place - 10, 0), place + 1)
        return any(direction > 0 or end == place for start in starts for end in self.ends(nodes, start))

    def repeated(self, kind: Any, least: int, limit: Any, body: Any, place: int) -> Iterator[int]:
        ends = [place]
        if kind is op.MIN_REPEAT:
            while True:
                if len(ends) > least:
                    yield ends[-1]
                end = next(self.ends(body, ends[-1]), None) if len(ends) <= int(limit) else None
                if end is None or end == ends[-1]:
                    return
                ends.append(end)
        while len(ends) <= int(limit) and (end := next(self.ends(body, ends[-1]), ends[-1])) != ends[-1]:
            ends.append(end)
        candidates = ends[least:]
        for end in reversed(candidates[-1:] if kind is op.POSSESSIVE_REPEAT else candidates):
            self.steps += 1
            yield end

    def is_at(self, position: Any, place: int) -> bool:
        word = _CATEGORIES[op.CATEGORY_WORD]
        if position in (op.AT_BOUNDARY, op.AT_NON_BOUNDARY):
            sides = [bool(side) and word(side) for side in (self.text[place - 1 : place] if place else "", self.text[place : place + 1])]
            return (sides[0] != sides[1]) == (position is op.AT_BOUNDARY)
        if position in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            return not place or (bool(self.flags & re.MULTILINE) and position is op.AT_BEGINNING and self.text[place - 1] == "\n")
        return place == len(self.text) or (bool(self.flags & re.MULTILINE) and self.text[place] == "\n")

    def takes(self, kind: Any, argument: Any, character: str) -> bool:
        if self.ignores_case:
            character = character.lower()
        if kind is op.ANY:
            return character != "\n" or bool(self.flags & re.DOTALL)
        if kind is op.IN:
            negated = argument[0][0] is op.NEGATE
            return any(self.takes(*item, character) for item in argument[negated:]) != negated
        if kind is op.RANGE:
            return bool(argument[0] <= ord(character) <= argument[1])
        if kind is op.CATEGORY:
            return bool(_CATEGORIES[_NEGATED.get(argument, argument)](character)) != (argument in _NEGATED)
        return (ord(character) == argument) == (kind is op.LITERAL)
