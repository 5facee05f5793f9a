"""Outcomes of a task's own outputs, judged without a runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sandbox.protocol import wire

PASSED, MISMATCHED = wire.TrialOutcome.PASSED, wire.TrialOutcome.MISMATCHED
KEY, OTHER_KEY = "0123456789abcdef" * 2, "f" * 32


def outcomes(
    task: Any, change: Callable[..., Any] = lambda outputs: outputs, masks: Any = None, workload: int = 0, key: str = KEY
) -> list[wire.TrialOutcome]:
    """Return what is said of the reference's outputs, changed."""
    import torch

    judged_at = task.spec.workloads[workload]
    inputs = task.draw(judged_at, key)
    expected = task.reference([tensor.clone() for tensor in inputs])
    outputs = change([tensor.clone() for tensor in expected])
    unwritten = masks(outputs) if masks else [torch.zeros_like(tensor, dtype=torch.bool) for tensor in outputs]
    return [comparison.outcome for comparison in task.compare(judged_at, inputs, outputs, expected, unwritten)]
