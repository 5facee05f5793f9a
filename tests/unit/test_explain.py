"""A trial that failed says which elements are wrong first, and what its errors look like."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status
from sandbox.protocol.wire import Symptom, TrialOutcome
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.explain import explain, first_wrong
    from sandbox.judge.references import Task
    from sandbox.judge.tolerance import fill_with_poison, output_was_read, unwritten_mask
    from sandbox.judge.trial import Run, WorkloadContext, judge_run

TOLERANCE = wire.Tolerance(atol=1e-5, rtol=1e-5)
WORKLOAD = wire.Workload(workload_id="n8", axes={})
A, B, C = (wire.TensorSpec(name=name, dtype="float32", shape=(64, 64)) for name in "abc")
PROBLEM = replace(fakes.problem().spec, inputs=(A, B), outputs=(C,), workloads=(WORKLOAD,))


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(64, 64, generator=generator) for _ in range(2)]


def product(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensors[0] @ tensors[1]]


def explained(
    output: torch.Tensor,
    *,
    earlier: torch.Tensor | None = None,
    reference: Callable[[list[torch.Tensor]], list[torch.Tensor]] | None = None,
    tolerance: wire.Tolerance = TOLERANCE,
    takes_outputs: bool = False,
    **of_run: Any,
) -> wire.Trial:
    """The trial of a product's output."""
    tensors = inputs()
    unwritten = of_run.pop("unwritten", torch.zeros_like(output, dtype=torch.bool))
    reply = Answer(status=Status.OK, message=of_run.pop("message", ""))
    result = Run(key="k", reply=reply, duration_ns=1, inputs=tensors, outputs=[output], unwritten=[unwritten], **of_run)
    bench = WorkloadContext(Task(spec=replace(PROBLEM, tolerance=tolerance), reference=reference or product), WORKLOAD)
    trial = judge_run(result, bench, wire.TrialPhase.VERIFY, 0)
    return explain(trial, result, bench, None if earlier is None else [earlier], takes_outputs=takes_outputs)


def test_the_first_wrong_elements_have_place_and_values() -> None:
    """In the order of memory, and no more than five."""
    right = torch.arange(24.0).view(2, 3, 4)
    out = right.clone()
    out[0, 1, 2], out[1, 2, 3] = 50.0, math.nan
    first, second = first_wrong("y", out, right, torch.zeros_like(out, dtype=torch.bool), TOLERANCE)
    allowed = TOLERANCE.atol + 6.0 * TOLERANCE.rtol
    assert first == wire.WrongElement(output="y", index=(0, 1, 2), expected=6.0, actual=50.0, allowed_error=allowed)
    assert second.index == (1, 2, 3) and second.expected == 23.0 and math.isnan(second.actual)
    assert len(first_wrong("y", out + 1, right, torch.zeros_like(out, dtype=torch.bool), TOLERANCE)) == 5


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_a_product_of_lower_precision_is_recognised(name: str) -> None:
    """Its operands were rounded, as tensor cores take them; or its result was, at the end."""
    lower = getattr(torch, name)
    a, b = inputs()
    rounded = a.to(lower).float() @ b.to(lower).float()
    assert explained(rounded).symptom == Symptom(name)
    assert explained((a @ b).to(lower).float()).symptom == Symptom(name)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("scale", [lambda total: total / 63, lambda total: total * (1 / 63)])
def test_a_sum_of_lower_precision_is_recognised_by_its_length(name: str, scale: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Of a mean. The control is the same mean of a sum in single precision, with one term left out."""
    rows = torch.rand(40, 63, generator=torch.Generator().manual_seed(7))
    total = torch.zeros(40, dtype=getattr(torch, name))
    for column in rows.T:
        total = total + column.to(total.dtype)
    problem = replace(PROBLEM, inputs=(A,), outputs=(C,), tolerance=TOLERANCE)
    bench = WorkloadContext(Task(spec=problem, reference=lambda tensors: [tensors[0].mean(1)]), WORKLOAD)
    for output, symptom in ((scale(total.float()), Symptom(f"{name}_sum")), (scale(rows[:, 1:].sum(1)), None)):
        reply, unwritten = Answer(status=Status.OK), [torch.zeros(40, dtype=torch.bool)]
        result = Run(key="k", reply=reply, duration_ns=1, inputs=[rows], outputs=[output], unwritten=unwritten)
        assert explain(judge_run(result, bench, wire.TrialPhase.VERIFY, 0), result, bench, None).symptom is symptom


def test_other_errors_look_like_no_precision() -> None:
    """A missing term, noise of the same size as half precision's, and an answer that is far off."""
    a, b = inputs()
    right = a @ b
    noise = torch.randn(64, 64, generator=torch.Generator().manual_seed(1)) * (right.abs() * 2**-11)
    for output in (a[:, 1:] @ b[1:], right + noise, right.T.contiguous()):
        assert explained(output).symptom is None


def test_the_answer_of_the_run_before_is_recognised() -> None:
    """Bit by bit; the control is another wrong answer."""
    before = (inputs()[0] + 1) @ inputs()[1]
    assert explained(before.clone(), earlier=before).symptom is Symptom.PREVIOUS_ANSWER
    assert explained(before + 1, earlier=before).symptom is None


def test_nan_computed_from_the_output_is_not_called_unwritten() -> None:
    """beta * C with beta = 0: the poison is a signalling NaN, and arithmetic makes it quiet. What nobody wrote stays as it was."""
    a, b = inputs()
    output = torch.empty(64, 64)
    bits = fill_with_poison(output)
    computed = a @ b + 0.0 * output
    assert output_was_read(computed, bits) and not bool(unwritten_mask(computed, bits).any())
    trial = explained(computed, unwritten=unwritten_mask(computed, bits), poison_bits=(bits,))
    assert (trial.outcome, trial.symptom) == (TrialOutcome.NON_FINITE, Symptom.OUTPUT_READ)
    assert bool(unwritten_mask(output, bits).all()) and not output_was_read(output, bits)


def test_a_cuda_error_is_shown_in_its_form_only() -> None:
    """The runner's process makes the text up as it likes."""
    message = "cudaErrorInvalidValue: invalid argument"
    assert explained(torch.zeros(64, 64), message=message).cuda_error == message
    assert explained(torch.zeros(64, 64), message="n is 4096").cuda_error == ""
    assert explained(product(inputs())[0], message=message).cuda_error == ""  # it passed


def test_a_reference_that_fails_on_rounded_inputs_takes_nothing_away() -> None:
    """The elements are shown; the outcome stays."""

    def picky(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        if not torch.equal(tensors[0], inputs()[0]):
            raise ValueError("other inputs")
        return product(tensors)

    a, b = inputs()
    trial = explained(a @ b + 1e-3, reference=picky, tolerance=wire.Tolerance(budget_factor=None))
    assert trial.outcome is TrialOutcome.MISMATCHED and len(trial.wrong_elements) == 5 and trial.symptom is None


def test_an_entry_that_is_given_its_outputs_and_writes_none_is_told() -> None:
    """The control writes one element, so it knows where they are."""
    output, unwritten = torch.full((64, 64), math.nan), torch.ones(64, 64, dtype=torch.bool)
    for symptom in (Symptom.RESULT_IGNORED, None):
        assert explained(output, unwritten=unwritten, takes_outputs=True).symptom is symptom
        unwritten[0, 0] = False


def test_an_explanation_imports_nothing_for_seconds() -> None:
    """The first wrong answer of a judge has its elements and its symptom without torch's compiler and without sympy."""
    program = """
import sys
from tests.unit.test_explain import explained, inputs, product
trial = explained(product(inputs())[0] + 0.01)
assert trial.wrong_elements
print([name for name in ("sympy", "torch._dynamo") if name in sys.modules])
"""
    process = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
