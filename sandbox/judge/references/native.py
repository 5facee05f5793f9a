"""The native format's reference: `def reference(*inputs)` of reference.py."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sandbox import wire

NAME = "native"


def load(spec: wire.ProblemSpec) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Execute reference.py once and take its function `reference`."""
    space: dict[str, object] = {"__name__": f"reference_{spec.problem_id}"}
    exec(compile(spec.reference, f"{spec.problem_id}/reference.py", "exec"), space)
    function = space.get("reference")
    if not callable(function):
        raise TypeError("reference.py defines no function 'reference'")

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*inputs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return call
