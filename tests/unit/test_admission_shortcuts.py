"""Admission tries numerical shortcuts on the reference, and finds the problems that would accept them."""

from __future__ import annotations

import dataclasses

import pytest

from sandbox import wire
from sandbox.devices.emulated import EmulatedDevice
from tests.collection import AFTER_COLLECTION
from tests.unit.test_admission import problem

if AFTER_COLLECTION:
    from sandbox.judge.admission import admit
    from sandbox.judge.admission_shortcuts import narrow_devices

PASSED, FAILED, UNKNOWN = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED, wire.FindingOutcome.UNKNOWN
BUDGET_S = 60.0
USUAL = wire.Tolerance(atol=1e-20, rtol=1e-3, budget_factor=64.0, budget_floor=1e-7)
ROUGH = wire.Tolerance(atol=1e-4, rtol=1e-4, budget_factor=None)
SMALL = wire.Distribution(kind="normal", scale=1.0)
LARGE = wire.Distribution(kind="uniform", low=70.0, high=100.0)
FAR = wire.Distribution(kind="normal", offset=1000.0)


def x(distribution: wire.Distribution) -> wire.TensorSpec:
    return wire.TensorSpec(name="x", dtype="float32", shape=("rows", "cols"), distribution=distribution)


def outcome(check: str, spec: wire.ProblemSpec) -> wire.FindingOutcome | None:
    """What is found over all workloads; None where the mutant was never made."""
    found = [one.outcome for one in admit(spec, EmulatedDevice(), BUDGET_S) if one.check == check]
    return FAILED if FAILED in found else PASSED if PASSED in found else UNKNOWN if found else None


@pytest.mark.parametrize(
    "reference",
    [
        "return torch.softmax(x, -1)",
        "return x.softmax(-1)",
        "return torch.nn.functional.log_softmax(x, -1)",
        "return x - torch.logsumexp(x, -1, keepdim=True)",
        "e = torch.exp(x - x.amax(-1, keepdim=True)); return e / e.sum(-1, keepdim=True)",
        "e = torch.exp(x - x.max(-1, keepdim=True).values); return e / e.sum(-1, keepdim=True)",
        "return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])[0]",
    ],
)
def test_a_softmax_without_its_maximum_is_rejected_only_where_values_are_large(reference: str) -> None:
    """The control: with values around zero nothing rejects it; where the answer differs in its last bits, the problem is refused."""
    tolerance = ROUGH if "log" in reference else USUAL
    small = outcome("no maximum", problem(reference, x(SMALL), tolerance=tolerance))
    assert small is FAILED if "softmax" in reference else small in (FAILED, UNKNOWN)
    assert outcome("no maximum", problem(reference, x(LARGE), tolerance=tolerance)) is PASSED


@pytest.mark.parametrize(
    "reference",
    [
        "return torch.nn.functional.layer_norm(x, x.shape[-1:])",
        "return (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True).sqrt()",
        "return (x - x.mean(-1, keepdim=True)) / torch.std(x, -1, unbiased=False, keepdim=True)",
        "return torch.nn.functional.group_norm(x[None], 4)[0]",
    ],
)
def test_one_pass_moments_are_rejected_only_where_the_mean_is_large(reference: str) -> None:
    """The control: with a mean of zero nothing cancels."""
    assert outcome("one-pass moments", problem(reference, x(SMALL), tolerance=ROUGH)) is FAILED
    assert outcome("one-pass moments", problem(reference, x(FAR), tolerance=ROUGH)) is PASSED


def test_zeros_below_atol_are_rejected_only_where_atol_is_small() -> None:
    """A softmax of 64 values of which most answers are under 1e-6."""
    heavy = problem("return torch.softmax(x, -1)", x(LARGE), tolerance=dataclasses.replace(USUAL, atol=1e-6))
    assert outcome("small values", heavy) is FAILED
    assert outcome("small values", dataclasses.replace(heavy, tolerance=USUAL)) is not FAILED


def test_what_has_no_softmax_and_no_variance_is_not_tried() -> None:
    spec = problem("return x * x", x(SMALL))
    assert outcome("no maximum", spec) is outcome("one-pass moments", spec) is None


def test_one_workload_that_rejects_it_is_enough() -> None:
    """Of two workloads the one of a single column can't tell, which is no refusal."""
    spec = problem("return torch.softmax(x, -1)", x(LARGE), tolerance=USUAL)
    narrow = wire.Workload(workload_id="narrow", axes={"rows": 4, "cols": 1})
    assert outcome("no maximum", dataclasses.replace(spec, workloads=(*spec.workloads, narrow))) is PASSED


def workloads(emulated_columns: int) -> tuple[wire.Workload, ...]:
    return (
        wire.Workload(workload_id="here", axes={"rows": 2, "cols": emulated_columns}, device_kind="emulated"),
        wire.Workload(workload_id="there", axes={"rows": 2, "cols": 4096}, device_kind="cuda"),
    )


def test_a_device_on_which_no_row_is_longer_than_a_block_is_found() -> None:
    """Where rows could be longer it is a refusal; of squares only, it is said."""
    spec = problem("return x * x", x(SMALL))
    assert list(narrow_devices(dataclasses.replace(spec, workloads=workloads(1024)))) == [("emulated", True)]
    assert list(narrow_devices(dataclasses.replace(spec, workloads=workloads(1025)))) == []
    assert list(narrow_devices(dataclasses.replace(spec, workloads=workloads(1024), axes=("cols",)))) == [("emulated", False)]
    assert outcome("columns", dataclasses.replace(spec, workloads=workloads(64))) is FAILED
    assert outcome("columns", dataclasses.replace(spec, workloads=workloads(1025))) is None
