"""A published problem is refused only where an answer needs no input or its reference fails; what else could pass is a warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.admission.problem_check import Admission, AdmissionOutcome
from grader.formats import kernelbench
from grader.formats.adjustments import UNCHANGED, Adjustments
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.admission.check import admit

MODEL = """import torch

class Model(torch.nn.Module):
    def forward(self, {parameters}):
        return {answer}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
X, TRIANGLE = "torch.randn(32, 32)", "torch.randn(32, 32).tril()"


def checked(
    directory: Path, answer: str, *inputs: str, adjustments: Adjustments = UNCHANGED
) -> tuple[AdmissionOutcome, dict[str, set[str]]]:
    """What a check of such a file comes to, and the checks that ended with each outcome."""
    path = directory / "1_x.py"
    parameters = ", ".join("xyz"[: len(inputs)])
    path.write_text(MODEL.format(parameters=parameters, answer=answer, inputs=", ".join(inputs)))
    problem = kernelbench.load(path, adjustments=adjustments)
    found = [one for one in admit(problem.spec, EmulatedDevice(), 600.0) if isinstance(one, wire.Finding)]
    outcome = Admission(problem_id="p", digest="d", findings=tuple(found)).outcome
    return outcome, {kind.value: {one.check for one in found if one.outcome is kind} for kind in wire.FindingOutcome}


@pytest.mark.parametrize(
    ("answer", "inputs", "warning"),
    [
        ("(x @ y).tril()", (TRIANGLE, TRIANGLE), "idle tril"),
        ("torch.relu(x) * 2", ("torch.rand(32, 32)",), "idle relu"),
        ("x.abs().mean().reshape(1)", ("torch.randn(64, 1024)",), "half precision"),
        ("x * y", (X, "torch.ones(32, 32)"), "idle mul"),
    ],
)
def test_what_could_pass_is_a_warning(tmp_path: Path, answer: str, inputs: tuple[str, ...], warning: str) -> None:
    outcome, found = checked(tmp_path, answer, *inputs)
    assert outcome is AdmissionOutcome.WARNED and warning in found["warning"] and not found["failed"]


@pytest.mark.parametrize(
    ("answer", "inputs", "failed"),
    [
        ("torch.softmax(x, 1).sum(1)", (X,), {"input x", "seed", "ones", "constant mean"}),
        ("torch.zeros_like(x)", (X,), {"input x", "seed"}),
        ("x * 2 + 1e-9 * y", (X, X), {"input y"}),
        ("x.log()", (X,), {"finite"}),
        ("x[0, 0, 0]", (X,), {"runs"}),
    ],
)
def test_an_answer_that_needs_no_input_is_refused(tmp_path: Path, answer: str, inputs: tuple[str, ...], failed: set[str]) -> None:
    """And a reference that fails."""
    outcome, found = checked(tmp_path, answer, *inputs)
    assert outcome is AdmissionOutcome.REFUSED and found["failed"] == failed


def test_a_good_one_is_admitted_without_a_word(tmp_path: Path) -> None:
    """The control."""
    outcome, found = checked(tmp_path, "x @ y", X, X)
    assert outcome is AdmissionOutcome.ADMITTED and not found["warning"] | found["failed"]


def test_lower_precision_that_is_allowed_is_not_asked_to_be_rejected(tmp_path: Path) -> None:
    """It is reported, and no warning; at the same tolerance without that it is one. Zeros are rejected by both."""
    for allowed, kind in ((True, "unknown"), (False, "warning")):
        rule = Adjustments(tolerance=1e-2, allow_lower_precision=allowed)
        outcome, found = checked(tmp_path, "x @ y", X, X, adjustments=rule)
        assert "half precision" in found[kind] and "zeros" in found["passed"] and not found["failed"]
        assert outcome is (AdmissionOutcome.ADMITTED if allowed else AdmissionOutcome.WARNED)
