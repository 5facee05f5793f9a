"""Two rules of comparison: FlashInfer's, by which an element is wrong only if both its absolute and its relative error are too large, and
SOL's, which is allclose's. Both forgive as many wrong elements as the matched ratio leaves. Infinities and NaN are wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sandbox.judge import references
from sandbox.judge.compare.tolerance import Comparison
from sandbox.judge.tensors import is_narrow, numbers

_SMALLEST = 1e-8  # what FlashInfer adds to a divisor
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """kind: "flashinfer" or "sol". ratio: of the elements that have to be right. cap: no element may be further off, whatever the ratio.
    negative_inf: whether minus infinity is right where the reference has it."""

    kind: str
    atol: float
    rtol: float
    ratio: float
    cap: float | None
    negative_inf: bool

    def compare(self, output: torch.Tensor, reference: torch.Tensor, unwritten: torch.Tensor) -> Comparison:
        """Compare one output; unwritten elements are wrong, and none of them is forgiven."""
        out, ref = numbers(output), numbers(reference)
        agreed = (out == ref) & ref.isneginf() if self.negative_inf else torch.zeros_like(unwritten)
        if bool((~ref.isfinite() & ~(ref.isneginf() & self.negative_inf)).any()):
            text = "set allow_negative_inf if that is meant" if self.kind == "sol" else "no kernel could be right there"
            raise references.ReferenceFailed(f"the reference's output is not finite; {text}")
        certain = (output.is_floating_point() and not is_narrow(output.dtype)) or output.dtype == torch.bool
        unwritten = unwritten if certain else unwritten & (out != ref)  # the sentinel may be the right answer
        nonfinite = ~out.isfinite() & ~agreed & ~unwritten
        error = (out - ref).abs()
        beyond = ~agreed & self._beyond(error, ref)
        seen = out.isfinite() & ref.isfinite() & ~unwritten
        return Comparison(
            element_count=output.numel(),
            mismatched_count=self._unforgiven(out, ref, error, beyond, agreed, unwritten),
            unwritten_count=int(unwritten.sum()),
            nonfinite_count=int(nonfinite.sum()),
            max_absolute_error=_largest(error[seen]),
            max_relative_error=_largest((error / self._divisor(ref))[seen]),
        )

    def _divisor(self, ref: torch.Tensor) -> torch.Tensor:
        return ref.abs() + _SMALLEST if self.kind == "flashinfer" else ref.abs().clamp_min(max(self.atol, _SMALLEST))

    def _beyond(self, error: torch.Tensor, ref: torch.Tensor) -> torch.Tensor:
        if self.kind == "flashinfer":
            far = (error > self.atol) & (error / self._divisor(ref) > self.rtol)
        else:
            far = error > self.atol + self.rtol * ref.abs()
        return far | ~error.isfinite()

    def _unforgiven(
        self,
        out: torch.Tensor,
        ref: torch.Tensor,
        error: torch.Tensor,
        beyond: torch.Tensor,
        agreed: torch.Tensor,
        unwritten: torch.Tensor,
    ) -> int:
        """How many elements are wrong, if it is more than the ratio forgives."""
        if self.kind == "sol" and bool((ref != 0).any()) and not bool((out != 0).any()):
            return int((ref != 0).sum())  # a kernel that did nothing, where most of the answer is small
        counted, wrong = out.numel() - int(agreed.sum()), int((beyond | unwritten).sum())
        over = 0 if self.cap is None else int(((error > self.cap) & ~agreed).sum())
        forgiven = math.floor((1.0 - self.ratio) * counted + _ROUNDING)
        return wrong if wrong > forgiven else max(over, int(unwritten.sum()))


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0
