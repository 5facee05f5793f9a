"""Arguments of a kernelbench problem's entry: names for C, weights as inputs of a compiled entry, and what can't be passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader_extensions.formats import kernelbench
from grader_extensions.formats.tests.tasks import FIXTURES, NONE, OTHER_KEY, ROW, drawn, model, spec_of
from sandbox.protocol import wire
from sandbox.protocol.signatures import without_model
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats.kernelbench_reference import describe
    from sandbox.judge.references import ReferenceFailed, load_task


PRODUCT = FIXTURES / "5_Scaled_product.py"


def test_a_compiled_entry_gets_the_weights_as_inputs() -> None:
    """After the others, the same with every key; what the reference answers does not depend on the convention."""
    spec = kernelbench.load(PRODUCT).spec
    plain, task = load_task(spec, "cpu"), load_task(without_model(spec), "cpu")
    names = [tensor.name for tensor in task.spec.inputs]
    assert names[:2] == ["x", "factor"] == [tensor.name for tensor in plain.spec.inputs]
    assert names[2:] == [weight.name for weight in plain.spec.weights] and {"linear_weight", "norm_running_var", "shift"} < set(names)
    assert task.spec.convention is wire.Convention.POSITIONAL and task.state == b"" and plain.state
    axes = task.spec.workloads[0].axes
    assert set(task.spec.axes) == axes.keys() and task.spec.axes[:4] == ("x_0", "x_1", "output_0", "output_1")
    first, second = drawn(task), drawn(task, OTHER_KEY)
    assert not torch.equal(first[0], second[0]) and all(torch.equal(a, b) for a, b in zip(first[2:], second[2:], strict=True))
    assert [[axes[str(axis)] for axis in tensor.shape] for tensor in task.spec.inputs] == [list(value.shape) for value in first]
    assert torch.equal(task.reference(first)[0], plain.reference(drawn(plain))[0])
    weights = dict(zip(names, first, strict=True))
    by_hand = first[0] @ weights["linear_weight"].T + weights["linear_bias"]
    by_hand = (by_hand - weights["norm_running_mean"]) / (weights["norm_running_var"] + 1e-5).sqrt() * weights["norm_weight"]
    assert torch.allclose((by_hand + weights["norm_bias"]) * 0.75 + weights["shift"], task.reference(first)[0], atol=1e-5)


def test_weights_are_as_the_model_is_made(tmp_path: Path) -> None:
    """Also where a call changes them: a buffer that forward writes to is given as it was."""
    spec = spec_of(tmp_path, model("self.b.add_(1); return x + self.b", "self.register_buffer('b', torch.zeros(5))"), ROW, NONE)
    task = load_task(without_model(spec), "cpu")
    for _ in range(2):
        x, b = drawn(task)
        assert not b.any() and torch.equal(task.reference([x, b])[0], x + 1)


def test_everything_that_a_model_keeps_is_a_weight(tmp_path: Path) -> None:
    """Plain attributes and buffers that are no part of its state too, numbers by value; not what only counts calls."""
    init = "; ".join(
        (
            "self.w = nn.Parameter(torch.ones(5))",
            "self.register_buffer('mask', torch.ones(5) > 0, persistent=False)",
            "self.table = torch.arange(3)",
            "self.scale = nn.Parameter(torch.tensor(2.0))",
            "self.norm = nn.BatchNorm1d(5)",
        )
    )
    spec = spec_of(tmp_path, model(init=init), ROW, NONE, precision="fp16")
    task = load_task(without_model(spec), "cpu")
    inputs = {tensor.name: (tensor.dtype, len(tensor.shape)) for tensor in task.spec.inputs[1:]}
    half = dict.fromkeys(("w", "norm_weight", "norm_bias", "norm_running_mean", "norm_running_var"), ("float16", 1))
    assert inputs == {**half, "mask": ("bool", 1), "table": ("int64", 1), "scale": ("float16", 0)}
    assert 1.0 <= float(drawn(task)[[tensor.name for tensor in task.spec.inputs].index("scale")]) <= 3.0


def test_names_are_different_and_c_takes_them(tmp_path: Path) -> None:
    """Parameters of C++ keywords, of the names of sizes, of the output's and the stream's name, and layers that are numbered."""
    init = "self.net = nn.Sequential(nn.Linear(5, 5)); self.x = nn.Parameter(torch.ones(2)); self.é = nn.Parameter(torch.ones(1))"
    names = "x, x_0, float, output, stream, register"
    functions = "def get_inputs():\n    return [torch.rand(4, 5) for _ in range(6)]\n"
    description = describe(spec_of(tmp_path, model("return x", init, names), functions, NONE), "cpu")
    assert description is not None
    tensors = [tensor.name for tensor in (*description.inputs, *description.outputs, *description.weights)]
    assert tensors[0] == "x" and "net_0_weight" in tensors
    everything = [*tensors, *description.axes]
    assert len(set(everything)) == len(everything) and not {"float", "stream", "register"} & set(everything)
    assert all(name.isascii() and name.isidentifier() for name in everything)


@pytest.mark.parametrize(
    ("init", "obstacle"),
    [
        (
            "self.all = nn.ParameterList([torch.ones(2) for _ in range(130)])",
            "it has 130 weights and buffers, and an entry can take 128 tensors",
        ),
        ("self.register_buffer('c', torch.zeros(2, dtype=torch.uint16))", "'c' is uint16 with 1 axes"),
    ],
)
def test_a_model_that_no_compiled_entry_can_be_given_takes_python(tmp_path: Path, init: str, obstacle: str) -> None:
    """The reason is part of what is learned; a compiled submission that comes all the same is refused with it."""
    spec = spec_of(tmp_path, model(init=init), ROW, NONE)
    description = describe(spec, "cpu")
    assert description is not None and obstacle in description.obstacle and description.weights == ()
    assert load_task(spec, "cpu").described == description
    with pytest.raises(ReferenceFailed, match=r"its model can't be given to a compiled entry: .*; submit a Python module"):
        load_task(without_model(spec), "cpu")


@pytest.mark.parametrize(
    "parts",
    [
        (model(), "def get_inputs():\n    return [torch.rand(4, 5).cuda()]\n"),
        (model(), "def get_inputs():\n    return [torch.rand(4, 5, device='cuda')]\n"),
        (model(), "def get_inputs():\n    return [torch.rand(4, 5).to(torch.device('cuda:0'))]\n"),
        (model("return x * self.w", "self.w = nn.Parameter(torch.ones(5, device='cuda')); self.cuda()"), ROW),
        (model("return x.cuda() + torch.ones(5, device='cuda')"), ROW),
        (model("assert x.is_cuda; return x"), ROW),
    ],
)
def test_cuda_in_a_file_is_the_emulated_device(tmp_path: Path, parts: tuple[str, str]) -> None:
    """In get_inputs, in the model and in forward; a file that means the device by its name runs there unchanged."""
    task = load_task(spec_of(tmp_path, *parts, NONE), "cpu")
    (output,) = task.reference(drawn(task))
    assert output.device.type == "cpu" and output.shape == (4, 5)
