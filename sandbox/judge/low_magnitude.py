"""The element-wise rule with an absolute tolerance, and the further rule for a whole output that is faint next to that tolerance.

There zeros keep the rule: softmax of wide rows has values below 1e-4 only. So the error against double precision has to keep the
tolerance's budget too, which is wide: it rejects no right kernel, and nothing where the rule alone says as much. Outputs are compared in
pieces, for whole ones in double precision would take several times the memory that the task takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from sandbox.judge import ReferenceFailed, tolerance
from sandbox.judge.tolerance import Comparison
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
            _check_alike(output, reference)
        found = [self._by_rule(output, reference, None, mask, allowed) for output, reference, mask in triples]
        passed = all(one.outcome is wire.TrialOutcome.PASSED for one in found)
        if passed and not any(self._below_absolute_tolerance(reference, allowed) for reference in expected):
            return found
        wide = self._in_double(inputs, expected)
        found = [self._by_rule(out, ref, one, mask, allowed) for (out, ref, mask), one in zip(triples, wide, strict=True)]
        found = [
            replace(one, budget_ratio=self._budget_ratio(*triple, exact, allowed))
            for one, triple, exact in zip(found, triples, wide, strict=True)
        ]

        def again(index: int, perturbed: Sequence[torch.Tensor]) -> Comparison:
            return replace(found[index], budget_ratio=self._budget_ratio(*triples[index], wide[index], allowed, perturbed))

        return tolerance.forgive_rounding_noise(found, inputs, expected, lambda given: self._in_double(given, expected), again)

    def _by_rule(
        self, output: torch.Tensor, reference: torch.Tensor, wide: torch.Tensor | None, mask: torch.Tensor, allowed: wire.Tolerance
    ) -> Comparison:
        rule = replace(allowed, budget_factor=None)
        wider = reference if wide is None else wide
        return joined([tolerance.compare(o, r, w, m, rule) for o, r, w, m in self._pieces(output, reference, wider, mask)])

    def _budget_ratio(
        self,
        output: torch.Tensor,
        reference: torch.Tensor,
        mask: torch.Tensor,
        wide: torch.Tensor,
        allowed: wire.Tolerance,
        perturbed: Sequence[torch.Tensor] = (),
    ) -> float | None:
        """The error against double precision over what is allowed of it."""
        if allowed.budget_factor is None or not reference.is_floating_point() or not reference.numel():
            return None
        spent, own, size = 0.0, 0.0, 0.0
        for out, ref, true, unwritten in self._pieces(output, reference, wide, mask):
            seen = out.isfinite() & ref.isfinite() & ~unwritten
            out, ref, true = (one[seen].double() for one in (out, ref, true))
            spent, own, size = spent + _squares(out - true), own + _squares(ref - true), size + _squares(true)
        moved = tolerance.spread(wide, perturbed) * math.sqrt(wide.numel())
        most = allowed.budget_factor * max(math.sqrt(own), moved) + allowed.budget_floor * math.sqrt(size)
        return 0.0 if spent == 0 else math.sqrt(spent) / most if most > 0 else math.inf

    def _below_absolute_tolerance(self, reference: torch.Tensor, allowed: wire.Tolerance) -> bool:
        """Whether errors that the rule allows could be over the budget's floor; where not, the rule says all that the budget says."""
        if not reference.is_floating_point() or not reference.numel():
            return False
        rms = math.sqrt(sum(_squares(one[one.isfinite()].double()) for (one,) in self._pieces(reference)) / reference.numel())
        return allowed.atol + allowed.rtol * rms > allowed.budget_floor * rms

    def _pieces(self, *tensors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
        flat = [one.reshape(-1) for one in tensors]
        for begin in range(0, max(len(flat[0]), 1), self.piece):
            yield [one[begin : begin + self.piece] for one in flat]

    def _in_double(self, inputs: list[torch.Tensor], expected: list[torch.Tensor]) -> list[torch.Tensor]:
        try:
            return self.wide(inputs)
        except torch.AcceleratorError:
            raise
        except RuntimeError:  # written for its own precision only, or too large in double: then that has to do
            return expected


def joined(parts: Sequence[Comparison]) -> Comparison:
    """What the comparisons of an output's pieces say of the whole."""
    return Comparison(
        element_count=sum(one.element_count for one in parts),
        mismatched_count=sum(one.mismatched_count for one in parts),
        unwritten_count=sum(one.unwritten_count for one in parts),
        nonfinite_count=sum(one.nonfinite_count for one in parts),
        max_absolute_error=max(one.max_absolute_error for one in parts),
        max_relative_error=max(one.max_relative_error for one in parts),
    )


def _squares(values: torch.Tensor) -> float:
    return float(values.square().sum())


def _check_alike(output: torch.Tensor, reference: torch.Tensor) -> None:
    if reference.shape != output.shape or reference.dtype != output.dtype:
        text = (
            f"the reference returned {reference.dtype} {tuple(reference.shape)}, and {output.dtype} {tuple(output.shape)} when it was tried"
        )
        raise ReferenceFailed(f"{text}; let shapes and dtypes not depend on values")
