"""What outputs and guard bands hold before a kernel runs, and how to see what it left.

Floats get a signalling NaN whose payload is random per trial. Integers get a random sentinel, and so do floats of one byte, which have
too few NaNs. A band around every tensor holds random bytes. A CPU's arithmetic makes a signalling NaN quiet and keeps its payload (Intel
SDM, volume 1, 4.8.3.5), so an element that was computed from what its output held before, such as 0 * c, is seen to be written. A GPU's
arithmetic makes its own NaN of it.
"""

from __future__ import annotations

import secrets

import torch

from sandbox.judge.tensors import FLOAT4, is_narrow, sum_is_finite

# dtype -> (integer type of the same width, quiet NaN without payload, payload bits); the bit above the payload makes a NaN quiet
_NAN = {
    torch.float64: (torch.int64, 0x7FF8_0000_0000_0000, 51),
    torch.float32: (torch.int32, 0x7FC0_0000, 22),
    torch.float16: (torch.int16, 0x7E00, 9),
    torch.bfloat16: (torch.int16, 0x7FC0, 6),
}
ALL_BITS_OF_BYTE, ONE_BYTE_LIMIT = 255, 256
ALL_BITS = -1  # a NaN in every float format, which no arithmetic makes
_WIDTH = {torch.int64: torch.int64, torch.int32: torch.int32, torch.int16: torch.int16, torch.int8: torch.uint8, torch.uint8: torch.uint8}


def fill(output: torch.Tensor) -> int:
    """Fill an output with this trial's poison and return its bits; `unwritten` wants them back."""
    dtype = output.dtype
    if dtype in _NAN:
        kind, nan, payload = _NAN[dtype]
        # Neither all clear, which is infinity, nor all set, which is the NaN of GPUs once it is quiet.
        bits = (nan ^ (1 << payload)) | (1 + secrets.randbelow((1 << payload) - 2))
        output.view(kind).fill_(bits)
        return bits
    if dtype == torch.bool:
        bits = 2 + secrets.randbelow(254)  # no boolean that a kernel writes
        output.view(torch.uint8).fill_(bits)
        return bits
    if is_narrow(dtype):
        bits = secrets.randbelow(ONE_BYTE_LIMIT)
        output.view(torch.uint8).fill_(bits)
        return bits
    kind = _WIDTH[dtype]
    info = torch.iinfo(kind)
    bits = info.min + secrets.randbelow(info.max - info.min + 1)
    output.view(kind).fill_(bits)
    return bits


def unwritten(output: torch.Tensor, bits: int) -> torch.Tensor:
    """A mask of the elements that nobody wrote: this trial's poison, or what memory holds that the kernel allocated: all bits set, by
    `Device.stir`, or NaN and the largest integer, by torch (torch.utils.deterministic.fill_uninitialized_memory)."""
    dtype = output.dtype
    if dtype in _NAN:
        if sum_is_finite(output):
            return torch.zeros_like(output, dtype=torch.bool)
        kind, nan, _ = _NAN[dtype]
        raw = output.view(kind)
        return (raw == bits) | (raw == nan) | (raw == ALL_BITS)
    if dtype == torch.bool:
        return output.view(torch.uint8) > 1
    if is_narrow(dtype):
        raw = output.view(torch.uint8)
        return (raw == bits) | (raw == ALL_BITS_OF_BYTE) | (raw == _fresh_byte(dtype))
    raw = output.view(_WIDTH[dtype])
    return (raw == bits) | (raw == torch.iinfo(raw.dtype).max) | (raw == (ALL_BITS if raw.dtype.is_signed else 255))


def _fresh_byte(dtype: torch.dtype) -> int:
    """What torch fills fresh memory of a float of one byte with: its NaN; it fills none of float4, which has none."""
    if dtype == FLOAT4:
        return ALL_BITS_OF_BYTE
    return int(torch.full((1,), torch.nan).to(dtype).view(torch.uint8))


def output_read(output: torch.Tensor, bits: int) -> bool:
    """Whether an element is this trial's poison after an operation on it."""
    if output.dtype not in _NAN or sum_is_finite(output):
        return False
    kind, nan, _ = _NAN[output.dtype]
    return bool((output.view(kind) == (bits | nan)).any())


def but_right_nan(unwritten: torch.Tensor, output: torch.Tensor, reference: object) -> torch.Tensor:
    """A mask of `unwritten`, without the elements that are NaN in the reference too and hold another NaN than this trial's poison.

    A kernel's own right NaN has the bits that fresh memory is filled with. So a kernel that leaves its fresh memory as it is where the
    reference is NaN is right there: its answer is the one asked for. Anywhere else, and in the memory that the judge poisoned, nothing
    is forgiven.
    """
    if output.dtype not in _NAN or not isinstance(reference, torch.Tensor) or not bool(unwritten.any()):
        return unwritten
    if (reference.shape, reference.dtype, reference.device) != (output.shape, output.dtype, output.device):
        return unwritten  # the mismatch is reported elsewhere
    kind, nan, _ = _NAN[output.dtype]
    raw = output.view(kind)
    return unwritten & ~(reference.isnan() & ((raw == nan) | (raw == ALL_BITS)))
