"""Compares a snapshot with the reference; and what that needs of tensors: bits, dtypes, and the poison of what was not written.

An element is right when |out - ref| <= atol + rtol * |ref| against PyTorch's result in the task's dtype, or against its fp64 result (a
kernel is not blamed for PyTorch's own rounding). Of float8 the fp64 result is not rounded, and half a step more is right: that is what
rounding takes. Any other output also keeps, as a whole, an fp64 error budget: rms(out - ref64) at most
budget_factor * rms(ref - ref64) + budget_floor * rms(ref64), which half precision inside an fp32 task does not (cheating 4.7).
PyTorch's own error is at least an eighth of a unit in the last place; where a few elements alone are over the budget, that may be the luck
of PyTorch's: the mean of a row may be all but zero, and PyTorch's off by nothing. Then the inputs are perturbed by one unit in their last
place, and how far the fp64 result goes counts as PyTorch's error too (docs/decisions/0007).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sandbox.judge import ReferenceFailed
from sandbox.launch import scaled_mm
from sandbox.protocol import wire
from sandbox.protocol.gate import span

FLOAT4 = getattr(torch, "float4_e2m1fn_x2", None)  # two numbers a byte, the first in its low half; no arithmetic and few other operations
# dtype -> (integer type of the same width, quiet NaN without payload, payload bits); the bit above the payload makes a NaN quiet
_NAN = {
    torch.float64: (torch.int64, 0x7FF8_0000_0000_0000, 51),
    torch.float32: (torch.int32, 0x7FC0_0000, 22),
    torch.float16: (torch.int16, 0x7E00, 9),
    torch.bfloat16: (torch.int16, 0x7FC0, 6),
}
ALL_BITS_OF_BYTE, ONE_BYTE_LIMIT = 255, 256
FLOAT8_NANS = 0x7C  # the first byte that is NaN or infinite in a format of eight bits, whose other NaNs are -0 or all bits
ALL_BITS = -1  # a NaN in every float format, which no arithmetic makes
_WIDTH = {torch.int64: torch.int64, torch.int32: torch.int32, torch.int16: torch.int16, torch.int8: torch.uint8, torch.uint8: torch.uint8}
FLOAT64_FLOOR = 1e-12
# PyTorch's own error is taken for no less than this many units of the dtype's last place: rounding a result to it makes a fifth of one.
# A reference that rounds by itself, such as by .to(torch.float16), does so in fp64, too, and then seems to make no error at all.
OWN_ULPS = 0.125
SQUARES = (1e-130, 1e130)  # norms whose squares fp64 holds
FEW = 16  # elements, beyond which an rms is no luck
SHAKE_COUNTS = (8, 32)  # at first, and where those do not excuse: of eight, the rms is luck too
Tensors = Sequence[torch.Tensor]


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


def sum_is_finite(tensor: torch.Tensor) -> bool:
    """True: no element is NaN or infinite. False says little, for a sum of finite elements may overflow. One pass, without memory."""
    return math.isfinite(float(tensor.sum()))


def fill_with_poison(output: torch.Tensor) -> int:
    """Fill an output with this trial's poison and return its bits; `unwritten` wants them back."""
    dtype = output.dtype
    if dtype in _NAN:
        kind, nan, payload = _NAN[dtype]
        # Neither all clear, which is infinity, nor all set, which is the NaN of GPUs once it is quiet.
        bits = (nan ^ (1 << payload)) | (1 + secrets.randbelow((1 << payload) - 2))
    elif dtype == torch.bool:
        kind, bits = torch.uint8, 2 + secrets.randbelow(254)  # no boolean that a kernel writes
    elif is_narrow(dtype):  # of float8 no NaN, which may be right
        sign, number = secrets.choice((0, ONE_BYTE_LIMIT // 2)), 1 + secrets.randbelow(FLOAT8_NANS - 1)
        kind, bits = torch.uint8, secrets.randbelow(ONE_BYTE_LIMIT) if dtype == FLOAT4 else sign | number
    else:
        kind = _WIDTH[dtype]
        info = torch.iinfo(kind)
        bits = info.min + secrets.randbelow(info.max - info.min + 1)
    output.view(kind).fill_(bits)
    return bits


def unwritten_mask(output: torch.Tensor, bits: int | None) -> torch.Tensor:
    """A mask of the elements that nobody wrote: this trial's poison, or what memory holds that the kernel allocated: all bits set, by
    `Device.stir`, or NaN and the largest integer, by torch (torch.utils.deterministic.fill_uninitialized_memory). bits None: an
    input in place, where only a byte that is no boolean tells."""
    dtype = output.dtype
    if dtype == torch.bool:
        return output.view(torch.uint8) > 1
    if bits is None:
        return torch.zeros_like(output, dtype=torch.bool)
    if dtype in _NAN:
        if sum_is_finite(output):
            return torch.zeros_like(output, dtype=torch.bool)
        kind, nan, _ = _NAN[dtype]
        raw = output.view(kind)
        return (raw == bits) | (raw == nan) | (raw == ALL_BITS)
    if is_narrow(dtype):
        raw = output.view(torch.uint8)
        return (raw == bits) | (raw == ALL_BITS_OF_BYTE) | (raw == _fresh_byte(dtype))
    raw = output.view(_WIDTH[dtype])
    return (raw == bits) | (raw == torch.iinfo(raw.dtype).max) | (raw == (ALL_BITS if raw.dtype.is_signed else 255))


def _fresh_byte(dtype: torch.dtype) -> int:
    """Return the byte that torch fills fresh memory of a float of one byte with: its NaN; it fills none of float4, which has none."""
    if dtype == FLOAT4:
        return ALL_BITS_OF_BYTE
    return int(torch.full((1,), torch.nan).to(dtype).view(torch.uint8))


def output_was_read(output: torch.Tensor, bits: int | None) -> bool:
    """Return whether an element is this trial's poison after an operation on it."""
    if bits is None or output.dtype not in _NAN or sum_is_finite(output):
        return False
    kind, nan, _ = _NAN[output.dtype]
    return bool((output.view(kind) == (bits | nan)).any())


def except_right_nan(unwritten: torch.Tensor, output: torch.Tensor, reference: object) -> torch.Tensor:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Result of the comparison of one output."""

    element_count: int
    mismatched_count: int = 0
    unwritten_count: int = 0
    nonfinite_count: int = 0
    max_absolute_error: float = 0.0
    max_relative_error: float = 0.0
    budget_ratio: float | None = None

    @property
    def outcome(self) -> wire.TrialOutcome:
        """The most telling of what is wrong."""
        if self.unwritten_count:
            return wire.TrialOutcome.UNWRITTEN
        if self.nonfinite_count:
            return wire.TrialOutcome.NON_FINITE
        if self.mismatched_count or (self.budget_ratio is not None and self.budget_ratio > 1):
            return wire.TrialOutcome.MISMATCHED
        return wire.TrialOutcome.PASSED


def compare(
    output: torch.Tensor,
    reference: torch.Tensor,
    reference64: torch.Tensor | None,
    unwritten: torch.Tensor,
    tolerance: wire.Tolerance,
    perturbed: Sequence[torch.Tensor] = (),
) -> Comparison:
    """Compare one output; unwritten masks the elements that still hold poison: wrong even where the tolerance is infinite. perturbed:
    fp64 results for perturbed inputs."""
    if not reference.dtype.is_floating_point:
        # Integers and booleans: every element the same. Unwritten only where it is wrong too: an integer's sentinel may be the right
        # answer, a boolean's is none.
        differs = output != reference
        if output.dtype == torch.bool:
            differs |= unwritten
        wide = reference[differs].double()  # of a right run nothing
        error = (output[differs].double() - wide).abs()
        return Comparison(
            element_count=output.numel(),
            mismatched_count=int(differs.sum()),
            unwritten_count=int((unwritten & differs).sum()),
            max_absolute_error=_largest(error),
            max_relative_error=_largest(error / wide.abs().clamp_min(1)),
        )
    dtype = reference.dtype
    if is_narrow(dtype):  # a byte's sentinel may be the right answer, as an integer's
        unwritten = unwritten & (output.view(torch.uint8) != reference.view(torch.uint8))
        unwritten &= ~(numbers(output).isnan() & numbers(reference).isnan()) if dtype != FLOAT4 else True
    is_unrounded = is_narrow(dtype) and reference64 is not None and not is_narrow(reference64.dtype)
    if reference.dtype == FLOAT4:
        output, reference, unwritten = numbers(output).float(), numbers(reference).float(), unwritten.repeat_interleave(2, -1)
    references = [reference] if reference64 is None else [reference, reference64]
    is_identical = reference.dtype in _NAN and torch.equal(output, reference)
    if is_identical and not bool(unwritten.any()) and all(map(sum_is_finite, references)):
        # The output is PyTorch's to the last bit, and finite: its error is PyTorch's own, against the fp64 result.
        ratio = None
        if reference64 is not None:
            ratio = _budget_ratio(reference, reference, reference64.double(), tolerance, reference.dtype, perturbed)
        return Comparison(element_count=reference.numel(), budget_ratio=ratio)
    out, ref = output.double(), reference.double()
    ref64 = ref if reference64 is None else reference64.double()
    error, size = (out - ref).abs_(), ref.abs()
    from_ref = error.max() if error.numel() else error.sum()  # one number: of large outputs each tensor counts
    if reference64 is not None:
        from_ref64 = (out - ref64).abs_()
        if is_unrounded:  # the numbers on both sides of the exact answer are as good as the reference's
            half_step = _half_step(ref64, dtype)
            unwritten = unwritten & ~(from_ref64 < 2 * half_step)
            from_ref64 = (from_ref64 - half_step).clamp_min_(0.0)
        error = torch.minimum(error, from_ref64)
    right = error <= (tolerance.rtol * size).add_(tolerance.atol)
    relative = error / size.clamp_min_(torch.finfo(reference.dtype).tiny)
    any_unwritten, all_right, farthest, largest, largest_relative = _figures(unwritten.any(), right.all(), from_ref, error, relative)
    # Finite and written throughout, as every right run is: then no element needs a look of its own, which takes longer than all the rest.
    finite = None if not any_unwritten and math.isfinite(farthest) else out.isfinite() & ref.isfinite() & ~unwritten
    nonfinite_count = 0
    if finite is not None:
        # NaN equal to NaN is still wrong unless the reference makes one there, and infinities have to agree in sign.
        same_class = (out.isnan() & ref.isnan()) | (out.isinf() & (out == ref))
        nonfinite_count = int((~out.isfinite() & ~same_class & ~unwritten).sum())
        right = (right & finite) | (same_class & ~unwritten)
        all_right, largest, largest_relative = _figures(right.all(), error[finite], relative[finite])
    del error, size, relative

    def chosen(tensor: torch.Tensor) -> torch.Tensor:
        return tensor if finite is None else tensor[finite]

    return Comparison(
        element_count=output.numel(),
        mismatched_count=0 if all_right else int((~right).sum()),
        unwritten_count=0 if finite is None else int(unwritten.sum()),
        nonfinite_count=nonfinite_count,
        max_absolute_error=largest,
        max_relative_error=largest_relative,
        budget_ratio=None
        if reference64 is None or is_unrounded
        else _budget_ratio(chosen(out), chosen(ref), chosen(ref64), tolerance, reference.dtype, [chosen(tensor) for tensor in perturbed]),
    )


def _half_step(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """How far rounding to a dtype may take numbers: half of the distance between those of the dtype on their two sides."""
    info = torch.finfo(dtype)
    return torch.ldexp(torch.full_like(exact, info.eps / 4), torch.frexp(exact.abs().clamp_min(info.tiny)).exponent)


def _figures(*tensors: torch.Tensor) -> list[float]:
    """The largest value of each tensor, 0 of an empty one: the host waits for the device once, which takes longer than the work."""
    largest = [tensor.max() if tensor.numel() else tensor.new_zeros(()) for tensor in tensors]
    return list(torch.stack([value.double() for value in largest]).tolist())


def _budget_ratio(
    out: torch.Tensor,
    ref: torch.Tensor,
    ref64: torch.Tensor,
    tolerance: wire.Tolerance,
    dtype: torch.dtype,
    perturbed: Sequence[torch.Tensor],
) -> float | None:
    if tolerance.budget_factor is None or out.numel() == 0:
        return None
    # PyTorch's own error in fp64 is not seen, and a floor that is made for float32 would let float32 pass.
    floor = min(tolerance.budget_floor, FLOAT64_FLOOR) if dtype == torch.float64 else tolerance.budget_floor
    size = rms(ref64)
    error_of_ref = rms(ref - ref64)
    own_error = max(error_of_ref, spread(ref64, perturbed), OWN_ULPS * torch.finfo(dtype).eps * size)
    allowed = tolerance.budget_factor * own_error + floor * size
    spent = error_of_ref if out is ref else rms(out - ref64)
    if spent == 0.0:
        return 0.0
    return spent / allowed if allowed > 0 else float("inf")


def spread(exact: torch.Tensor, perturbed: Sequence[torch.Tensor]) -> float:
    """How far, as an rms, the fp64 result goes with its inputs; 0 where that is not finite, and excuses nothing."""
    if not perturbed or not exact.numel():
        return 0.0
    moved = torch.stack([tensor.double() - exact for tensor in perturbed])
    return rms(moved) if bool(moved.isfinite().all()) else 0.0


def rms(values: torch.Tensor) -> float:
    """The root of the mean square, scaled where squares would overflow or vanish."""
    norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))  # one pass, of the five below
    if SQUARES[0] < norm < SQUARES[1]:
        return norm / math.sqrt(values.numel())
    largest = _largest(values.abs())
    return largest * float((values / largest).square().mean().sqrt()) if largest > 0 else 0.0


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def forgive_rounding_noise(
    comparisons: list[Comparison],
    inputs: Tensors,
    outputs: Tensors,
    exactly: Callable[[list[torch.Tensor]], Tensors],
    again: Callable[[int, Tensors], Comparison],
) -> list[Comparison]:
    """Compare outputs that may be unlucky again, with the fp64 results for perturbed inputs.

    exactly: the fp64 results for inputs. again: compares the output of that number. It costs nothing where no output is unlucky.
    """
    perturbed: list[Tensors] = []
    for count in SHAKE_COUNTS:
        if not any(map(fails_budget_only, comparisons)):
            break
        try:
            perturbed += [exactly(perturb_inputs_one_ulp(inputs)) for _ in range(count - len(perturbed))]
        except ReferenceFailed:  # it takes no inputs but exact ones: then nothing is excused
            break
        fitting = [
            [tensor for tensor in moved if tensor.shape == output.shape]
            for output, moved in zip(outputs, zip(*perturbed, strict=True), strict=True)
        ]
        comparisons = [
            again(index, fitting[index]) if fails_budget_only(comparison) else comparison for index, comparison in enumerate(comparisons)
        ]
    return comparisons


def fails_budget_only(comparison: Comparison) -> bool:
    """Return whether all that is wrong with an output is the budget, and it has so few elements that the inputs are to be shaken."""
    over = comparison.budget_ratio is not None and comparison.budget_ratio > 1
    return (
        over
        and comparison.element_count <= FEW
        and not (comparison.mismatched_count or comparison.unwritten_count or comparison.nonfinite_count)
    )


def perturb_inputs_one_ulp(inputs: Tensors) -> list[torch.Tensor]:
    """The inputs in double precision, every float of them a unit of its last place larger or smaller: of float32's, but for doubles."""
    return [_shake(tensor) if tensor.is_floating_point() else tensor for tensor in inputs]


def _shake(tensor: torch.Tensor) -> torch.Tensor:
    unit = torch.finfo(torch.float64 if tensor.dtype == torch.float64 else torch.float32).eps
    up = torch.randint(0, 2, tensor.shape, dtype=torch.float64, device=tensor.device)
    return tensor.double() * (1 + unit * (2 * up - 1))


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Join comparisons: of an output's pieces, or of a run's outputs."""
    return Comparison(
        element_count=sum(part.element_count for part in parts),
        mismatched_count=sum(part.mismatched_count for part in parts),
        unwritten_count=sum(part.unwritten_count for part in parts),
        nonfinite_count=sum(part.nonfinite_count for part in parts),
        max_absolute_error=max((part.max_absolute_error for part in parts), default=0.0),
        max_relative_error=max((part.max_relative_error for part in parts), default=0.0),
        budget_ratio=max((part.budget_ratio for part in parts if part.budget_ratio is not None), default=None),
    )
