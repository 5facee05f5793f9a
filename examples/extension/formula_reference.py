"""The problem format `elementwise`, the judge's half: the formula as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sandbox.protocol import wire

NAME = "elementwise"


def task(spec: wire.ProblemSpec, where: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Return the reference: inputs to expected outputs, on the device that torch calls `where`."""
    program = compile(spec.reference, spec.problem_id, "eval")
    return lambda inputs: [eval(program, {f"in{index}": tensor for index, tensor in enumerate(inputs)})]
