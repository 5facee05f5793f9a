"""What the map of a wrong output has to be before it is drawn, by the terminal or by a page.  Pure."""

from __future__ import annotations

from grader.v1 import report_pb2

MOST_BLOCKS = 64  # of a side
ALL = 255  # the share of a block in which every element is wrong; 0 is none


def is_map(found: report_pb2.ErrorMap) -> bool:
    """Whether it has a share for each of its blocks, and no more blocks than a map has: a newer server may send something else."""
    blocks = found.rows * found.columns
    inside = 0 < found.rows <= MOST_BLOCKS and 0 < found.columns <= MOST_BLOCKS
    return inside and len(found.wrong_shares) == blocks and len(found.unwritten_shares) in (0, blocks)
