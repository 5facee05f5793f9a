"""Compares outputs of KernelBench's kind: by the element-wise rule, and by the error budget where that rule alone says too little.

Imported sets compare by the element-wise rule alone, and a whole output may be faint next to its absolute tolerance. There zeros keep the
rule: softmax of wide rows has values below 1e-4 only. So the error against double precision has to keep the budget too, which is wide: it
rejects no right kernel, and nothing where the rule alone says as much. Outputs are compared in pieces, for whole ones in double precision
would take several times the memory that the task takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from sandbox.judge import ReferenceFailed
from sandbox.judge.tolerance import Comparison, compare, forgive_rounding_noise, joined, spread
from sandbox.protocol import wire

PIECE = 1 << 24  # elements


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseComparer:
    """|out - ref| <= atol + rtol * |ref|, and the budget where it says more. wide: the outputs in double precision."""

    allowed: wire.Tolerance
    wide: Callable[[list[torch.Tensor]], list[torch.Tensor]]
    piece: int = PIECE

    def __call__(
        self,
        workload: wire.Workload,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        expected: list[torch.Tensor],
        unwritten: list[torch.Tensor],
    ) -> list[Comparison]:
        """Compare each output. What the rule rejects is looked at in double precision too: it may be nearer to the truth than PyTorch."""
        allowed = workload.tolerance or self.allowed
        triples = list(zip(outputs, expected, unwritten, strict=True))
        for output, reference, _ in triples:
            if reference.shape != output.shape or reference.dtype != output.dtype:
                returned = f"the reference returned {reference.dtype} {tuple(reference.shape)}"
                tried = f"{output.dtype} {tuple(output.shape)} when it was tried"
                raise ReferenceFailed(f"{returned}, and {tried}; let shapes and dtypes not depend on values")
        comparisons = [self._by_rule(output, reference, reference, mask, allowed) for output, reference, mask in triples]
        passed = all(comparison.outcome is wire.TrialOutcome.PASSED for comparison in comparisons)
        if passed and not any(self._below_absolute_tolerance(reference, allowed) for reference in expected):
            return comparisons
        wide = self._in_double(inputs, expected)
        comparisons = [self._by_rule(out, ref, exact, mask, allowed) for (out, ref, mask), exact in zip(triples, wide, strict=True)]

        def again(index: int, perturbed: Sequence[torch.Tensor] = ()) -> Comparison:
            return replace(comparisons[index], budget_ratio=self._budget_ratio(*triples[index], wide[index], allowed, perturbed))

        comparisons = [again(index) for index in range(len(triples))]
        return forgive_rounding_noise(comparisons, inputs, expected, lambda tensors: self._in_double(tensors, expected), again)

    def _by_rule(
        self, output: torch.Tensor, reference: torch.Tensor, wide: torch.Tensor, mask: torch.Tensor, allowed: wire.Tolerance
    ) -> Comparison:
        rule = replace(allowed, budget_factor=None)
        return joined([compare(o, r, w, m, rule) for o, r, w, m in self._pieces(output, reference, wide, mask)])

    def _budget_ratio(
        self,
        output: torch.Tensor,
        reference: torch.Tensor,
        mask: torch.Tensor,
        wide: torch.Tensor,
        allowed: wire.Tolerance,
        perturbed: Sequence[torch.Tensor],
    ) -> float | None:
        if allowed.budget_factor is None or not reference.is_floating_point() or not reference.numel():
            return None
        spent, reference_squares, size = 0.0, 0.0, 0.0
        for out, ref, true, unwritten in self._pieces(output, reference, wide, mask):
            finite = out.isfinite() & ref.isfinite() & ~unwritten
            out, ref, true = (tensor[finite].double() for tensor in (out, ref, true))
            spent, reference_squares, size = spent + _squares(out - true), reference_squares + _squares(ref - true), size + _squares(true)
        moved = spread(wide, perturbed) * math.sqrt(wide.numel())
        limit = allowed.budget_factor * max(math.sqrt(reference_squares), moved) + allowed.budget_floor * math.sqrt(size)
        return 0.0 if spent == 0 else math.sqrt(spent) / limit if limit > 0 else math.inf

    def _below_absolute_tolerance(self, reference: torch.Tensor, allowed: wire.Tolerance) -> bool:
        """Return whether errors that the rule allows could be over the budget's floor; where not, the rule says all that the budget
        says."""
        if not reference.is_floating_point() or not reference.numel():
            return False
        rms = math.sqrt(sum(_squares(piece[piece.isfinite()].double()) for (piece,) in self._pieces(reference)) / reference.numel())
        return allowed.atol + allowed.rtol * rms > allowed.budget_floor * rms

    def _pieces(self, *tensors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
        flat = [tensor.reshape(-1) for tensor in tensors]
        for begin in range(0, max(len(flat[0]), 1), self.piece):
            yield [tensor[begin : begin + self.piece] for tensor in flat]

    def _in_double(self, inputs: list[torch.Tensor], expected: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return self.wide(inputs)
        except torch.AcceleratorError:
            raise
        except RuntimeError:  # written for its own precision only, or too large in double: then that has to do
            return expected


def _squares(values: torch.Tensor) -> float:
    return float(values.square().sum())
