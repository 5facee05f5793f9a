"""The kernelbench format's judge half: what a task is made of, and what passes in front of it.

Submissions are classes served by a thread; they are made of the state that a runner gets, as the `python` language makes them.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments
from grader_extensions.formats.tests.tasks import (
    FIXTURES,
    HEAD,
    KEY,
    NONE,
    OTHER_KEY,
    ROW,
    drawn,
    judged,
    model,
    spec_of,
    trials,
)
from sandbox.languages import python
from sandbox.protocol import wire
from sandbox.protocol.signatures import without_model
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch
    from torch import nn
    from torch._subclasses.fake_tensor import FakeTensor

    from grader_extensions.formats import problem_code
    from grader_extensions.formats.elementwise import ElementwiseComparer
    from grader_extensions.formats.kernelbench_reference import _ModelSource
    from sandbox.judge import tolerance
    from sandbox.judge.references import ReferenceFailed, Task, load_task


RAMP, GATE, LOSS, SOFTMAX, PRODUCT = (next(FIXTURES.glob(f"{number}_*.py")) for number in (1, 2, 3, 4, 5))
MANY = "class Model(nn.Module):\n    def forward(self, *all):\n        return sum(all)\n"


def task_of(path: Path, precision: str = "fp32") -> Task:
    return load_task(kernelbench.load(path, adjustments=Adjustments(precision=precision)).spec, "cpu")


def outcomes(task: Task, outputs: list[torch.Tensor], key: str = KEY) -> list[str]:
    assert task.compare is not None
    inputs = drawn(task, key)
    masks = [torch.zeros_like(output, dtype=torch.bool) for output in outputs]
    results = task.compare(task.spec.workloads[0], inputs, outputs, task.reference([tensor.clone() for tensor in inputs]), masks)
    return [result.outcome.value for result in results]


if AFTER_COLLECTION:

    class Ramp(nn.Module):
        def forward(self, x: torch.Tensor, slope: float) -> torch.Tensor:
            return (x - 0.25).relu() * slope

    class Loss(nn.Module):
        def forward(self, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            assert labels.dtype == torch.int64
            return -scores.log_softmax(1).gather(1, labels[:, None]).mean()

    class OtherOrder(nn.Module):
        """The weights of the fixture with the gate, made in another order than there."""

        def __init__(self, in_channels: int, out_channels: int, kernel_size: int, gate_shape: tuple[int, ...]) -> None:
            super().__init__()
            self.gate = nn.Parameter(torch.randn(gate_shape))
            self.norm = nn.BatchNorm2d(out_channels)
            self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(self.conv(x))
            return y * torch.sigmoid(y + self.gate)

    class WithoutNorm(OtherOrder):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.conv(x)
            return y * torch.sigmoid(y + self.gate)

    CLASSES = {model_class.__name__: model_class for model_class in (Ramp, Loss, OtherOrder, WithoutNorm)}


ALL_PASSED = ["passed"] * kernelbench.TRIAL_COUNT


@pytest.mark.parametrize(
    ("path", "entry", "precision", "outcomes"),
    [
        *(
            (path, entry, precision, ALL_PASSED)
            for path, entry in ((RAMP, "Ramp"), (GATE, "OtherOrder"), (LOSS, "Loss"))
            for precision in ("fp32", "bf16")
        ),
        (GATE, "WithoutNorm", "fp32", ["mismatched"]),
        (RAMP, lambda: lambda x, slope: x * slope, "fp32", ["mismatched"]),
        (LOSS, lambda: lambda scores, labels: scores.mean(), "fp32", ["mismatched"]),
        (SOFTMAX, lambda: lambda x: torch.full_like(x, float("inf")), "fp32", ["non_finite"]),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_a_right_class_passes_and_a_wrong_one_fails(tmp_path: Path, path: Path, entry: Any, precision: str, outcomes: list[str]) -> None:
    """Through the whole lane: with a number, with weights made in another order, with labels; in both precisions."""
    facts = judged(
        tmp_path,
        kernelbench.load(path, adjustments=Adjustments(precision=precision)).spec,
        CLASSES[entry] if isinstance(entry, str) else entry,
    )
    assert trials(facts) == outcomes and isinstance(facts[-1], wire.Finished), facts


def _scaled_product(change: str = "") -> Callable[..., Any]:

    def solve(x: torch.Tensor, factor: float, shift: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *norm: torch.Tensor) -> Any:
        gamma, beta, mean, variance = norm
        assert factor == 0.75
        if change == "a weight":
            weight += 1e-7
        y = (x @ weight.T + bias - mean) / (variance + 1e-5).sqrt() * gamma + beta
        return y * factor + (0 if change == "no shift" else shift)

    return solve


@pytest.mark.parametrize(("change", "outcome"), [("", ALL_PASSED), ("no shift", ["mismatched"]), ("a weight", ["input_modified"])])
def test_a_function_gets_the_weights_with_the_inputs(tmp_path: Path, change: str, outcome: list[str]) -> None:
    """Through the whole lane, with a number that is published late: an entry that is no model, as a compiled language has it."""
    facts = judged(tmp_path, without_model(kernelbench.load(PRODUCT).spec), _scaled_product(change))
    assert trials(facts) == outcome and isinstance(facts[-1], wire.Finished), facts


def test_a_wide_tolerance_lets_half_precision_through_and_no_zeros(tmp_path: Path) -> None:
    """Values rounded to half are right at 1e-2, wrong at KernelBench's 1e-4. Zeros, or a constant, for a flat softmax stay wrong."""
    body = model("return x @ x.T", "pass")
    path = tmp_path / "9_Made.py"
    path.write_text("\n".join((HEAD, body, "def get_inputs():\n    return [torch.randn(64, 64)]\n", NONE)))
    rule = Adjustments(tolerance=1e-2, allow_lower_precision=True)
    strict, wide = (load_task(kernelbench.load(path, adjustments=adjustments).spec, "cpu") for adjustments in (UNCHANGED, rule))
    (x,) = drawn(wide)
    rounded = x.half().float() @ x.half().float().T
    assert outcomes(wide, [rounded]) == ["passed"]
    assert outcomes(strict, [drawn(strict)[0].half().float() @ drawn(strict)[0].half().float().T]) == ["mismatched"]
    softmax = load_task(kernelbench.load(SOFTMAX, adjustments=rule).spec, "cpu")
    (right,) = softmax.reference(drawn(softmax))
    assert float(right.max()) < 1e-2 and outcomes(softmax, [right * 1.01]) == ["passed"]
    assert outcomes(softmax, [torch.zeros_like(right)]) == outcomes(softmax, [torch.full_like(right, 1 / 65536)]) == ["mismatched"]


def test_weights_are_what_decides_in_another_order() -> None:
    """The control: with the same seed and no weights another order gives another answer."""
    task = task_of(GATE)
    inputs, state = drawn(task), torch.load(io.BytesIO(task.state), weights_only=True)
    torch.manual_seed(state["seed"])
    seeded = OtherOrder(*state["arguments"])
    seeded_model = python.make_model(OtherOrder, task.state, "cpu")
    with torch.no_grad():
        assert outcomes(task, [seeded_model(*inputs)]) == ["passed"]
        assert outcomes(task, [seeded(*inputs)]) == ["mismatched"]


def test_other_parameters_keep_their_seed() -> None:
    """A class of other names is made by the seed that the reference's was made by."""
    task = task_of(GATE)

    class Renamed(nn.Module):
        def __init__(self, in_channels: int, out_channels: int, kernel_size: int, gate_shape: tuple[int, ...]) -> None:
            super().__init__()
            self.first = nn.Conv2d(in_channels, out_channels, kernel_size)
            self.second = nn.BatchNorm2d(out_channels)
            self.third = nn.Parameter(torch.randn(gate_shape))

    renamed, state = python.make_model(Renamed, task.state, "cpu"), torch.load(io.BytesIO(task.state), weights_only=True)
    assert torch.equal(renamed.first.weight, state["weights"]["conv.weight"])
    assert torch.equal(renamed.third, state["weights"]["gate"])


def test_the_same_key_gives_the_same_inputs_and_leaves_the_generators() -> None:
    """Another key gives others, also where only bits differ that a seed of torch's CPU generator would not hold."""
    task = task_of(RAMP)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first, again, different = drawn(task), drawn(task), drawn(task, OTHER_KEY)
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(first[0], again[0]) and not torch.equal(first[0], different[0])
    assert float(first[1]) == float(different[1]) == 1.75


def test_every_bit_of_the_key_counts() -> None:
    """The whole state of the generator is made from the key: with its words as they were, the numbers are other ones."""
    with problem_code.seeded(KEY):
        state, values = torch.get_rng_state(), torch.rand(4)
        torch.manual_seed(torch.initial_seed())
        assert not torch.equal(torch.get_rng_state(), state)
        assert not torch.equal(torch.rand(4), values)


def test_only_floating_tensors_are_cast() -> None:
    task = task_of(LOSS, "fp16")
    assert [tensor.dtype for tensor in task.spec.inputs] == ["float16", "int64"]
    assert [tensor.dtype for tensor in drawn(task)] == [torch.float16, torch.int64]
    assert [tensor.dtype for tensor in task.spec.outputs] == ["float16"]
    weights = torch.load(io.BytesIO(task_of(GATE, "fp16").state), weights_only=True)["weights"]
    assert weights["norm.num_batches_tracked"].dtype == torch.int64 and weights["gate"].dtype == torch.float16


def test_a_task_can_be_made_of_its_own_spec() -> None:
    """As the baseline's process makes it: the same spec, the same weights, the same answers."""
    first = task_of(GATE)
    second = load_task(first.spec, "cpu")
    assert second.spec == first.spec
    assert torch.equal(first.reference(drawn(first))[0], second.reference(drawn(second))[0])


def test_running_statistics_do_not_drift(tmp_path: Path) -> None:
    """A model that answers with its own running mean answers alike in every call; the control is the model itself, which does not."""
    body = model("self.norm(x); return x + self.norm.running_mean", "self.norm = nn.BatchNorm1d(5)")
    spec = spec_of(tmp_path, body, ROW, NONE)
    task = load_task(spec, "cpu")
    inputs = drawn(task)
    answers = [task.reference([tensor.clone() for tensor in inputs])[0] for _ in range(3)]
    assert torch.equal(answers[0], answers[1]) and torch.equal(answers[0], answers[2])
    module = sys.modules[f"kernelbench_{spec.digest[:12]}_file"]
    control = module.Model()
    with torch.no_grad():
        assert not torch.equal(control(*inputs), control(*inputs))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("self.count += 1; return x * self.count", id="an attribute"),
        pytest.param("self.seen = getattr(self, 'seen', 0) + 1; return x * self.seen", id="a new attribute"),
        pytest.param("self.b.add_(1); return x * self.b", id="a buffer in place"),
    ],
)
def test_a_call_changes_nothing_for_the_next(tmp_path: Path, body: str) -> None:
    task = load_task(spec_of(tmp_path, model(body, "self.count = 0; self.register_buffer('b', torch.zeros(5))"), ROW, NONE), "cpu")
    inputs = drawn(task)
    assert all(torch.equal(task.reference(inputs)[0], inputs[0]) for _ in range(3))


def test_the_module_is_fresh(tmp_path: Path) -> None:
    """A name rebound in an earlier module of the same problem is not in the next: get_inputs, Model and constants are the file's."""
    spec = spec_of(tmp_path, model("return x * FACTOR"), "FACTOR = 3.0", ROW, NONE)
    first = load_task(spec, "cpu")
    module: Any = sys.modules[f"kernelbench_{spec.digest[:12]}_file"]
    module.FACTOR, module.get_inputs = 0.0, lambda: [torch.zeros(4, 5)]
    assert not drawn(first)[0].any()  # the control: it was this module that the task is of
    second = load_task(spec, "cpu")
    inputs = drawn(second)
    assert inputs[0].any() and torch.equal(second.reference(inputs)[0], inputs[0] * 3)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((model("return F.dropout(x, 0.5)"), ROW, NONE), "draws random numbers"),
        ((model("return x + torch.rand(5)"), ROW, NONE), "draws random numbers"),
        ((model("self.h = self.h + x; return self.h", "self.h = torch.zeros(4, 5)"), ROW, NONE), "changes self.h"),
        ((model("return {'a': x}"), ROW, NONE), "returned a dict"),
        ((model("return x @ x"), ROW, NONE), "forward raised RuntimeError"),
        ((model("return x"), "def get_inputs():\n    return torch.rand(3)\n", NONE), "Tensor; return a list"),
        ((model("return x"), "def get_inputs():\n    return ['a']\n", NONE), "input 0 is a str"),
        ((model("return x"), "def get_inputs():\n    return [2 ** 60]\n", NONE), "forward returned a int"),
        ((model("return x"), "def get_inputs():\n    return [torch.rand(3) + 1j]\n", NONE), "complex64"),
        ((model("return x"), "def get_inputs():\n    return [torch.rand([1] * 9)]\n", NONE), "9 axes"),
        ((model("return x * 2"), "def get_inputs():\n    return [torch.rand(())]\n", NONE), "'x' is a tensor without axes"),
        ((model("return x"), "def get_inputs():\n    return 1 / 0\n", NONE), "get_inputs() raised ZeroDivisionError"),
        ((model("return x"), ROW, "def get_init_inputs():\n    return [object()]\n"), "raised TypeError"),
        (("class Model:\n    def forward(self, x):\n        return x\n", ROW, NONE), "is not a torch.nn.Module"),
        ((MANY, "def get_inputs():\n    return [torch.rand(2) for _ in range(128)]\n", NONE), "128 inputs and 1 outputs; 128 can be sent"),
        (("import nothing_of_that_name", model("return x"), ROW, NONE), "ModuleNotFoundError"),
    ],
)
def test_a_problem_that_can_not_be_judged_says_why(tmp_path: Path, parts: tuple[str, ...], expected: str) -> None:
    with pytest.raises(ReferenceFailed) as caught:
        load_task(spec_of(tmp_path, *parts), "cpu")
    assert expected in str(caught.value) and "kb_9_made" in str(caught.value)


def test_a_trace_needs_no_memory(tmp_path: Path) -> None:
    """Of a model with weights too, in every precision; the control is one that looks at values."""
    for precision in ("fp32", "bf16"):
        for init, fake in (("self.l = nn.LSTM(5, 5)", True), ("self.l = nn.LSTM(5, int(torch.ones(1).item()) * 5)", False)):
            spec = spec_of(tmp_path, model("return self.l(x)[0]", init), ROW, NONE, precision=precision)
            source = _ModelSource(spec, "cpu")
            assert [isinstance(output, FakeTensor) for output in source.traced(spec, "cpu").outputs] == [fake]


LAYER = "self.l = nn.TransformerEncoderLayer(8, 2, 16, dropout={}, batch_first=True)"


@pytest.mark.parametrize(
    ("forward", "init", "drops"),
    [
        ("self.d(x)[0]", "self.d = nn.Dropout(0.0)", False),
        ("self.d(x)[0]", "self.d = nn.Dropout(0.5).eval()\n        self.train(False)", False),
        ("self.d(x)[0]", "self.d = nn.LSTM(8, 8, dropout=0.0)", False),
        ("F.scaled_dot_product_attention(x, x, x)", "pass", False),
        ("F.scaled_dot_product_attention(x, x, x, dropout_p=0.1)", "pass", True),
        ("self.l(x)", LAYER.format(0.0), False),
        ("self.l(x)", LAYER.format(0.1), True),
        ("self.d(x)", "self.d = nn.Dropout()", True),
        ("self.d(x)", "self.d = nn.Dropout2d(float('0.5'))", True),
    ],
)
def test_dropout_that_drops_nothing_is_admitted(tmp_path: Path, forward: str, init: str, drops: bool) -> None:
    spec = spec_of(tmp_path, model(f"return {forward}", init), ROW.replace("4, 5", "2, 4, 8"), NONE)
    with pytest.raises(ReferenceFailed, match="random numbers") if drops else nullcontext():
        assert load_task(spec, "cpu").spec.outputs


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ((model("return x"), "def get_inputs():\n    return [torch.rand(10**6, 10**6)]\n", NONE), "make the file's sizes smaller"),
        ((model("return x @ x.T"), "def get_inputs():\n    return [torch.rand(10**7, 1)]\n", NONE), "make the file's sizes smaller"),
        ((model("return self.l(x)", "self.l = nn.Linear(5, 10**12)"), ROW, NONE), "make the file's sizes smaller"),
        ((model("return x", "[torch.ones(1).item(), torch.empty(10**12)]"), ROW, NONE), "does not fit into memory"),
    ],
)
def test_absurd_shapes_are_the_problems_fault(tmp_path: Path, parts: tuple[str, ...], expected: str) -> None:
    """10^12 elements and more: nothing is allocated, the judge lives, and the sentence has the sizes."""
    (broken,) = [fact for fact in judged(tmp_path, spec_of(tmp_path, *parts), nn.Identity) if isinstance(fact, wire.Broken)]
    assert broken.problem_at_fault and expected in broken.message and not broken.device_lost


def test_code_that_looks_at_values_is_tried_for_good(tmp_path: Path) -> None:
    """Without memory there are no values; shapes are found all the same."""
    task = load_task(spec_of(tmp_path, model("return x * 2 if float(x.sum()) > 0 else x"), ROW, NONE), "cpu")
    inputs = drawn(task)
    assert torch.equal(task.reference(inputs)[0], inputs[0] * 2)


def test_numbers_are_constants(tmp_path: Path) -> None:
    """A number that differs from call to call would be another problem for every call."""
    body = "class Model(nn.Module):\n    def forward(self, x, f):\n        return x * f\n"
    spec = spec_of(tmp_path, body, "import random\ndef get_inputs():\n    return [torch.rand(3), random.random()]\n", NONE)
    task = load_task(spec, "cpu")
    with pytest.raises(ReferenceFailed, match="made other numbers than before"):
        drawn(task)


@pytest.mark.slow
def test_a_compiled_reference_says_the_same() -> None:
    """As the baseline's process compiles it, here without a compiler's back end."""
    for path in (RAMP, GATE, LOSS):
        torch._dynamo.utils.counters.clear()
        task = task_of(path)
        inputs, compiled = drawn(task), torch.compile(task.reference, dynamic=False, backend="aot_eager")
        with torch.no_grad():
            for _ in range(2):
                assert torch.allclose(compiled([tensor.clone() for tensor in inputs])[0], task.reference(inputs)[0], atol=1e-5)
        assert not torch._dynamo.utils.counters["graph_break"]


def test_python_and_numpy_are_seeded_too(tmp_path: Path) -> None:
    text = (
        "import random, numpy\ndef get_inputs():\n    return [torch.full((2,), random.random()), torch.from_numpy(numpy.random.rand(3))]\n"
    )
    body = "class Model(nn.Module):\n    def forward(self, x, y):\n        return x.sum() + y\n"
    task = load_task(spec_of(tmp_path, body, text, NONE), "cpu")
    assert all(torch.equal(tensor, repeat) for tensor, repeat in zip(drawn(task), drawn(task), strict=True))
    assert all(not torch.equal(tensor, different) for tensor, different in zip(drawn(task), drawn(task, OTHER_KEY), strict=True))
    assert [tensor.dtype for tensor in drawn(task)] == [torch.float32, torch.float32]


@pytest.mark.slow
def test_zeros_fail_where_the_output_is_faint_and_noise_does_not() -> None:
    """The budget is wide: of a right kernel's errors it allows a hundred times, and not what is no answer at all."""
    task = task_of(SOFTMAX)
    right = task.reference(drawn(task))[0]
    assert outcomes(task, [right]) == ["passed"]
    assert outcomes(task, [right * (1 + 1e-3)]) == ["passed"]
    plain = dataclasses.replace(task.spec.tolerance, budget_factor=None)
    mask = torch.zeros_like(right, dtype=torch.bool)
    control = tolerance.compare(torch.zeros_like(right), right, None, mask, plain)  # without the budget zeros pass
    assert control.outcome is wire.TrialOutcome.PASSED
    assert outcomes(task, [torch.zeros_like(right)]) == ["mismatched"]
    assert outcomes(task, [right.mean() * torch.ones_like(right)]) == ["mismatched"]
    half = right.clone()
    half[:, ::2] = 0
    assert outcomes(task, [half]) == ["mismatched"]


@pytest.mark.slow
@pytest.mark.parametrize("changed", [None, 0, 1000, -1])
def test_pieces_say_what_the_whole_says(changed: int | None) -> None:
    """Counts, largest errors and the budget, wherever the wrong element is; the control is one piece."""
    task = task_of(SOFTMAX)
    assert isinstance(task.compare, ElementwiseComparer)
    inputs = drawn(task)
    right = task.reference(inputs)[0]
    output, mask = right.clone(), torch.zeros_like(right, dtype=torch.bool)
    if changed is not None:
        output.view(-1)[changed] = 7.0
        mask.view(-1)[5000] = True
    whole, parts = (
        dataclasses.replace(task.compare, piece=piece)(task.spec.workloads[0], inputs, [output], [right], [mask])[0]
        for piece in (right.numel(), 999)
    )
    assert dataclasses.replace(whole, budget_ratio=None) == dataclasses.replace(parts, budget_ratio=None)
    assert parts.budget_ratio == pytest.approx(whole.budget_ratio) and whole.unwritten_count == int(changed is not None)
    direct = tolerance.compare(output, right, task.reference64([tensor.double() for tensor in inputs])[0], mask, task.spec.tolerance)  # type: ignore[misc]
    assert whole.budget_ratio == pytest.approx(direct.budget_ratio) and whole.outcome is direct.outcome


def test_a_zero_answer_may_be_noise(tmp_path: Path) -> None:
    """Where the truth is zero, PyTorch's own rounding is the measure: another order of summation is not blamed."""
    body = model("return (x - x.mean(1, keepdim=True)).mean(1)")
    task = load_task(spec_of(tmp_path, body, ROW.replace("4, 5", "64, 999"), NONE), "cpu")
    (x,) = drawn(task)
    flipped = (x.flip(1) - x.flip(1).mean(1, keepdim=True)).sum(1) / 999
    assert not torch.equal(flipped, task.reference([x])[0])
    assert outcomes(task, [flipped]) == ["passed"]
    assert outcomes(task, [torch.full_like(flipped, 1e-5)]) == ["mismatched"]


def test_what_can_not_be_had_in_double_is_measured_by_itself(tmp_path: Path) -> None:
    """A forward that is written for its own precision: zeros still fail."""
    body = model("return torch.softmax(x @ torch.eye(4096, dtype=torch.float32), 1)")
    task = load_task(spec_of(tmp_path, body, ROW.replace("4, 5", "2, 4096").replace("rand", "zeros"), NONE), "cpu")
    (right,) = task.reference(drawn(task))
    assert outcomes(task, [right]) == ["passed"] and outcomes(task, [torch.zeros_like(right)]) == ["mismatched"]
