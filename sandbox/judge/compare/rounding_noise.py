"""Where a few elements are over the budget: whether that is the kernel's doing, or the luck of PyTorch's (docs/decisions/0007).

The mean of a row may be all but zero, and PyTorch's off by nothing: a multiple of that error is no budget. The inputs are shaken by one
unit in their last place, and how far the fp64 result goes stands for what float32 costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sandbox.judge.compare.tolerance import Comparison
from sandbox.judge.reference_errors import ReferenceFailed

FEW = 16  # elements, beyond which an rms is no luck
SHAKE_COUNTS = (8, 32)  # at first, and where those do not excuse: of eight, the rms is luck too
Tensors = Sequence[torch.Tensor]


def forgive_rounding_noise(
    found: list[Comparison],
    inputs: Tensors,
    outputs: Tensors,
    exactly: Callable[[list[torch.Tensor]], Tensors],
    again: Callable[[int, Tensors], Comparison],
) -> list[Comparison]:
    """What was found, and for outputs that may be unlucky what is found again with the fp64 results for shaken inputs.

    exactly: the fp64 results for inputs. again: compares the output of that number. It costs nothing where no output is unlucky.
    """
    perturbed: list[Tensors] = []
    for count in SHAKE_COUNTS:
        if not any(map(fails_budget_only, found)):
            break
        try:
            perturbed += [exactly(perturb_inputs_one_ulp(inputs)) for _ in range(count - len(perturbed))]
        except ReferenceFailed:  # it takes no inputs but exact ones: then nothing is excused
            break
        fitting = [
            [one for one in moved if one.shape == output.shape] for output, moved in zip(outputs, zip(*perturbed, strict=True), strict=True)
        ]
        found = [again(index, fitting[index]) if fails_budget_only(one) else one for index, one in enumerate(found)]
    return found


def fails_budget_only(found: Comparison) -> bool:
    """Whether all that is wrong with an output is the budget, and it has so few elements that the inputs are to be shaken."""
    over = found.budget_ratio is not None and found.budget_ratio > 1
    return over and found.element_count <= FEW and not (found.mismatched_count or found.unwritten_count or found.nonfinite_count)


def perturb_inputs_one_ulp(inputs: Tensors) -> list[torch.Tensor]:
    """The inputs in double precision, every float of them a unit of its last place larger or smaller: of float32's, but for doubles."""
    return [_shake(one) if one.is_floating_point() else one for one in inputs]


def _shake(one: torch.Tensor) -> torch.Tensor:
    unit = torch.finfo(torch.float64 if one.dtype == torch.float64 else torch.float32).eps
    up = torch.randint(0, 2, one.shape, dtype=torch.float64, device=one.device)
    return one.double() * (1 + unit * (2 * up - 1))
