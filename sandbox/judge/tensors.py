"""What judge and references ask of tensors.  Pure."""

from __future__ import annotations

import torch


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one shape and the same bits, NaN and all."""
    return left.shape == right.shape and bool(
        torch.equal(left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8))
    )


def dtype_name(one: torch.Tensor) -> str:
    """As `wire.TensorSpec` has it."""
    return str(one.dtype).removeprefix("torch.")
