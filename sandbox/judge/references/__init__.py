"""References, a file per format: the judge's half of a format.  Trusted: those who write problems are.

A reference promises: `load(spec)` executes the problem's code once; calling the result with tensors returns the expected outputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sandbox import wire
from sandbox.judge.references import native

Reference = Callable[[list[torch.Tensor]], list[torch.Tensor]]

REFERENCES = {native.NAME: native}


class ReferenceFailed(Exception):
    """The problem's own code raised or returned something else than it declares: the problem's author has to mend it."""


def load_reference(spec: wire.ProblemSpec) -> Reference:
    """The reference of a problem."""
    try:
        reference: Reference = REFERENCES[spec.format].load(spec)
        return reference
    except Exception as error:
        raise ReferenceFailed(f"reference of {spec.problem_id!r}: {type(error).__name__}: {error}") from error
