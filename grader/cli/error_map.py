"""Draws the map of a wrong output with characters: ASCII where the terminal can't do more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from grader.v1 import report_pb2
from grader.views.error_maps import ALL, is_map
from grader.views.sanitize import one_line

LINES, COLUMNS, COLUMNS_OF_ONE_LINE = 16, 32, 64
RIGHT, FEW, MANY, WHOLE, UNWRITTEN, NEVER_WRITTEN = range(6)
MEANINGS = ("right", "less than half wrong", "half or more", "all", "partly unwritten", "never written")
STYLES = ("dim", "red", "red", "bold red", "magenta", "bold magenta")
ASCII, UNICODE = ".-+#uU", "·░▓█uU"


@dataclass(frozen=True, slots=True)
class CharacterMap:
    """A map as rich prints it."""

    found: report_pb2.ErrorMap

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """A title, a line for some rows of blocks, and what the characters mean."""
        cells = fold(self.found)
        if not cells:
            return
        symbols = ASCII if options.ascii_only else UNICODE
        high, wide = _blocks_of_a_character(self.found)
        yield self._title(high, wide)
        step = high * self.found.block_rows
        width = len(str(step * len(cells)))
        for number, line in enumerate(cells):
            label = str(number * step) if number % 4 == 0 and len(cells) > 1 else ""
            yield Text.assemble((f"  {label:>{width}} ", "dim"), *((symbols[cell], STYLES[cell]) for cell in line))
        seen = sorted({cell for line in cells for cell in line})
        yield Text(f"  {' ' * width} {'  '.join(f'{symbols[cell]} {MEANINGS[cell]}' for cell in seen)}", style="dim")

    def _title(self, high: int, wide: int) -> Text:
        found = self.found
        shape = " x ".join(map(str, found.shape))
        across = f"{wide * found.block_columns} element{'s' if found.rows > 1 or wide * found.block_columns > 1 else ''}"
        size = f"{high * found.block_rows} x {across}" if found.rows > 1 else across
        leading = ", summed up over the axes before" if sum(one > 1 for one in found.shape) > 2 else ""
        return Text(f"Where {one_line(found.output)} ({shape}) is wrong; a character is {size}{leading}", style="italic")


def fold(error_map: report_pb2.ErrorMap) -> list[list[int]]:
    """The map in few lines and columns, each cell by what is wrong in it; [] where the message is no map."""
    if not is_map(error_map):
        return []
    rows, columns = error_map.rows, error_map.columns
    high, wide = _blocks_of_a_character(error_map)

    def of(shares: bytes, top: int, left: int) -> Iterator[int]:
        ends = range(top, min(top + high, rows)), range(left, min(left + wide, columns))
        return (shares[row * columns + column] for row, column in product(*ends))

    return [
        [
            _cell(list(of(error_map.wrong_shares, top, left)), list(of(error_map.unwritten_shares or bytes(rows * columns), top, left)))
            for left in range(0, columns, wide)
        ]
        for top in range(0, rows, high)
    ]


def _blocks_of_a_character(error_map: report_pb2.ErrorMap) -> tuple[int, int]:
    """How many blocks down, and how many across."""
    return -(-error_map.rows // LINES), -(-error_map.columns // (COLUMNS if error_map.rows > 1 else COLUMNS_OF_ONE_LINE))


def _cell(wrong: list[int], unwritten: list[int]) -> int:
    if any(unwritten):
        return NEVER_WRITTEN if min(unwritten) == ALL else UNWRITTEN
    if not any(wrong):
        return RIGHT
    if min(wrong) == ALL:
        return WHOLE
    return MANY if 2 * sum(wrong) >= ALL * len(wrong) else FEW
