"""The native format's reference: `def reference(*inputs)` of reference.py. It gets the size of an axis as an int."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import torch

from sandbox.protocol import wire
from sandbox.protocol.signatures import is_axis

NAME = "native"


def task(spec: wire.ProblemSpec, where: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Execute reference.py once and take its function `reference`; everything else is in the spec."""
    module = types.ModuleType(f"reference_{spec.problem_id}_{spec.digest[:12]}")
    sys.modules[module.__name__] = module  # torch.compile looks up a function's globals by its module's name
    exec(compile(spec.reference, f"{spec.problem_id}/reference.py", "exec"), module.__dict__)
    function = getattr(module, "reference", None)
    if not callable(function):
        raise TypeError("reference.py defines no function 'reference'")

    by_size = [is_axis(tensor, spec) for tensor in spec.inputs]

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*[int(value) if axis else value for value, axis in zip(inputs, by_size, strict=True)])
        return list(result) if isinstance(result, (tuple, list)) else [result]

    call.__code__ = call.__code__.replace()  # its own: what torch.compile makes is kept with the code object, and the rest would share it
    return call
