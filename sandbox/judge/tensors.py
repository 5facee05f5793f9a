"""What judge and references ask of tensors.  Pure."""

from __future__ import annotations

import math

import torch

from sandbox.launch import scaled_mm
from sandbox.protocol.gate import span

FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)  # two numbers a byte, the first in its low half; no arithmetic and few other operations
_NUMBER_BYTE = 0x55  # neither zero nor NaN in any of them


def same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have one shape and the same bits, NaN and all."""
    if left.shape != right.shape:
        return False
    both = [one.contiguous().view(-1).view(torch.uint8) for one in (left, right)]
    if all(map(_is_of_words, both)):  # an eighth as many to compare
        both = [one.view(torch.int64) for one in both]
    return torch.equal(*both)


def memory_of(one: torch.Tensor) -> torch.Tensor:
    """The memory from a tensor's first element to its last, gaps included, as a flat tensor."""
    if one.is_contiguous():
        return one.view(-1)
    return one.as_strided((span(one.shape, one.stride()),), (1,), one.storage_offset())


def equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """`torch.equal`, also for float4."""
    return same_bytes(left, right) if left.dtype == right.dtype == FLOAT4 else torch.equal(left, right)


def _is_of_words(one: torch.Tensor) -> bool:
    return not any(count % 8 for count in (one.numel(), one.storage_offset(), one.data_ptr()))


def is_narrow(dtype: torch.dtype) -> bool:
    """Whether it is a float of eight or four bits: each byte of it is a number or one of few NaNs, and torch computes nothing in it."""
    return dtype.is_floating_point and dtype.itemsize == 1


def numbers(one: torch.Tensor) -> torch.Tensor:
    """The values in double precision; of float4 the last axis is twice as long."""
    if one.dtype != FLOAT4:
        return one.double()
    raw = one.contiguous().view(torch.uint8)
    values = torch.tensor(scaled_mm.VALUES, dtype=torch.float64, device=one.device)
    return values[torch.stack((raw & 15, raw >> 4), -1).long()].flatten(-2)


def is_nan(one: torch.Tensor) -> torch.Tensor:
    """A mask of the values that are NaN; of float4 as long as `numbers`."""
    return (numbers(one) if is_narrow(one.dtype) else one).isnan()


def filled(one: torch.Tensor, value: float) -> torch.Tensor:
    """A tensor like this one with the value everywhere; of narrow floats with one of their bytes that is a number other than zero."""
    if not is_narrow(one.dtype):
        return torch.full_like(one, value)
    made = one.clone()
    made.view(torch.uint8).fill_(_NUMBER_BYTE)
    return made


def dtype_name(one: torch.Tensor) -> str:
    """As `wire.TensorSpec` has it."""
    return str(one.dtype).removeprefix("torch.")


def sum_is_finite(tensor: torch.Tensor) -> bool:
    """True: no element is NaN or infinite. False says little, for a sum of finite elements may overflow. One pass, without memory."""
    return math.isfinite(float(tensor.sum()))
