"""What judge and references ask of tensors.  Pure."""

from __future__ import annotations

import torch


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one shape and the same bits, NaN and all."""
    if left.shape != right.shape:
        return False
    both = [one.contiguous().view(-1).view(torch.uint8) for one in (left, right)]
    if all(map(_is_of_words, both)):  # an eighth as many to compare
        both = [one.view(torch.int64) for one in both]
    return torch.equal(*both)


def _is_of_words(one: torch.Tensor) -> bool:
    return not any(count % 8 for count in (one.numel(), one.storage_offset(), one.data_ptr()))


def dtype_name(one: torch.Tensor) -> str:
    """As `wire.TensorSpec` has it."""
    return str(one.dtype).removeprefix("torch.")
