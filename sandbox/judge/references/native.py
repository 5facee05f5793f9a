"""The native format's reference: `def reference(*inputs)` of reference.py."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import torch

from sandbox.protocol import wire

NAME = "native"


def task(spec: wire.ProblemSpec, where: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Execute reference.py once and take its function `reference`; everything else is in the spec."""
    module = types.ModuleType(f"reference_{spec.problem_id}_{spec.digest[:12]}")
    sys.modules[module.__name__] = module  # torch.compile looks up a function's globals by its module's name
    exec(compile(spec.reference, f"{spec.problem_id}/reference.py", "exec"), module.__dict__)
    function = getattr(module, "reference", None)
    if not callable(function):
        raise TypeError("reference.py defines no function 'reference'")

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*inputs)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    call.__code__ = call.__code__.replace()  # its own: what torch.compile makes is kept with the code object, and the rest would share it
    return call
