"""The native format's reference: `def reference(*inputs)` of reference.py. It gets the size of an axis as an int."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable

import torch

from sandbox.protocol import wire
from sandbox.protocol.signatures import is_axis

NAME = "native"
Reference = Callable[[list[torch.Tensor]], list[torch.Tensor]]


def task(spec: wire.ProblemSpec, where: str) -> tuple[Reference, Reference | None]:
    """Execute reference.py once and take its function `reference`; everything else is in the spec. The second is the same, unrounded, where
    an output is of float8: its reference is rounded here, so that the judge knows both."""
    module = types.ModuleType(f"reference_{spec.problem_id}_{spec.digest[:12]}")
    sys.modules[module.__name__] = module  # torch.compile looks up a function's globals by its module's name
    exec(compile(spec.reference, f"{spec.problem_id}/reference.py", "exec"), module.__dict__)
    function = getattr(module, "reference", None)
    if not callable(function):
        raise TypeError("reference.py defines no function 'reference'")
    by_size = [is_axis(tensor) for tensor in spec.inputs]
    rounded = {place: getattr(torch, tensor.dtype) for place, tensor in enumerate(spec.outputs) if tensor.dtype.startswith("float8")}

    def unrounded(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        result = function(*[int(value) if axis else value for value, axis in zip(inputs, by_size, strict=True)])
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def call(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        outputs = unrounded(inputs)
        for place, dtype in rounded.items():
            if outputs[place].dtype == dtype:
                raise TypeError(f"{spec.outputs[place].name!r} is of {dtype} already; return it before it is rounded, as float32")
            outputs[place] = outputs[place].to(dtype)
        return outputs

    call.__code__ = call.__code__.replace()  # its own: what torch.compile makes is kept with the code object, and the rest would share it
    return call, unrounded if rounded else None
