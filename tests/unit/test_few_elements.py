"""An output of one element: PyTorch's own error there is luck, and no right kernel pays for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sandbox.protocol import wire
from sandbox.protocol.gate import FINE
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import tolerance
    from sandbox.judge.references import Task
    from sandbox.judge.tolerance import FEW, Comparison, compare, fails_budget_only, perturb_inputs_one_ulp, spread
    from sandbox.judge.trial import Run, WorkloadContext, judge_run


MEAN = replace(
    fakes.problem().spec,
    inputs=(wire.TensorSpec(name="x", dtype="float32", shape=("rows", "cols")),),
    outputs=(wire.TensorSpec(name="mean", dtype="float32", shape=("rows",)),),
    workloads=(wire.Workload(workload_id="w", axes={"rows": 1, "cols": 1500}),),
)
COUNT = 2000
Kernel = Callable[["torch.Tensor"], "torch.Tensor"]


def mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=1)


def strided(x: torch.Tensor) -> torch.Tensor:
    """Thirty threads, each with a running mean after Welford; then the mean of theirs."""
    middle = torch.zeros(x.shape[0], 30)
    for step in range(50):
        middle += (x[:, 30 * step : 30 * step + 30] - middle) / (step + 1)
    return middle.mean(dim=1)


def sequential(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0])
    for column in x.unbind(dim=1):
        total += column
    return total / x.shape[1]


def in_half(x: torch.Tensor) -> torch.Tensor:
    return x.half().float().mean(dim=1)


def in_tf32(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32).mean(dim=1)


def judged(bench: WorkloadContext, x: torch.Tensor, output: torch.Tensor) -> wire.TrialOutcome:
    """Return the judge's outcome of that output for that input."""
    result = Run(key="", reply=FINE, duration_ns=0, inputs=[x], outputs=[output], unwritten=[torch.zeros(1, dtype=torch.bool)])
    return judge_run(result, bench, wire.TrialPhase.VERIFY, 0).outcome


def rejected(kernel: Kernel) -> list[bool]:
    """For rows of normal numbers, whose mean is now and then all but zero."""
    random = torch.Generator().manual_seed(7)
    bench = WorkloadContext(Task(spec=MEAN, reference=lambda inputs: [mean(inputs[0])]), MEAN.workloads[0])
    rows = torch.randn(COUNT, 1500, generator=random)
    pairs = zip(rows.split(1), kernel(rows).split(1), strict=True)
    with torch.random.fork_rng():
        torch.manual_seed(7)  # of the shaking
        return [judged(bench, x, output) is not wire.TrialOutcome.PASSED for x, output in pairs]


@pytest.mark.parametrize("kernel", [strided, sequential])
def test_a_right_kernel_is_never_unlucky(kernel: Kernel) -> None:
    """Of many rows, one number each."""
    assert not any(rejected(kernel))


def test_the_control_is_unlucky(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were PyTorch's error of one element taken for what float32 costs, a right kernel would be refused."""
    monkeypatch.setattr(tolerance, "fails_budget_only", lambda _: False)
    assert any(rejected(sequential))


@pytest.mark.parametrize(("moves_at", "call_count", "excuses"), [(0, 8, True), (8, 32, True), (32, 32, False)])
def test_few_shaken_inputs_may_be_unlucky_too(moves_at: int, call_count: int, excuses: bool) -> None:
    """More are asked for where those do not excuse, and no more where they do."""
    exact, output, wrong = torch.zeros(1, dtype=torch.float64), torch.full((1,), 1e-6), torch.zeros(1, dtype=torch.bool)
    calls = []

    def exactly(_: list[torch.Tensor]) -> list[torch.Tensor]:
        calls.append(1)
        return [exact + (1e-7 if len(calls) > moves_at else 0.0)]

    def again(_: int, perturbed: tolerance.Tensors) -> Comparison:
        return compare(output, torch.zeros(1), exact, wrong, wire.Tolerance(), perturbed)

    (comparison,) = tolerance.forgive_rounding_noise([again(0, [])], [], [output], exactly, again)
    assert (len(calls), comparison.outcome is wire.TrialOutcome.PASSED) == (call_count, excuses)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [in_half, in_tf32])
def test_less_precision_is_still_over_the_budget(kernel: Kernel) -> None:
    """Nine draws of ten tell it, and a kernel is drawn for many times."""
    assert sum(rejected(kernel)) > 0.85 * COUNT


def test_more_elements_are_not_shaken() -> None:
    """Their rms is no luck, and an output that is wrong by the rule alone stays so."""
    many, wrong = torch.zeros(FEW + 1), torch.zeros(FEW + 1, dtype=torch.bool)
    over = compare(many + 1e-6, many, many.double(), wrong, wire.Tolerance())
    assert over.outcome is wire.TrialOutcome.MISMATCHED and not fails_budget_only(over)
    single = compare(many[:1] + 1e-6, many[:1], many[:1].double(), wrong[:1], wire.Tolerance())
    by_the_rule = compare(many[:1] + 1, many[:1], many[:1].double(), wrong[:1], wire.Tolerance())
    assert fails_budget_only(single) and not fails_budget_only(by_the_rule)


def test_what_is_not_finite_excuses_nothing() -> None:
    """A shaken result that overflows says nothing of float32."""
    exact, wrong = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.bool)
    for odd in (float("nan"), float("inf")):
        assert spread(exact, [exact, exact * odd]) == 0.0
        comparison = compare(torch.ones(1) + 9e-6, torch.ones(1), exact, wrong, wire.Tolerance(), [exact * odd] * 8)
        assert comparison.outcome is wire.TrialOutcome.MISMATCHED


def picky(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the mean of whole numbers only."""
    if not torch.equal(inputs[0], inputs[0].round()):
        raise ValueError("whole numbers, please")
    return [mean(inputs[0])]


def ragged(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return as many results as there are whole numbers."""
    return [mean(inputs[0]).expand(int((inputs[0] == inputs[0].round()).sum()) // 1500)]


@pytest.mark.parametrize("reference", [picky, ragged])
def test_a_reference_that_takes_exact_inputs_only_excuses_nothing(reference: Callable[[list[torch.Tensor]], list[torch.Tensor]]) -> None:
    """The trial is judged without: no failure of the problem's, and no error of the judge."""
    x = torch.arange(1500.0).reshape(1, 1500)
    bench = WorkloadContext(Task(spec=MEAN, reference=reference), MEAN.workloads[0])
    for output, passes in ((mean(x), True), (mean(x) * (1 + 5e-6), False)):
        assert judged(bench, x, output) is (wire.TrialOutcome.PASSED if passes else wire.TrialOutcome.MISMATCHED)


def test_floats_are_shaken_by_one_unit_and_the_rest_is_left() -> None:
    """A label is no measurement."""
    labels, x, wide = torch.arange(9), torch.full((99,), 4.0), torch.full((99,), 4.0, dtype=torch.float64)
    same, moved, little = perturb_inputs_one_ulp([labels, x, wide])
    assert same is labels and moved.dtype == torch.float64
    assert set((moved / 4 - 1).abs().tolist()) == {2.0**-23} and len(set(moved.tolist())) == 2
    assert set((little / 4 - 1).abs().tolist()) == {2.0**-52}
