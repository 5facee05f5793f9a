"""A problem of which a part may be left out is not admitted; with inputs that need the part it is."""

from __future__ import annotations

import dataclasses

import pytest

from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.admission.check import admit


FAILED, UNKNOWN = wire.FindingOutcome.FAILED, wire.FindingOutcome.UNKNOWN
X = wire.TensorSpec(name="x", dtype="float32", shape=("rows", "cols"))
Y = dataclasses.replace(X, name="y")
POSITIVE = wire.Distribution(kind="uniform")
ONES = wire.Distribution(kind="constant", high=1.0)


def said(reference: str, *inputs: wire.TensorSpec, sizes: tuple[tuple[int, int], ...] = ((4, 64), (3, 33))) -> set[tuple[str, str]]:
    """The checks that did not pass, and how they ended."""
    spec = wire.ProblemSpec(
        problem_id="p",
        format="native",
        entry="solve",
        inputs=inputs,
        outputs=(dataclasses.replace(X, name="out"),),
        workloads=tuple(wire.Workload(workload_id=f"{rows}x{cols}", axes={"rows": rows, "cols": cols}) for rows, cols in sizes),
        tolerance=wire.Tolerance(atol=1e-7, rtol=1e-5, budget_floor=1e-7),
        reference=f"import torch\n\n\ndef reference({', '.join(one.name for one in inputs)}):\n    return {reference}\n",
        axes=("rows", "cols"),
    )
    return {(one.check, one.outcome.value) for one in admit(spec, EmulatedDevice(), 600.0) if one.outcome is FAILED or one.check == "sizes"}


@pytest.mark.parametrize(
    ("reference", "distribution", "check"),
    [
        ("2 * torch.relu(x)", POSITIVE, "idle relu"),
        ("2 * torch.relu_(x.clone())", POSITIVE, "idle relu"),
        ("2 * torch.relu(torch.relu(x))", wire.Distribution(), "idle relu 2"),
        ("2 * x.abs()", POSITIVE, "idle abs"),
        ("x.sort(-1).values", wire.Distribution(kind="sorted"), "idle sort"),
        ("2 * (x @ torch.eye(x.shape[-1], dtype=x.dtype))", wire.Distribution(), "idle mm"),
        ("2 * (x + torch.zeros_like(x))", wire.Distribution(), "idle add"),
    ],
)
def test_an_operation_that_does_nothing_is_a_refusal(reference: str, distribution: wire.Distribution, check: str) -> None:
    """A kernel without it would be right at every trial."""
    assert said(reference, dataclasses.replace(X, distribution=distribution)) == {(check, "failed")}


@pytest.mark.parametrize(
    "reference",
    [
        "2 * torch.relu(x)",
        "x.sort(-1).values",
        "x / (x.norm() + 1e-12)",
        "torch.nn.functional.normalize(x)",
        "2 * x.clamp(-1e9, 1e9)",
        "x * 1.5",
    ],
)
def test_what_does_something_and_guards_are_none(reference: str) -> None:
    """Values of either sign need the rectifier; an epsilon and a clamp are there for what hardly ever comes."""
    assert said(reference, X) == set()


def test_a_weight_that_is_always_the_same_is_a_refusal() -> None:
    """A layer's parameters as they are before training; drawn, they are inputs like others."""
    assert ("input y", "failed") in said("2 * x * y", X, dataclasses.replace(Y, distribution=ONES))
    assert said("2 * x * y", X, Y) == set()
