"""Says where the wrong elements of an output are, and what that points to, a sentence each.  Pure; decides nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from sandbox.protocol import wire
from sandbox.protocol.wire import IndexRange, PatternKind

TILES = (1024, 512, 256, 128, 64, 32, 16, 8, 4)  # of blocks, of tensor cores, of vector loads
VECTORS = (2, 4, 8, 16)
WARP = 32


def describe(pattern: wire.WrongPattern) -> str:
    """Where the wrong elements are; "" where the share of wrong elements says it, and for what only older reports have."""
    if _is_of_older_reports(pattern):
        return ""
    elements = f"The {'unwritten' if pattern.unwritten else 'wrong'} elements of '{pattern.output}' are"
    match pattern.kind:
        case PatternKind.EVERYTHING | PatternKind.NONZERO | PatternKind.SCATTERED:
            return ""
        case PatternKind.REGION | PatternKind.LAST_ROWS_OR_COLUMNS:
            joint = " and in " if pattern.kind is PatternKind.REGION else " or in "
            return f"{elements} in {joint.join(_indices(span, pattern.shape) for span in pattern.ranges)}."
        case PatternKind.BORDER:
            return f"{elements} in {' or in '.join(_ends(span, pattern.shape) for span in pattern.ranges)}."
        case PatternKind.UPPER_TRIANGLE | PatternKind.LOWER_TRIANGLE:
            return f"{elements} those {'above' if pattern.kind is PatternKind.UPPER_TRIANGLE else 'below'} the diagonal."
        case PatternKind.DIAGONAL:
            return f"{elements} those on the diagonal."
    assert_never(pattern.kind)


def _is_of_older_reports(pattern: wire.WrongPattern) -> bool:
    """Return whether it is of tiles: the first so many indices of every step."""
    return any(span.width > 1 for span in pattern.ranges)


def likely_cause(trial: wire.Trial) -> str:
    """Return the cause that the pattern points to; "" where it could have several causes, or where a better one is known."""
    pattern = trial.wrong_pattern
    if pattern is None or trial.symptom is not None or trial.cuda_error or _is_of_older_reports(pattern):
        return ""
    unwritten, ranges = pattern.unwritten, pattern.ranges
    match pattern.kind:
        case PatternKind.EVERYTHING if unwritten and pattern.count == math.prod(pattern.shape):
            return "The launch likely failed, or the kernel returned early."
        case PatternKind.REGION if len(ranges) == 1:
            return _cause_of_range(ranges[0], pattern.shape, unwritten=unwritten)
        case PatternKind.LAST_ROWS_OR_COLUMNS:
            return _cause_of_last(ranges, unwritten=unwritten)
        case PatternKind.BORDER if unwritten:
            return "The kernel likely skips elements that have neighbours outside of the input; handle the padding."
        case PatternKind.BORDER:
            return "Neighbours outside of the input are likely read wrongly; check the padding and the bounds of the loads."
        case PatternKind.UPPER_TRIANGLE | PatternKind.LOWER_TRIANGLE if unwritten:
            return "The kernel likely skips these elements; write all of them, zeros too."
        case PatternKind.UPPER_TRIANGLE | PatternKind.LOWER_TRIANGLE:
            return "A comparison of row and column, such as a mask, is likely wrong."
        case PatternKind.DIAGONAL:
            return "A comparison of row and column, such as a mask, is likely off by one."
    return ""


def _cause_of_range(span: IndexRange, shape: Sequence[int], *, unwritten: bool) -> str:
    if span.step > 1:
        fastest, fate = span.axis is None or span.axis == _long_axes(shape)[-1], "is left out" if unwritten else "goes wrong"
        if fastest and span.step in VECTORS:
            return f"The kernel likely handles {span.step} neighbouring elements at a time, and one of them {fate}."
        return f"One lane of each warp likely {fate}." if fastest and span.step == WARP else ""
    if span.first == 0 or span.last < span.size - 1:
        return ""
    if not unwritten and span.first == 1 and span.axis in _long_axes(shape)[:-2]:
        return "The offset of a batch into an input or into the output is likely missing."
    return _cause_of_last([span], unwritten=unwritten)


def _cause_of_last(ranges: Sequence[IndexRange], *, unwritten: bool) -> str:
    """Name the cause of a wrong or missing end of an axis. A single index may be off by one just as well."""
    if all(span.first == span.last for span in ranges):
        return "A bound is likely one too small, or the last, partial tile or vector is left out." if unwritten else ""
    if any(_tile(span) for span in ranges):
        if unwritten:
            return "The grid or a loop likely covers whole tiles or vectors only; round their number up, and check bounds inside."
        return "The last, partial tile or vector is likely handled wrongly; check the bounds of its loads and stores."
    return "The grid or a loop likely ends too early; compare its size with the output's shape." if unwritten else ""


def _indices(span: IndexRange, shape: Sequence[int]) -> str:
    """A range in words, such as: the last 4 of 100 rows, from row 96 on, the last multiple of 32."""
    name, names = _names(span, shape)
    words = _words(span, name, names)
    return f"{words} (axis {span.axis})" if name == "index" else words


def _words(span: IndexRange, name: str, names: str) -> str:
    if span.step > 1:
        end = "on" if span.last + span.step >= span.size else f"to {span.last}"
        ending = "th" if 10 < span.step % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(span.step % 10, "th")
        return f"every {span.step}{ending} {name}, from {name} {span.first} {end}"
    if span.last == span.size - 1 and span.first > 0:
        tile = _tile(span)
        beyond = f", the last multiple of {tile}" if tile else ""
        if span.first == span.last:
            return f"the last {name} ({span.first}{beyond})"
        return f"the last {span.size - span.first} of {span.size} {names}, from {name} {span.first} on{beyond}"
    if span.first == span.last:
        return f"{name} {span.first} of {span.size}"
    if span.first == 0:
        return f"the first {span.last + 1} of {span.size} {names}"
    return f"{names} {span.first} to {span.last} of {span.size}"


def _ends(span: IndexRange, shape: Sequence[int]) -> str:
    name, names = _names(span, shape)
    return f"the first or last {name}" if span.last == 0 else f"the first or last {span.last + 1} {names}"


def _names(span: IndexRange, shape: Sequence[int]) -> tuple[str, str]:
    if span.axis is None:
        return "element", "elements in memory order"
    long = _long_axes(shape)
    if len(long) == 1:
        return "element", "elements"
    if span.axis in long[-2:]:
        return ("column", "columns") if span.axis == long[-1] else ("row", "rows")
    return ("batch", "batches") if len(long) == 3 else ("index", "indices")


def _long_axes(shape: Sequence[int]) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size > 1]


def _tile(span: IndexRange) -> int:
    """The largest tile of which the range is the rest; 0 where it is none's."""
    return next((tile for tile in TILES if span.size % tile and span.first == span.size // tile * tile), 0)
