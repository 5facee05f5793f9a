"""The rule of KernelBench's kind, where an output has one element."""

from __future__ import annotations

import pytest

from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats.elementwise import ElementwiseComparer
    from tests.unit import test_few_elements as few


@pytest.mark.slow
def test_a_loss_of_kernelbench_is_not_unlucky_either() -> None:
    """Its rule has the budget where an output is faint."""
    random = torch.Generator().manual_seed(8)
    comparer = ElementwiseComparer(allowed=wire.Tolerance(atol=1e-4, rtol=1e-4), wide=lambda inputs: [few.mean(inputs[0].double())])

    def share(kernel: few.Kernel) -> float:
        bad = 0
        rows = torch.randn(few.COUNT, 1500, generator=random)
        for x, output in zip(rows.split(1), kernel(rows).split(1), strict=True):
            (comparison,) = comparer(few.MEAN.workloads[0], [x], [output], [few.mean(x)], [torch.zeros(1, dtype=torch.bool)])
            bad += comparison.outcome is not wire.TrialOutcome.PASSED
        return bad / few.COUNT

    assert share(few.sequential) == 0 and share(few.in_half) > 0.85
