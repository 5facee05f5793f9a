"""Adjustments: changes that an import makes in a problem that somebody else wrote: its sizes, and what counts as right."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field


def literal(text: str) -> str:
    """A value as it is written into a file, on one line. ValueError where it would have to be computed."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
        ast.literal_eval(tree)
        return ast.unparse(tree)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is not a literal; write a number, True, False, a string in quotes, or a tuple of these") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustments:
    """precision: what floating tensors are cast to; None: the format's. constants: new values, as Python literals, of constants at the top
    level of the file. tolerance: atol and rtol; None: the format's. allow_lower_precision: half precision and TF32 may be right.
    keep_weights: weights that start as one constant are not drawn. ValueError where the tolerance is none."""

    precision: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    tolerance: float | None = None
    allow_lower_precision: bool = False
    keep_weights: bool = False

    def __post_init__(self) -> None:
        if self.tolerance is not None and not (math.isfinite(self.tolerance) and 0 < self.tolerance < 1):
            raise ValueError(f"a tolerance of {self.tolerance:g} is not between 0 and 1; write one such as 1e-2")


UNCHANGED = Adjustments()
