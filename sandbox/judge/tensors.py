"""Bits, dtypes and equality of tensors.  Pure."""

from __future__ import annotations

import math

import torch

from sandbox.launch import scaled_mm
from sandbox.protocol.gate import span

FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)  # two numbers a byte, the first in its low half; no arithmetic and few other operations
_NUMBER_BYTE = 0x55  # neither zero nor NaN in any of them


def same_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Return whether two tensors have one shape and the same bits, NaN and all."""
    if first.shape != second.shape:
        return False
    both = [tensor.contiguous().view(-1).view(torch.uint8) for tensor in (first, second)]
    if not any(count % 8 for tensor in both for count in (tensor.numel(), tensor.storage_offset(), tensor.data_ptr())):
        # Words are an eighth as many to compare.
        both = [tensor.view(torch.int64) for tensor in both]
    return torch.equal(*both)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from a tensor's first element to its last, gaps included, as a flat tensor."""
    if tensor.is_contiguous():
        return tensor.view(-1)
    return tensor.as_strided((span(tensor.shape, tensor.stride()),), (1,), tensor.storage_offset())


def equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """`torch.equal`, also for float4."""
    return same_bytes(first, second) if first.dtype == second.dtype == FLOAT4 else torch.equal(first, second)


def is_narrow(dtype: torch.dtype) -> bool:
    """Return whether it is a float of eight or four bits: each byte of it is a number or one of few NaNs, and torch computes nothing in
    it."""
    return dtype.is_floating_point and dtype.itemsize == 1


def numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The values in double precision; of float4 the last axis is twice as long."""
    if tensor.dtype != FLOAT4:
        return tensor.double()
    raw = tensor.contiguous().view(torch.uint8)
    values = torch.tensor(scaled_mm.VALUES, dtype=torch.float64, device=tensor.device)
    return values[torch.stack((raw & 15, raw >> 4), -1).long()].flatten(-2)


def is_nan(tensor: torch.Tensor) -> torch.Tensor:
    """A mask of the values that are NaN; of float4 as long as `numbers`."""
    return (numbers(tensor) if is_narrow(tensor.dtype) else tensor).isnan()


def filled(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """A tensor like this one with the value everywhere; of narrow floats with one of their bytes that is a number other than zero."""
    if not is_narrow(tensor.dtype):
        return torch.full_like(tensor, value)
    copy = tensor.clone()
    copy.view(torch.uint8).fill_(_NUMBER_BYTE)
    return copy


def dtype_name(tensor: torch.Tensor) -> str:
    """As `wire.TensorSpec` has it."""
    return str(tensor.dtype).removeprefix("torch.")


def sum_is_finite(tensor: torch.Tensor) -> bool:
    """True: no element is NaN or infinite. False says little, for a sum of finite elements may overflow. One pass, without memory."""
    return math.isfinite(float(tensor.sum()))
