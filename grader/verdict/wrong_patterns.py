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
    """Where the wrong elements are; "" where the share of wrong elements says it."""
    elements = f"The {'unwritten' if pattern.unwritten else 'wrong'} elements of '{pattern.output}' are"
    match pattern.kind:
        case PatternKind.EVERYTHING:
            return ""
        case PatternKind.NONZERO:
            return f"All or nearly all elements of '{pattern.output}' whose expected value is not 0 are wrong."
        case PatternKind.REGION:
            return f"{elements} in {' and in '.join(_indices(one, pattern.shape) for one in pattern.ranges)}."
        case PatternKind.LAST_ROWS_OR_COLUMNS:
            return f"{elements} in {' or in '.join(_indices(one, pattern.shape) for one in pattern.ranges)}."
        case PatternKind.BORDER:
            return f"{elements} in {' or in '.join(_ends(one, pattern.shape) for one in pattern.ranges)}."
        case PatternKind.UPPER_TRIANGLE:
            return f"{elements} those above the diagonal."
        case PatternKind.LOWER_TRIANGLE:
            return f"{elements} those below the diagonal."
        case PatternKind.DIAGONAL:
            tile = pattern.ranges[0].step
            return f"{elements} {'those' if tile == 1 else f'in the tiles of {tile} x {tile}'} on the diagonal."
        case PatternKind.SCATTERED:
            return f"{elements} scattered over all of it."
    assert_never(pattern.kind)


def likely_cause(trial: wire.Trial) -> str:
    """What the pattern points to; "" where it could have several causes, or where a better one is known."""
    pattern = trial.wrong_pattern
    if pattern is None or trial.symptom is not None or trial.cuda_error:
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
        case PatternKind.DIAGONAL if ranges[0].step == 1:
            return "A comparison of row and column, such as a mask, is likely off by one."
        case PatternKind.DIAGONAL:
            return "These tiles likely take a path of their own, as for a mask; check its conditions and barriers."
    return ""


def _cause_of_range(one: IndexRange, shape: Sequence[int], *, unwritten: bool) -> str:
    if one.width > 1:
        return f"The threads of a block likely cover only part of a tile of {one.step}; compare their number with it." if unwritten else ""
    if one.step > 1:
        fastest = one.axis is None or one.axis == _long_axes(shape)[-1]
        if fastest and one.step in VECTORS:
            return f"The kernel likely handles {one.step} neighbouring elements at a time, and one of them {_fate(unwritten)}."
        return f"One lane of each warp likely {_fate(unwritten)}." if fastest and one.step == WARP else ""
    if one.first == 0 or one.last < one.size - 1:
        return ""
    if not unwritten and one.first == 1 and one.axis in _long_axes(shape)[:-2]:
        return "The offset of a batch into an input or into the output is likely missing."
    return _cause_of_last([one], unwritten=unwritten)


def _cause_of_last(ranges: Sequence[IndexRange], *, unwritten: bool) -> str:
    """What leaves out or spoils the end of an axis. A single index may be off by one just as well."""
    if all(one.first == one.last for one in ranges):
        return "A bound is likely one too small, or the last, partial tile or vector is left out." if unwritten else ""
    if any(_tile(one) for one in ranges):
        if unwritten:
            return "The grid or a loop likely covers whole tiles or vectors only; round their number up, and check bounds inside."
        return "The last, partial tile or vector is likely handled wrongly; check the bounds of its loads and stores."
    return "The grid or a loop likely ends too early; compare its size with the output's shape." if unwritten else ""


def _fate(unwritten: bool) -> str:
    return "is left out" if unwritten else "goes wrong"


def _indices(one: IndexRange, shape: Sequence[int]) -> str:
    """A range in words, such as: the last 4 of 100 rows, from row 96 on, the last multiple of 32."""
    name, names = _names(one, shape)
    words = _words(one, name, names)
    return f"{words} (axis {one.axis})" if name == "index" else words


def _words(one: IndexRange, name: str, names: str) -> str:
    if one.width > 1:
        return f"{names} {one.first} to {one.first + one.width - 1} of every {one.step}"
    if one.step > 1:
        end = "on" if one.last + one.step >= one.size else f"to {one.last}"
        return f"every {_ordinal(one.step)} {name}, from {name} {one.first} {end}"
    if one.last == one.size - 1 and one.first > 0:
        tile = _tile(one)
        beyond = f", the last multiple of {tile}" if tile else ""
        if one.first == one.last:
            return f"the last {name} ({one.first}{beyond})"
        return f"the last {one.size - one.first} of {one.size} {names}, from {name} {one.first} on{beyond}"
    if one.first == one.last:
        return f"{name} {one.first} of {one.size}"
    if one.first == 0:
        return f"the first {one.last + 1} of {one.size} {names}"
    return f"{names} {one.first} to {one.last} of {one.size}"


def _ends(one: IndexRange, shape: Sequence[int]) -> str:
    name, names = _names(one, shape)
    return f"the first or last {name}" if one.last == 0 else f"the first or last {one.last + 1} {names}"


def _names(one: IndexRange, shape: Sequence[int]) -> tuple[str, str]:
    """What an index of the axis is called, and several of them."""
    if one.axis is None:
        return "element", "elements in memory order"
    long = _long_axes(shape)
    if len(long) == 1:
        return "element", "elements"
    if one.axis in long[-2:]:
        return ("column", "columns") if one.axis == long[-1] else ("row", "rows")
    return ("batch", "batches") if len(long) == 3 else ("index", "indices")


def _long_axes(shape: Sequence[int]) -> list[int]:
    return [axis for axis, size in enumerate(shape) if size > 1]


def _tile(one: IndexRange) -> int:
    """The largest tile of which the range is the rest; 0 where it is none's."""
    return next((tile for tile in TILES if one.size % tile and one.first == one.size // tile * tile), 0)


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
