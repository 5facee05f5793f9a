"""The first elements of an output that are wrong, for people.  Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch

from sandbox.judge.tensors import FLOAT4, is_narrow, numbers
from sandbox.protocol import wire

MOST = 5
CHUNK = 1 << 20  # elements looked at together: a mask of all indices would be larger than the output


def first_wrong(
    name: str, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance, most: int = MOST
) -> tuple[wire.WrongElement, ...]:
    """The first elements, in the order of memory, that are not written or beyond the element-wise tolerance.

    Where every element is within it, as where only the error budget is exceeded, those with the largest error. output, reference,
    unwritten: of one shape; most: how many at most.
    """
    out, ref, missing = (one.reshape(-1) for one in (output, reference, unwritten))
    places = list(islice(_beyond(out, ref, missing, tolerance), most)) or _largest(out, ref, most)
    return tuple(
        wire.WrongElement(
            output=name,
            index=tuple(int(one) for one in torch.unravel_index(torch.tensor(place), output.shape)) if output.dim() else (),
            expected=float(ref[place].double()),
            actual=float(out[place].double()),
            allowed_error=_allowed(ref[place], tolerance),
        )
        for place in places
    )


def _allowed(reference: torch.Tensor, tolerance: wire.Tolerance) -> float:
    """By how much an element may differ from this one, as in `wrong_mask`; 0 where only the same is right."""
    if not reference.dtype.is_floating_point or not bool(reference.isfinite()):
        return 0.0
    return tolerance.atol + tolerance.rtol * abs(float(reference.double()))


def wrong_mask(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance) -> torch.Tensor:
    """A mask of the elements that are not written or beyond the element-wise tolerance. An integer that was not written may be right."""
    if not reference.dtype.is_floating_point:
        differs = output != reference
        return differs | unwritten if reference.dtype == torch.bool else differs
    out, ref = output.double(), reference.double()
    error = (out - ref).abs_()
    wrong = error > (tolerance.rtol * ref.abs()).add_(tolerance.atol)
    if not bool(error.sum().isfinite()):  # as in `tolerance.py`: only equal infinities, and NaN in both, are right
        same_class = (out == ref) | (out.isnan() & ref.isnan())
        wrong = torch.where(out.isfinite() & ref.isfinite(), wrong, ~same_class)
    return wrong | unwritten


def comparable(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The three as `compare` takes them: a byte that is right was written. Floats of a byte are widened; of float4 the last axis is twice
    as long."""
    if not is_narrow(reference.dtype) or output.dtype != reference.dtype:
        return output, reference, unwritten
    unwritten = unwritten & (output.view(torch.uint8) != reference.view(torch.uint8))
    if reference.dtype == FLOAT4:
        unwritten = unwritten.repeat_interleave(2, -1)
    return numbers(output).float(), numbers(reference).float(), unwritten


def _beyond(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance) -> Iterator[int]:
    """Places of elements that are wrong."""
    for begin in range(0, output.numel(), CHUNK):
        chunk = slice(begin, begin + CHUNK)
        wrong = wrong_mask(output[chunk], reference[chunk], unwritten[chunk], tolerance)
        yield from (begin + int(place) for place in wrong.nonzero().view(-1)[:MOST])


def _largest(output: torch.Tensor, reference: torch.Tensor, most: int) -> list[int]:
    """Places of the largest errors, largest first; none where there is no error."""
    best: list[tuple[float, int]] = []
    for begin in range(0, output.numel(), CHUNK):
        error = (output[begin : begin + CHUNK].double() - reference[begin : begin + CHUNK].double()).abs()
        found = error.topk(min(most, error.numel()))
        best += [(float(value), begin + int(place)) for value, place in zip(found.values, found.indices, strict=True) if value > 0]
        best = sorted(best, reverse=True)[:most]
    return [place for _, place in best]
