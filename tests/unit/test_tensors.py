"""When two tensors have the same bytes."""

from __future__ import annotations

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.tensors import same_bytes


@pytest.fixture
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """By its name, for torch is imported after collection."""
    return getattr(torch, request.param)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 4096, 4099])
@pytest.mark.parametrize("dtype", ["uint8", "bool", "bfloat16", "float32", "int64", "complex64"], indirect=True)
@pytest.mark.parametrize("begin", [0, 1])
def test_one_bit_makes_a_difference(count: int, dtype: torch.dtype, begin: int) -> None:
    """The first byte and the last, of whole words or not, and where a tensor begins inside a word."""
    first = torch.randint(0, 2, (begin + count,)).to(dtype)[begin:]
    right = first.clone()
    assert same_bytes(first, right)
    for at in (0, -1) if count else ():
        second = first.clone()
        second.view(torch.uint8)[at] ^= 1
        assert not same_bytes(first, second) and not same_bytes(second, right)


def test_nan_is_what_its_bits_are() -> None:
    """One payload is itself and no other; the two zeros are two."""
    first = torch.full((8,), 0x7FC01234, dtype=torch.int32).view(torch.float32)
    assert same_bytes(first, first.clone())
    assert not same_bytes(first, torch.full((8,), 0x7FC01235, dtype=torch.int32).view(torch.float32))
    assert not same_bytes(torch.zeros(8), -torch.zeros(8))


def test_shapes_are_looked_at_and_strides_are_not() -> None:
    """A view of the same values in another order of memory is the same."""
    first = torch.arange(24.0).view(4, 6)
    assert same_bytes(first, first.t().contiguous().t()) and not same_bytes(first, first.view(6, 4))
