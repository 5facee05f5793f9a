"""The first elements of an output that are wrong, for people.  Decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import torch

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
        )
        for place in places
    )


def _beyond(output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor, tolerance: wire.Tolerance) -> Iterator[int]:
    """Places of elements that are wrong."""
    for begin in range(0, output.numel(), CHUNK):
        out, ref, missing = (one[begin : begin + CHUNK] for one in (output, reference, unwritten))
        if reference.dtype.is_floating_point:
            out, ref = out.double(), ref.double()
            agrees = ((out - ref).abs() <= tolerance.atol + tolerance.rtol * ref.abs()) | (out == ref) | (out.isnan() & ref.isnan())
        else:
            agrees = out == ref
        wrong = ~agrees | (missing if reference.dtype.is_floating_point or reference.dtype == torch.bool else False)
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
