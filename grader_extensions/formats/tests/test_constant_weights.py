"""Weights that start as one constant are drawn: a kernel that leaves them out is wrong; one that reads them, by any name, is right."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments
from grader_extensions.formats.tests.tasks import NONE, judged, model, spec_of, trials
from sandbox.protocol import wire
from sandbox.protocol.signatures import without_model
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch
    from torch import nn

    from sandbox.judge.references import load_task
    from sandbox.languages import python
    from sandbox.launch.constant_weights import PARAMETER, Constant, ConstantWeights

PASSED = ["passed"] * kernelbench.TRIAL_COUNT
KEEP = Adjustments(keep_weights=True)
TESTS = Path(__file__).parents[3] / "tests"
NORM_FILE, MODEL_FILE = TESTS / "exploits" / "problems" / "layer_norm.py", TESTS / "honest" / "problems" / "norm_model.py"
INPUT = "def get_inputs():\n    return [torch.randn(32, 12)]\n"


if AFTER_COLLECTION:

    class WithoutAffine(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.layer_norm(x, x.shape[1:])

    class Named(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.ln = nn.LayerNorm(n)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.ln(x)

    class Renamed(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.beta = nn.Parameter(torch.zeros(n))
            self.register_buffer("ones", torch.ones(n))  # its own
            self.gamma = nn.Parameter(torch.empty(1, n))
            nn.init.ones_(self.gamma)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.layer_norm(x, x.shape[1:]) * self.gamma * self.ones + self.beta

    class Folded(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.norm = nn.Sequential(nn.LayerNorm(n))
            self.affine = torch.stack((self.norm[0].weight, self.norm[0].bias)).detach()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            weight, bias = self.affine.to(x.dtype)
            return nn.functional.layer_norm(x, x.shape[1:], weight, bias)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_kernel_that_leaves_out_the_weights_is_wrong(tmp_path: Path, precision: str) -> None:
    """The control: it is right where an option of the problem keeps them, which is in its digest."""
    drawn, constant = (kernelbench.load(NORM_FILE, adjustments=replace(change, precision=precision)).spec for change in (UNCHANGED, KEEP))
    assert trials(judged(tmp_path, drawn, WithoutAffine)) == ["mismatched"]
    assert trials(judged(tmp_path, constant, WithoutAffine)) == PASSED
    assert drawn.digest != constant.digest


@pytest.mark.parametrize("entry", ["Named", "Renamed", "Folded"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("adjustments", [UNCHANGED, KEEP], ids=["drawn", "kept"])
def test_a_kernel_that_reads_them_is_right(tmp_path: Path, entry: str, precision: str, adjustments: Adjustments) -> None:
    """By the same names, by others and in another order and shape, beside a buffer of its own, and folded while it is made."""
    spec = kernelbench.load(NORM_FILE, adjustments=replace(adjustments, precision=precision)).spec
    assert trials(judged(tmp_path, spec, globals()[entry])) == PASSED


def test_a_compiled_entry_gets_what_is_drawn(tmp_path: Path) -> None:
    """As inputs; the control leaves them out."""

    def solve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(x, x.shape[1:], weight, bias)

    spec = without_model(kernelbench.load(NORM_FILE).spec)
    assert trials(judged(tmp_path, spec, solve)) == PASSED
    assert trials(judged(tmp_path, spec, lambda x, *_: nn.functional.layer_norm(x, x.shape[1:]))) == ["mismatched"]


def test_what_is_drawn_keeps_a_model_sound() -> None:
    """Positive variances, weights about their constants, and counters and random weights as they were."""
    drawn, fixed = (
        torch.load(io.BytesIO(load_task(kernelbench.load(MODEL_FILE, adjustments=change).spec, "cpu").state))
        for change in (UNCHANGED, KEEP)
    )
    weights = drawn["weights"]
    for name in ("batch.running_var", "batch.weight", "layer.weight"):
        assert 0.5 <= float(weights[name].min()) < 0.8 and 1.2 < float(weights[name].max()) <= 1.5
    for name in ("batch.running_mean", "batch.bias", "layer.bias", "gate"):
        assert -0.5 <= float(weights[name].min()) < -0.2 and 0.2 < float(weights[name].max()) <= 0.5
    assert 0.125 <= float(weights["slope.weight"]) <= 0.375 and int(weights["batch.num_batches_tracked"]) == 0
    assert fixed["drawn"] is None and float(fixed["weights"]["layer.weight"].std()) == 0


@pytest.mark.parametrize("value", [0.0, 0.25, -3.0])
def test_no_drawn_value_could_pass_for_the_constant(value: float) -> None:
    """Not in half precision either, and of a single element."""
    constant, single = Constant(PARAMETER, value, 1), torch.zeros(1, dtype=torch.bfloat16)
    for seed in range(200):
        drawn = float(ConstantWeights(seed=f"weights {seed}").draw(constant, single))
        share = abs(drawn - value) / (abs(value) or 1.0)
        assert 0.24 <= share <= 0.51


@pytest.mark.parametrize(
    ("init", "constant"),
    [
        ("self.a = nn.Parameter(torch.zeros(1))", 0.0),
        ("self.inner = nn.Sequential(nn.Sequential(nn.PReLU()))", 0.25),
        ("self.a = nn.Parameter(torch.ones(1)); self.half()", 1.0),
    ],
    ids=["flat", "deep", "cast"],
)
def test_a_single_element_is_drawn_once(tmp_path: Path, init: str, constant: float) -> None:
    """The drawn element is constant, too, and its rounded value is no constant of the problem's. Another name starts as the file says."""
    task = load_task(spec_of(tmp_path, model("return x * next(self.parameters())", init), INPUT, NONE), "cpu")

    class Renamed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b = nn.Parameter(torch.full((1,), constant, dtype=torch.float16 if "half" in init else torch.float32))

    (value,) = torch.load(io.BytesIO(task.state))["weights"].values()
    assert float(value) != constant and torch.equal(python.make_model(Renamed, task.state, "cpu").b.data, value)


def spec_of_number(directory: Path, number: str) -> wire.ProblemSpec:
    """A model that is made with a number, which it keeps as a parameter."""
    init = "self.a = nn.Parameter(torch.tensor(float(numbers[0]))); self.b = nn.Parameter(torch.zeros(1))"
    text = model("return x * self.a + self.b", init).replace("__init__(self)", "__init__(self, numbers)")
    return spec_of(directory, text, INPUT, NONE.replace("[]", f"[[{number}, 1]]"))


@pytest.mark.parametrize("number", ["0.3", "7"])
def test_a_number_that_the_model_is_made_with_may_be_read_from_there(tmp_path: Path, number: str) -> None:
    """A parameter of one element that is an argument stays; one that is no argument is drawn."""

    class Reads(nn.Module):
        def __init__(self, numbers: list[float]) -> None:
            super().__init__()
            self.factor, self.shift = numbers[0], nn.Parameter(torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor + self.shift

    assert trials(judged(tmp_path, spec_of_number(tmp_path, number), Reads)) == PASSED


def test_constants_that_the_problem_does_not_have_stay() -> None:
    """Such as a workspace, or a number that a submission keeps as a parameter; and the generators go on as without drawing."""
    task = load_task(kernelbench.load(NORM_FILE).spec, "cpu")

    class Constants(nn.Module):
        def __init__(self, n: int) -> None:
            super().__init__()
            self.two, self.space = nn.Parameter(torch.full((n,), 2.0)), nn.Parameter(torch.zeros(n + 1))
            self.norm, self.random = nn.LayerNorm(n), nn.Parameter(torch.randn(3))

    instance = python.make_model(Constants, task.state, "cpu")
    torch.manual_seed(torch.load(io.BytesIO(task.state))["seed"])
    assert bool((instance.two == 2).all()) and not bool(instance.space.any())
    assert torch.equal(instance.random, torch.randn(3)) and float(instance.norm.weight.detach().std()) > 0.1
