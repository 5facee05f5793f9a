"""Rules of a right answer, element by element and as a whole; and the bytes of tensors."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from sandbox.protocol import wire
from sandbox.protocol.gate import FINE
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.references import Task
    from sandbox.judge.tolerance import Comparison, compare, fill_with_poison, numbers, rms, same_bytes, unwritten_mask
    from sandbox.judge.trial import Run, WorkloadContext, judge_run


LOOSE = wire.Tolerance(atol=math.inf, rtol=math.inf, budget_factor=None)
PASSED = wire.TrialOutcome.PASSED
TIGHT = wire.Tolerance(atol=1e-5, rtol=1e-5)


def compared(
    output: torch.Tensor, reference: torch.Tensor, tolerance: wire.Tolerance = TIGHT, wide: torch.Tensor | None = None
) -> Comparison:
    return compare(output, reference, wide, torch.zeros(output.shape, dtype=torch.bool), tolerance)


@pytest.fixture
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """Return a dtype by its name, for torch is imported after collection."""
    return getattr(torch, request.param)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"], indirect=True)
def test_an_unwritten_element_is_a_wrong_answer(dtype: torch.dtype) -> None:
    """NaN left in an output counts as unwritten, even where the tolerance is infinite."""
    output = torch.empty(100, dtype=dtype)
    bits = fill_with_poison(output)
    output[1:] = 1
    comparison = compare(output, torch.ones(100, dtype=dtype), None, unwritten_mask(output, bits), LOOSE)
    assert (comparison.outcome, comparison.unwritten_count) == (wire.TrialOutcome.UNWRITTEN, 1)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "bool"], indirect=True)
def test_an_unwritten_integer_is_a_wrong_answer(dtype: torch.dtype) -> None:
    """Integers have no NaN; a random sentinel shows instead."""
    output = torch.empty(4096, dtype=dtype)
    bits = fill_with_poison(output)
    reference = torch.randint(0, 2, (4096,)).to(dtype)
    output[1:] = reference[1:]
    if dtype not in (torch.bool,) and int(reference[0]) == int(output[0]):
        pytest.skip("the sentinel is the right answer this time")
    comparison = compare(output, reference, None, unwritten_mask(output, bits), LOOSE)
    assert comparison.outcome is wire.TrialOutcome.UNWRITTEN


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "uint8", "bool"], indirect=True)
def test_what_lies_in_memory_of_the_kernels_own_is_unwritten_too(dtype: torch.dtype) -> None:
    """A kernel that returns its outputs hands out what its allocator gave it: on a GPU all bits are set there."""
    output = torch.empty(64, dtype=dtype)
    output.view(torch.uint8).fill_(0xFF)
    reference = torch.ones(64, dtype=dtype)
    output[8:] = reference[8:]
    comparison = compare(output, reference, None, unwritten_mask(output, 5), LOOSE)
    assert (comparison.outcome, comparison.unwritten_count) == (wire.TrialOutcome.UNWRITTEN, 8)


NARROW = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"]


@pytest.mark.parametrize("dtype", NARROW, indirect=True)
def test_an_unwritten_byte_of_a_narrow_float_is_a_wrong_answer(dtype: torch.dtype) -> None:
    """They have few NaNs or none: a random byte shows instead, where it is not the right answer. Control: all of it written."""
    output = torch.empty(64, 64, dtype=torch.uint8).view(dtype)
    bits = fill_with_poison(output)
    reference = torch.full((64, 64), bits ^ 1, dtype=torch.uint8).view(dtype)
    output.view(torch.uint8)[1:] = reference.view(torch.uint8)[1:]
    comparison = compare(output, reference, None, unwritten_mask(output, bits), LOOSE)
    count = 128 if dtype == torch.float4_e2m1fn_x2 else 64
    assert (comparison.outcome, comparison.unwritten_count, comparison.element_count) == (wire.TrialOutcome.UNWRITTEN, count, 64 * count)
    output.view(torch.uint8)[0] = reference.view(torch.uint8)[0]
    assert compare(output, reference, None, unwritten_mask(output, bits), LOOSE).unwritten_count == 0


@pytest.mark.parametrize("dtype", NARROW, indirect=True)
def test_a_sentinel_that_is_the_right_answer_is_written(dtype: torch.dtype) -> None:
    """As of integers; and where it is not, it counts, whatever the kernel's fresh memory holds."""
    right = torch.full((16,), 0x31, dtype=torch.uint8).view(dtype)
    assert compare(right.clone(), right, None, unwritten_mask(right, 0x31), LOOSE).outcome is PASSED
    fresh = torch.full((16,), 0xFF, dtype=torch.uint8).view(dtype)
    assert compare(fresh, right, None, unwritten_mask(fresh, 0x31), LOOSE).outcome is wire.TrialOutcome.UNWRITTEN


@pytest.mark.parametrize("dtype", [name for name in NARROW if name != "float4_e2m1fn_x2"], indirect=True)
def test_float8_is_compared_by_its_numbers(dtype: torch.dtype) -> None:
    reference = torch.tensor([1.0, 2.0, 4.0, 8.0]).to(dtype)
    near, far = (torch.tensor([1.0, 2.0, 4.0, last]).to(dtype) for last in (16.0, 64.0))
    allowed = wire.Tolerance(atol=8.0, rtol=0.0, budget_factor=None)
    assert compared(near, reference, allowed).outcome is PASSED
    comparison = compared(far, reference, allowed)
    assert (comparison.outcome, comparison.mismatched_count, comparison.max_absolute_error) == (wire.TrialOutcome.MISMATCHED, 1, 56.0)
    assert compared(near, reference, TIGHT).mismatched_count == 1


@pytest.mark.parametrize("dtype", [name for name in NARROW if name != "float4_e2m1fn_x2"], indirect=True)
def test_any_nan_of_float8_is_right_where_one_is_and_poison_is_none(dtype: torch.dtype) -> None:
    raw = torch.arange(256, dtype=torch.uint8).view(dtype)
    nans = raw.view(torch.uint8)[raw.double().isnan()]
    right = torch.full((1,), math.nan).to(dtype)
    for byte in nans:
        output = byte.reshape(1).view(dtype)
        assert compare(output, right, None, unwritten_mask(output, 0x31), LOOSE).outcome is PASSED
    assert not any(fill_with_poison(right.clone()) in nans.tolist() for _ in range(2000))
    number = torch.ones(1).to(dtype)
    poisoned = torch.full((1,), 0x31, dtype=torch.uint8).view(dtype)
    for output, reference in ((right, number), (poisoned, right)):
        assert compare(output, reference, None, unwritten_mask(output, 0x31), LOOSE).outcome is wire.TrialOutcome.UNWRITTEN


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"], indirect=True)
def test_float8_may_be_rounded_from_any_answer_that_is_right(dtype: torch.dtype) -> None:
    """Half a step from the exact answer both numbers are right, though one byte of them may be the poison. The controls: a step from it
    neither is; and where the exact answer is not known, only the reference's number is right."""
    step = torch.finfo(dtype).eps
    exact = torch.tensor([1 + step / 2 + 1e-9] * 8 + [torch.finfo(dtype).tiny * (1 + step / 2)], dtype=torch.float64)
    below, above = ((exact * scale).to(dtype) for scale in (1 - 1e-6, 1 + 1e-6))
    assert below[0].double() == 1.0 and above[0].double() == 1 + step and below[8].double() < above[8].double()
    for output in (below, above):
        poison = int(output.view(torch.uint8)[0])
        assert compare(output, above, exact, unwritten_mask(output, poison), TIGHT).outcome is PASSED
    assert compared(below, above, TIGHT).mismatched_count == 9
    far = torch.full((9,), 7.0).to(dtype)
    assert compare(far, above, exact, unwritten_mask(far, int(far.view(torch.uint8)[0])), LOOSE).unwritten_count == 9
    assert compare((exact - step).to(dtype), above, exact, torch.zeros(9, dtype=torch.bool), TIGHT).mismatched_count == 9
    assert compare((exact + step).to(dtype), above, exact, torch.zeros(9, dtype=torch.bool), TIGHT).mismatched_count == 9


@pytest.mark.parametrize(
    "cheat",
    [
        lambda exact: exact.to(torch.float8_e5m2).float(),
        lambda exact: exact.bfloat16().float(),
        lambda exact: (exact.float().view(torch.int32) & ~0xFFFFF).view(torch.float32),
    ],
    ids=["e5m2", "bfloat16", "cut"],
)
def test_an_answer_of_float8_is_rounded_once(cheat) -> None:
    """Each is within a step of the right one everywhere. The controls: a tolerance of a step takes it, and float32, rounded, is right."""
    exact = torch.randn(4096, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 16
    reference, wrong = exact.float().to(torch.float8_e4m3fn), cheat(exact).to(torch.float8_e4m3fn)
    nothing = torch.zeros(4096, dtype=torch.bool)
    assert compare(wrong, reference, exact, nothing, TIGHT).outcome is wire.TrialOutcome.MISMATCHED
    assert compare(wrong, reference, exact, nothing, wire.Tolerance(atol=2**-9, rtol=0.125)).outcome is PASSED
    assert compare((exact * (1 + 3e-7)).float().to(torch.float8_e4m3fn), reference, exact, nothing, TIGHT).outcome is PASSED


def test_float4_is_two_numbers_in_a_byte_the_first_in_its_low_half() -> None:
    """0x2F is -6 and 1."""
    tensor = torch.tensor([[0x2F, 0x80]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert numbers(tensor).tolist() == [[-6.0, 1.0, 0.0, 0.0]] and math.copysign(1, numbers(tensor)[0, 3]) == -1
    second = torch.tensor([[0x3F, 0x00]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    comparison = compared(second, tensor, TIGHT)
    assert (comparison.outcome, comparison.mismatched_count, comparison.max_absolute_error) == (wire.TrialOutcome.MISMATCHED, 1, 0.5)


def test_a_nan_that_the_kernel_made_is_not_called_unwritten() -> None:
    """0/0 is the kernel's own doing, and the report says so."""
    output = torch.empty(4)
    bits = fill_with_poison(output)
    output[:] = torch.zeros(4) / torch.zeros(4) * -1
    output.view(torch.int32).fill_(-0x400000)  # x86's default NaN has its sign set
    comparison = compare(output, torch.ones(4), None, unwritten_mask(output, bits), LOOSE)
    assert comparison.outcome is wire.TrialOutcome.NON_FINITE


def verified(output: torch.Tensor, bits: int, reference: torch.Tensor) -> wire.Trial:
    """The fact of a trial in which that was left and this is right."""
    tensor = wire.TensorSpec(name="c", dtype=str(output.dtype).removeprefix("torch."), shape=tuple(output.shape))
    workload = wire.Workload(workload_id="w", axes={})
    problem = replace(fakes.problem().spec, inputs=(), outputs=(tensor,), workloads=(workload,), tolerance=LOOSE)
    result = Run(key="", reply=FINE, duration_ns=0, inputs=[], outputs=[output], unwritten=[unwritten_mask(output, bits)])
    bench = WorkloadContext(Task(spec=problem, reference=lambda _: [reference]), workload)
    return judge_run(result, bench, wire.TrialPhase.VERIFY, 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"], indirect=True)
@pytest.mark.parametrize("fresh", [False, True])
def test_a_nan_that_is_right_is_not_called_unwritten(dtype: torch.dtype, fresh: bool) -> None:
    """The logarithm of a negative number has the bits of torch's fresh memory; as right is NaN with all bits set. Beside it, where the
    reference is a number, both are unwritten."""
    output, reference = torch.empty(8, dtype=dtype), torch.ones(8, dtype=dtype)
    bits = fill_with_poison(output)
    output[:] = 1
    reference[:4] = math.nan
    output[:5] = math.nan
    if fresh:
        output[:5].view(torch.uint8).fill_(0xFF)
    comparison = verified(output, bits, reference)
    assert (comparison.outcome, comparison.unwritten_count, comparison.mismatched_count) == (wire.TrialOutcome.UNWRITTEN, 1, 1)
    output[4] = 1
    assert verified(output, bits, reference).outcome is PASSED


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"], indirect=True)
def test_this_trials_poison_is_unwritten_where_nan_is_right_too(dtype: torch.dtype) -> None:
    """A kernel that writes nothing has not found out where there is no answer."""
    output, reference = torch.empty(8, dtype=dtype), torch.full((8,), math.nan, dtype=dtype)
    comparison = verified(output, fill_with_poison(output), reference)
    assert (comparison.outcome, comparison.unwritten_count) == (wire.TrialOutcome.UNWRITTEN, 8)


def test_poison_is_another_in_each_trial_and_nobodys_own_nan() -> None:
    """A kernel can't know this trial's NaN from the last one's. A CPU makes NaN without payload, a GPU NaN with all of it: where the
    reference has one, a kernel's own is not taken for poison."""
    output = torch.empty(1, dtype=torch.bfloat16)
    poisons = {fill_with_poison(output) for _ in range(4000)}
    assert len(poisons) > 1 and not poisons & {0x7FC0, 0x7FFF}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_where_the_reference_is_finite_is_wrong(value: float) -> None:
    """No tolerance covers an infinity."""
    output = torch.ones(8)
    output[3] = value
    assert compared(output, torch.ones(8), LOOSE).outcome is not wire.TrialOutcome.PASSED


def test_finite_where_the_reference_is_infinite_is_wrong() -> None:
    reference = torch.tensor([1.0, math.inf])
    assert compared(torch.tensor([1.0, 3e38]), reference, LOOSE).outcome is wire.TrialOutcome.MISMATCHED
    assert compared(torch.tensor([1.0, -math.inf]), reference, LOOSE).outcome is not wire.TrialOutcome.PASSED
    assert compared(reference.clone(), reference).outcome is wire.TrialOutcome.PASSED


@pytest.mark.parametrize("kind", ["right", "wrong", "unwritten", "by fp64"])
def test_an_infinity_that_is_right_changes_nothing_for_its_neighbours(kind: str) -> None:
    """Where everything is finite the comparison takes a shorter way, which has to come to the same."""
    reference = torch.randn(64)
    output, unwritten = reference + 1e-7, torch.zeros(64, dtype=torch.bool)
    wide = reference.double() + 0.25 if kind == "by fp64" else None
    if kind == "wrong":
        output[5] += 1.0
    if kind == "by fp64":
        output[5] += 0.25
    unwritten[9] = kind == "unwritten"
    finite = compare(output, reference, wide, unwritten, TIGHT)
    end = torch.tensor([math.inf])
    wide = None if wide is None else torch.cat([wide, end.double()])
    mixed = compare(torch.cat([output, end]), torch.cat([reference, end]), wide, torch.cat([unwritten, end == 0]), TIGHT)
    assert replace(mixed, element_count=64) == finite
    assert (finite.outcome is PASSED) == (kind in ("right", "by fp64"))
    assert finite.mismatched_count == (kind in ("wrong", "unwritten"))


def test_an_fp64_result_that_is_no_number_excuses_nothing() -> None:
    wide = torch.tensor([1.0, math.nan], dtype=torch.float64)
    comparison = compared(torch.ones(2), torch.ones(2), LOOSE, wide)
    assert (comparison.outcome, comparison.mismatched_count) == (wire.TrialOutcome.MISMATCHED, 1)


def by_hand(out: float, ref: float, ref64: float, poisoned: bool, tolerance: wire.Tolerance) -> tuple[bool, bool, float | None]:
    """The rule for one element, in Python's own arithmetic: whether it is wrong, whether it is not finite where it should be, its error."""
    if poisoned:
        return True, False, None
    if not (math.isfinite(out) and math.isfinite(ref)):
        same = out == ref or (math.isnan(out) and math.isnan(ref))
        return not same, not same and not math.isfinite(out), None
    errors = [abs(out - ref), abs(out - ref64)]
    error = math.nan if any(map(math.isnan, errors)) else min(errors)
    return not error <= tolerance.atol + tolerance.rtol * abs(ref), False, error


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"], indirect=True)
@pytest.mark.parametrize("finite", [True, False])
def test_the_whole_is_what_its_elements_are_by_hand(dtype: torch.dtype, finite: bool) -> None:
    """Random outputs, with what is not finite on either side, on both, or on none."""
    chance = random.Random(f"{dtype} {finite}")
    strange = [math.nan, math.inf, -math.inf]
    for _ in range(200):
        count = chance.randrange(1, 40)
        reference = (torch.randn(count, dtype=torch.float64) * 10 ** chance.uniform(-4, 4)).to(dtype)
        output = reference + (torch.randn(count) * 10 ** chance.uniform(-7, 0)).to(dtype)
        wide = chance.choice([None, reference.double() + torch.randn(count, dtype=torch.float64) * 1e-3])
        if not finite:
            for tensor in (reference, output):
                tensor[chance.randrange(count)] = chance.choice(strange)
            if chance.random() < 0.5:
                reference[0] = output[0] = chance.choice(strange)
        unwritten = torch.rand(count) < chance.choice([0.0, 0.1])
        tolerance = wire.Tolerance(atol=chance.choice([0.0, 1e-3, math.inf]), rtol=chance.choice([0.0, 1e-3]), budget_factor=None)
        whole = compare(output, reference, wide, unwritten, tolerance)
        columns = [tensor.tolist() for tensor in (output, reference, reference if wide is None else wide, unwritten)]
        by_element = [by_hand(*element, tolerance) for element in zip(*columns, strict=True)]
        wrong, strangers, errors = zip(*by_element, strict=True)
        counts = sum(wrong), sum(strangers), int(unwritten.sum())
        assert (whole.mismatched_count, whole.nonfinite_count, whole.unwritten_count) == counts
        assert whole.max_absolute_error == max((tensor for tensor in errors if tensor is not None), default=0.0)


def test_one_wrong_element_in_a_million_is_wrong() -> None:
    output = torch.ones(1_000_000)
    output[777_777] += 1e-3
    comparison = compared(output, torch.ones(1_000_000))
    assert comparison.outcome is wire.TrialOutcome.MISMATCHED and comparison.mismatched_count == 1


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
    comparison = compared(sequential, a @ b, loose, wide)
    assert comparison.outcome is wire.TrialOutcome.PASSED and comparison.budget_ratio is not None and comparison.budget_ratio < 0.25


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"], indirect=True)
@pytest.mark.parametrize("named", ["at the end", "and widened again", "before the weights"])
def test_a_reference_that_rounds_by_itself_refuses_nobody_who_rounds(
    dtype: torch.dtype, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fp64 result is rounded, too, so that it seems to make no error. What is six units off as a whole is still over the budget."""
    x, w, loose = torch.randn(64, 64).to(dtype), torch.rand(64).to(dtype) + 1, wire.Tolerance(atol=1.0, rtol=1.0)

    def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        v = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True))
        if named == "before the weights":
            return w.to(dtype) * v.to(dtype)
        return (v * w.float()).to(dtype).to(x.dtype if named == "and widened again" else dtype)

    wide = reference(x.double(), w.double())
    once = (x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True)) * w.double()).to(dtype)
    once[:, ::7] = (once[:, ::7].double() * (1 + torch.finfo(dtype).eps)).to(dtype)  # here and there by another order of the sums
    comparison = compared(once, reference(x, w), loose, wide)
    assert comparison.outcome is PASSED and comparison.budget_ratio is not None and 0 < comparison.budget_ratio < 0.5
    off = (once.double() * (1 + 6 * torch.finfo(dtype).eps)).to(dtype)
    assert compared(off, reference(x, w), loose, wide).outcome is wire.TrialOutcome.MISMATCHED
    monkeypatch.setattr("sandbox.judge.tolerance.OWN_ULPS", 0.0)
    assert compared(once, reference(x, w), loose, wide).outcome is wire.TrialOutcome.MISMATCHED


def test_a_kernel_is_not_blamed_for_the_references_own_rounding() -> None:
    wide = torch.full((4,), 1.0, dtype=torch.float64)
    assert compared(torch.ones(4), torch.full((4,), 1.1), TIGHT, wide).outcome is wire.TrialOutcome.PASSED


def test_integers_have_to_be_exact_and_nothing_is_right() -> None:
    """A tolerance is for rounding, and integers have none. An output without elements is right."""
    assert compared(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]), LOOSE).outcome is wire.TrialOutcome.MISMATCHED
    assert compared(torch.empty(0), torch.empty(0), TIGHT, torch.empty(0, dtype=torch.float64)).outcome is PASSED


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1.0, 1e100, 1e200])
def test_the_root_mean_square_is_right_at_any_scale(scale: float) -> None:
    """Where squares fit into fp64 it is made in one pass, elsewhere scaled."""
    values = torch.linspace(1.0, 2.0, 1001, dtype=torch.float64)
    assert rms(values * scale) == pytest.approx(math.sqrt(float((values**2).mean())) * scale, rel=1e-12)


# -- the same bytes ------------------------------------------------------------------------------------------------------


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
    """A payload is itself and no other; the two zeros are two."""
    first = torch.full((8,), 0x7FC01234, dtype=torch.int32).view(torch.float32)
    assert same_bytes(first, first.clone())
    assert not same_bytes(first, torch.full((8,), 0x7FC01235, dtype=torch.int32).view(torch.float32))
    assert not same_bytes(torch.zeros(8), -torch.zeros(8))


def test_shapes_are_looked_at_and_strides_are_not() -> None:
    """A view of the same values in another order of memory is the same."""
    first = torch.arange(24.0).view(4, 6)
    assert same_bytes(first, first.t().contiguous().t()) and not same_bytes(first, first.view(6, 4))
