"""What a kernel that knows torch is given, and what of its results is taken."""

from __future__ import annotations

from typing import cast

import pytest

from sandbox.devices import Arena
from sandbox.languages import torch_extension
from sandbox.launch.kernel import LaunchRefused
from sandbox.protocol import wire
from sandbox.protocol.gate import Slot, Status
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch


NOWHERE = cast(Arena, None)  # of what goes by value
JOB = wire.RunnerJob(
    device_kind="emulated",
    language="python",
    entry="solve",
    arena_bytes=64,
    inputs=(),
    outputs=(wire.TensorSpec(name="c", dtype="float32", shape=(3,)),),
)


@pytest.mark.parametrize(
    ("dtype", "scalar", "given"),
    [("bool", 1.0, True), ("bool", 0.0, False), ("int64", 1.0, 1), ("uint8", 3.0, 3), ("float64", 1.0, 1.0), ("bfloat16", 0.5, 0.5)],
)
def test_a_number_is_given_as_what_it_is(dtype: str, scalar: float, given: object) -> None:
    """True is no 1: torch.sort(descending=1) raises."""
    tensor = wire.TensorSpec(name="a", dtype=dtype, shape=())
    found = torch_extension.argument(NOWHERE, Slot(offset=0, shape=(), scalar=scalar), tensor)
    assert type(found) is type(given) and found == given


def test_a_result_that_is_negated_when_it_is_copied_is_refused() -> None:
    """It is contiguous, and leaves its work to the copy, which everybody is forgiven; the control has done that work."""
    value, target = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    lazy = torch._neg_view(value)
    assert lazy.is_contiguous()
    with pytest.raises(LaunchRefused, match="'c' is negated or conjugated only when it is copied") as caught:
        torch_extension.copy_out(lazy, [target], JOB)
    assert caught.value.status is Status.WRONG_SHAPE and not target.any()
    torch_extension.copy_out(lazy.resolve_neg(), [target], JOB)
    assert torch.equal(target, -value)


def test_a_result_that_lies_where_it_is_copied_to_is_refused() -> None:
    """A copy of a tensor to itself takes no time, and what a copy takes is forgiven. Beside it is another's place."""
    memory = torch.zeros(12)
    target = memory[4:8]
    for begin in (3, 4, 7):
        with pytest.raises(LaunchRefused, match="'c' lies where the grader copies it to"):
            torch_extension.copy_out(memory[begin : begin + 4], [target], JOB)
    for begin in (0, 8):
        torch_extension.copy_out(memory[begin : begin + 4], [target], JOB)
