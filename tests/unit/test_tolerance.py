"""What counts as right, element by element and as a whole."""

import math

import pytest
import torch

from sandbox import wire
from sandbox.judge import poison
from sandbox.judge.tolerance import Comparison, _rms, compare

LOOSE = wire.Tolerance(atol=math.inf, rtol=math.inf, budget_factor=None)
TIGHT = wire.Tolerance(atol=1e-5, rtol=1e-5)


def compared(
    output: torch.Tensor, reference: torch.Tensor, tolerance: wire.Tolerance = TIGHT, wide: torch.Tensor | None = None
) -> Comparison:
    return compare(output, reference, wide, torch.zeros(output.shape, dtype=torch.bool), tolerance)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_an_unwritten_element_is_a_wrong_answer(dtype: torch.dtype) -> None:
    """NaN left in an output counts as unwritten, even where the tolerance is infinite."""
    output = torch.empty(100, dtype=dtype)
    bits = poison.fill(output)
    output[1:] = 1
    found = compare(output, torch.ones(100, dtype=dtype), None, poison.unwritten(output, bits), LOOSE)
    assert (found.outcome, found.unwritten_count) == (wire.TrialOutcome.UNWRITTEN, 1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool])
def test_an_unwritten_integer_is_a_wrong_answer(dtype: torch.dtype) -> None:
    """Integers have no NaN; a random sentinel shows instead."""
    output = torch.empty(4096, dtype=dtype)
    bits = poison.fill(output)
    reference = torch.randint(0, 2, (4096,)).to(dtype)
    output[1:] = reference[1:]
    if dtype not in (torch.bool,) and int(reference[0]) == int(output[0]):
        pytest.skip("the sentinel is the right answer this time")
    found = compare(output, reference, None, poison.unwritten(output, bits), LOOSE)
    assert found.outcome is wire.TrialOutcome.UNWRITTEN


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool])
def test_what_lies_in_memory_of_the_kernels_own_is_unwritten_too(dtype: torch.dtype) -> None:
    """A kernel that returns its outputs hands out what its allocator gave it: on a GPU all bits are set there."""
    output = torch.empty(64, dtype=dtype)
    output.view(torch.uint8).fill_(0xFF)
    reference = torch.ones(64, dtype=dtype)
    output[8:] = reference[8:]
    found = compare(output, reference, None, poison.unwritten(output, 5), LOOSE)
    assert (found.outcome, found.unwritten_count) == (wire.TrialOutcome.UNWRITTEN, 8)


def test_two_poisons_differ() -> None:
    """A kernel can't know this trial's NaN from the last one's."""
    assert len({poison.fill(torch.empty(1, dtype=torch.float32)) for _ in range(8)}) > 1


def test_a_nan_that_the_kernel_made_is_not_called_unwritten() -> None:
    """0/0 is the kernel's own doing, and the report says so."""
    output = torch.empty(4)
    bits = poison.fill(output)
    output[:] = torch.zeros(4) / torch.zeros(4) * -1
    output.view(torch.int32).fill_(-0x400000)  # x86's default NaN has its sign set
    found = compare(output, torch.ones(4), None, poison.unwritten(output, bits), LOOSE)
    assert found.outcome is wire.TrialOutcome.NON_FINITE


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_where_the_reference_is_finite_is_wrong(value: float) -> None:
    """No tolerance covers an infinity."""
    output = torch.ones(8)
    output[3] = value
    assert compared(output, torch.ones(8), LOOSE).outcome is not wire.TrialOutcome.PASSED


def test_finite_where_the_reference_is_infinite_is_wrong() -> None:
    """And the other way round."""
    reference = torch.tensor([1.0, math.inf])
    assert compared(torch.tensor([1.0, 3e38]), reference, LOOSE).outcome is wire.TrialOutcome.MISMATCHED
    assert compared(torch.tensor([1.0, -math.inf]), reference, LOOSE).outcome is not wire.TrialOutcome.PASSED
    assert compared(reference.clone(), reference).outcome is wire.TrialOutcome.PASSED


def test_one_wrong_element_in_a_million_is_wrong() -> None:
    """No share of elements may be wrong."""
    output = torch.ones(1_000_000)
    output[777_777] += 1e-3
    found = compared(output, torch.ones(1_000_000))
    assert found.outcome is wire.TrialOutcome.MISMATCHED and found.mismatched_count == 1


def test_half_precision_inside_a_single_precision_task_is_over_budget() -> None:
    """Every element is within a loose tolerance, but the whole is not what fp32 gives."""
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    loose = wire.Tolerance(atol=1.0, rtol=1.0)
    wide = a.double() @ b.double()
    halved = (a.half() @ b.half()).float()
    assert compared(halved, a @ b, loose, wide).outcome is wire.TrialOutcome.MISMATCHED
    sequential = torch.zeros(64, 64)
    for k in range(64):
        sequential += a[:, k : k + 1] * b[k : k + 1]
    found = compared(sequential, a @ b, loose, wide)
    assert found.outcome is wire.TrialOutcome.PASSED and found.budget_ratio is not None and found.budget_ratio < 0.25


def test_a_kernel_is_not_blamed_for_the_references_own_rounding() -> None:
    """Right by fp64 and different from PyTorch's fp32 is right."""
    wide = torch.full((4,), 1.0, dtype=torch.float64)
    assert compared(torch.ones(4), torch.full((4,), 1.1), TIGHT, wide).outcome is wire.TrialOutcome.PASSED


def test_integers_have_to_be_exact() -> None:
    """A tolerance is for rounding, and integers have none."""
    assert compared(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]), LOOSE).outcome is wire.TrialOutcome.MISMATCHED


def test_an_empty_output_is_right() -> None:
    """A workload of size 0 has nothing to get wrong."""
    assert compared(torch.empty(0), torch.empty(0), TIGHT, torch.empty(0, dtype=torch.float64)).outcome is wire.TrialOutcome.PASSED


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_the_root_mean_square_is_right_at_any_scale(scale: float) -> None:
    """Where squares fit into fp64 it is made in one pass, elsewhere scaled."""
    values = torch.linspace(1.0, 2.0, 1001, dtype=torch.float64)
    assert _rms(values * scale) == pytest.approx(math.sqrt(float((values**2).mean())) * scale, rel=1e-12)


def test_an_element_that_is_not_compared_changes_nothing_for_the_others() -> None:
    """With one infinity that is right, the errors are those of the rest: elements are chosen only where there is a choice."""
    wide = torch.linspace(1.0, 2.0, 1000, dtype=torch.float64)
    reference = wide.float()
    output = reference * (1 + 1e-6)
    infinite = torch.tensor([math.inf])
    tolerance = wire.Tolerance(atol=1e-3, rtol=1e-3, budget_factor=8.0)
    alone = compared(output, reference, tolerance, wide)
    beside = compared(torch.cat([output, infinite]), torch.cat([reference, infinite]), tolerance, torch.cat([wide, infinite.double()]))
    assert (beside.max_absolute_error, beside.max_relative_error) == (alone.max_absolute_error, alone.max_relative_error)
    assert beside.budget_ratio == pytest.approx(alone.budget_ratio, rel=1e-12) and beside.outcome is alone.outcome
