"""Which of the host's cores a GPU's run box may use: not those that its judge has to find free.

A kernel that fills every core would make each turn of the judge's clock wait for one (cheating F2).
"""

from __future__ import annotations

from collections.abc import Collection

SHARE = 4  # one core of so many is kept for judges, baselines and the server
FEWEST = 8  # on fewer cores than this nothing is kept


def for_boxes(cores: Collection[int]) -> tuple[int, ...]:
    """The cores that boxes may use, of those that the server has; all of them on a small host."""
    ordered = sorted(cores)
    return tuple(ordered if len(ordered) < FEWEST else ordered[len(ordered) // SHARE :])


def as_list(cores: Collection[int]) -> str:
    """As the engine takes them."""
    return ",".join(map(str, sorted(cores)))
