"""Where an output is wrong: a map of it in blocks, and what the wrong elements have in common.  For people; decides nothing.

The wrong elements are looked for a second time, in chunks that the caches hold, because the comparison keeps no mask of a right answer.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass

import torch

from sandbox.judge.compare.wrong_elements import wrong_mask
from sandbox.judge.compare.wrong_pattern import WrongCounts, find_pattern
from sandbox.protocol import wire

SIDE = 64  # blocks of an axis at most
HOST_CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 24  # elements looked at together: what a core's cache holds; what keeps a GPU busy
ALL = 255  # the share of a block in which everything is wrong


def error_map(
    name: str, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance
) -> wire.ErrorMap | None:
    """The map of one output; None where every element is right, as where only the error budget is exceeded, or where there is one only.

    output, reference, unwritten: of one shape, as `comparable` makes them.
    """
    if output.numel() < 2:
        return None
    wrong, missing, *nonzero = _masks(output.reshape(-1), reference.reshape(-1), unwritten.reshape(-1), tolerance)
    wrong_count, unwritten_count = int(wrong.count_nonzero()), int(missing.count_nonzero())
    if not wrong_count:
        return None
    layout = Layout.of(tuple(output.shape))
    wrong_blocks, along_last = layout.count(wrong)
    missing_blocks = torch.zeros_like(wrong_blocks)
    counts = WrongCounts(wrong.view(layout.sizes), layout.axes, wrong_count, along_last, wrong_blocks, layout.area, *nonzero)
    if unwritten_count:  # the verdict is about these
        missing_blocks, along_last = layout.count(missing)
        counts = WrongCounts(missing.view(layout.sizes), layout.axes, unwritten_count, along_last, missing_blocks, layout.area)
    return wire.ErrorMap(
        output=name,
        shape=tuple(output.shape),
        rows=layout.rows,
        columns=layout.columns,
        block_rows=layout.block_rows,
        block_columns=layout.block_columns,
        wrong_count=wrong_count,
        unwritten_count=unwritten_count,
        wrong_shares=base64.b64encode(_shares(wrong_blocks, layout.area)).decode(),
        unwritten_shares=base64.b64encode(_shares(missing_blocks, layout.area)).decode() if unwritten_count else "",
        pattern=find_pattern(counts, unwritten=bool(unwritten_count)),
    )


def _masks(
    output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance
) -> tuple[torch.Tensor, torch.Tensor, int, int]:
    """What is wrong, what of it was not written, how many elements of the reference are not zero, and how many of these are right."""
    wrong, missing = torch.empty_like(unwritten), torch.empty_like(unwritten)
    nonzero, right_nonzero = (torch.zeros((), dtype=torch.int64, device=output.device) for _ in range(2))
    size = HOST_CHUNK if output.device.type == "cpu" else DEVICE_CHUNK
    for begin in range(0, output.numel(), size):
        chunk = slice(begin, begin + size)
        found = wrong_mask(output[chunk], reference[chunk], unwritten[chunk], tolerance)
        wrong[chunk] = found
        torch.logical_and(found, unwritten[chunk], out=missing[chunk])
        set_there = reference[chunk].to(torch.bool)
        nonzero += set_there.count_nonzero()
        right_nonzero += (set_there & ~found).count_nonzero()
    return wrong, missing, int(nonzero), int(right_nonzero)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How an output is cut into blocks. Sizes of blocks are powers of two, so that they fit the tiles of kernels."""

    sizes: tuple[int, ...]  # of the axes that are longer than 1; at least two, of which the first may be 1
    axes: tuple[int | None, ...]  # which axes of the output these are; None: no axis
    block_rows: int
    block_columns: int

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Layout:
        """The layout of an output with more than one element."""
        long: list[tuple[int | None, int]] = [(axis, size) for axis, size in enumerate(shape) if size > 1]
        if len(long) == 1:
            long = [(None, 1), *long]
        sizes = tuple(size for _, size in long)
        return cls(
            sizes=sizes, axes=tuple(axis for axis, _ in long), block_rows=_block_size(sizes[-2]), block_columns=_block_size(sizes[-1])
        )

    @property
    def rows(self) -> int:
        """How many blocks of rows there are."""
        return -(-self.sizes[-2] // self.block_rows)

    @property
    def columns(self) -> int:
        """How many blocks of columns there are."""
        return -(-self.sizes[-1] // self.block_columns)

    @property
    def area(self) -> torch.Tensor:
        """How many elements each block has, over all leading axes."""
        heights, widths = (
            torch.tensor([min(block, size - begin) for begin in range(0, size, block)])
            for size, block in ((self.sizes[-2], self.block_rows), (self.sizes[-1], self.block_columns))
        )
        return heights[:, None] * widths * math.prod(self.sizes[:-2])

    def count(self, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How many elements of each block are in the mask, on the host; and how many of each column."""
        rows, columns = self.sizes[-2:]
        mask = mask.view(-1, rows, columns)
        along_last = torch.zeros(columns, dtype=torch.int64, device=mask.device)
        padding = self.columns * self.block_columns - columns
        found = []
        for begin in range(0, rows, self.block_rows):
            of_columns = mask[:, begin : begin + self.block_rows].sum((0, 1), dtype=torch.int64)
            along_last += of_columns
            found.append(torch.nn.functional.pad(of_columns, (0, padding)).view(self.columns, -1).sum(1))
        return torch.stack(found).cpu(), along_last


def _block_size(size: int) -> int:
    return 1 << max(0, (-(-size // SIDE) - 1).bit_length())


def _shares(counts: torch.Tensor, area: torch.Tensor) -> bytes:
    """Bytes: 0 for none only, and 255 for all only."""
    rounded = (ALL * counts.double() / area).round().clamp(1, ALL - 1)
    shares = torch.where(counts == 0, 0, torch.where(counts == area, ALL, rounded)).to(torch.uint8)
    return bytes(shares.flatten().tolist())
