"""Copy of a kernel's return value to where the judge looks, if it has the shape and dtype that the problem asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.launch.loop import LaunchRefused
from sandbox.protocol import wire
from sandbox.protocol.gate import Slot, Status
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.languages.torch_extension import copy_out


def job(dtype: str = "float32") -> wire.RunnerJob:
    output = wire.TensorSpec(name="y", dtype=dtype, shape=("m", "n"))
    return wire.RunnerJob(device_kind="emulated", language="python", entry="run", inputs=(), outputs=(output,), arena_bytes=64)


def test_float32_is_taken_for_float64_where_a_format_says_so() -> None:
    """Controls: elsewhere it is not, nor is any other dtype, there or for another."""
    target, value = torch.zeros(2, 3, dtype=torch.float64), torch.arange(6.0).view(2, 3)
    copy_out(value, [target], job("float64"), widens=True)
    assert target.tolist() == value.tolist()
    for dtype, wanted, widens in (
        (torch.float32, torch.float64, False),
        (torch.float16, torch.float64, True),
        (torch.float64, torch.float32, True),
        (torch.bfloat16, torch.float32, True),
    ):
        with pytest.raises(LaunchRefused, match="the problem asks for") as refused:
            copy_out(value.to(dtype), [torch.zeros(2, 3, dtype=wanted)], job(), widens=widens)
        assert refused.value.status is Status.WRONG_DTYPE


def test_a_result_may_lie_as_the_target_or_be_contiguous() -> None:
    """Any other view would leave its work to the copy."""
    target, value = torch.zeros(3, 2).t(), torch.arange(6.0).view(2, 3)
    for right in (value, value.t().contiguous().t()):
        target.zero_()
        copy_out(right, [target], job())
        assert torch.equal(target, value)
    wide = torch.zeros(2, 6)
    for view, place in ((wide[:, ::2], target), (torch.zeros(1, 3).expand(2, 3), target), (value.t().contiguous().t(), torch.zeros(2, 3))):
        with pytest.raises(LaunchRefused, match="is not a contiguous tensor") as refused:
            copy_out(view, [place], job())
        assert refused.value.status is Status.WRONG_SHAPE


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"])
def test_narrow_floats_are_copied(name: str) -> None:
    value, target = (torch.arange(6, dtype=torch.uint8).view(2, 3) + number for number in (7, 90))
    dtype = getattr(torch, name)
    copy_out(value.view(dtype), [target.view(dtype)], job(name))
    assert torch.equal(value, target)


def test_one_element_is_a_number_where_the_format_broadcasts() -> None:
    """Controls: in another format it is not, nor are two elements."""
    target, broadcast = torch.zeros(()), replace(job(), convention=wire.Convention.ARGUMENTS)
    copy_out(torch.tensor([[2.5]]), [target], broadcast)
    assert float(target) == 2.5
    for value, copy_job in ((torch.tensor([2.5]), job()), (torch.ones(2), broadcast)):
        with pytest.raises(LaunchRefused, match="has shape") as refused:
            copy_out(value, [target], copy_job)
        assert refused.value.status is Status.WRONG_SHAPE


def test_a_tensor_may_lie_as_the_references_does() -> None:
    """In that order of dimensions or contiguous; in no other, and not so where the reference's is contiguous."""
    value = torch.arange(24.0).view(4, 3, 2).permute(2, 1, 0)
    target, slot = torch.zeros(2, 3, 4), Slot(offset=0, shape=(2, 3, 4), strides=value.stride())
    for right in (value, value.contiguous()):
        copy_out(right, [target.zero_()], job(), [slot])
        assert torch.equal(target, value)
    for wrong, slots in ((torch.zeros(3, 2, 4).transpose(0, 1), [slot]), (value, [replace(slot, strides=())]), (value, [])):
        with pytest.raises(LaunchRefused, match="contiguous"):
            copy_out(wrong, [target], job(), slots)
