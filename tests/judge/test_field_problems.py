"""The field's problems: declared shapes are the reference's, and tolerances tell an honest order of summation from too little precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.formats import native
from sandbox.devices import open_device
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch
    import torch.nn.functional as F

    from sandbox.judge.inputs import draw, shape_of
    from sandbox.judge.tolerance import Comparison, compare


EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
FIELD = (
    *("conv2d_fp32", "conv_relu_maxpool", "elementwise_square", "flash_attention", "layer_norm"),
    *("matmul_4092", "matmul_fp16", "matmul_fp32", "softmax_wide"),
)
KEYS = ("00" * 16, "5a" * 16)
Kernel = Callable[..., "torch.Tensor"]


def reference_of(spec: wire.ProblemSpec) -> Kernel:
    names: dict[str, Kernel] = {}
    exec(spec.reference, names)
    return names["reference"]


def in_order(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b in float32, one product after the other: the least exact honest order."""
    sums = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        sums += a[:, k : k + 1].float() * b[k : k + 1].float()
    return sums


def in_half(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b with sums kept in float16."""
    sums = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float16)
    for k in range(a.shape[1]):
        sums = (sums.float() + a[:, k : k + 1].float() * b[k : k + 1].float()).half()
    return sums


def convolve(stride: int, padding: int, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """As a product, summed in order."""
    side, (batch, _, height, width), filters = weight.shape[2], x.shape, weight.shape[0]
    columns = F.unfold(x, (side, side), padding=padding, stride=stride).permute(1, 0, 2)
    sums = in_order(weight.reshape(filters, -1), columns.reshape(columns.shape[0], -1)).reshape(filters, batch, -1).permute(1, 0, 2)
    out_height, out_width = ((size + 2 * padding - side) // stride + 1 for size in (height, width))
    return sums.reshape(batch, filters, out_height, out_width) + bias[:, None, None]


def pooled(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(torch.relu(convolve(1, 1, x, weight, bias)), 2)


def normalise(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Two passes in float32, as a tree."""
    deviations = x - x.mean((1, 2, 3), keepdim=True)
    return deviations * torch.rsqrt(deviations.square().mean((1, 2, 3), keepdim=True) + 1e-5) * weight + bias


def softmax(exponentials: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    """To the base of two, with the exponentials kept in a dtype."""
    raised = torch.exp2((x - x.amax(1, keepdim=True)) * math.log2(math.e)).to(exponentials).float()
    return raised / raised.sum(1, keepdim=True)


def attend(product: Kernel, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Probabilities rounded to half, as tensor cores take them; product makes the second product."""
    scores = (q.float() @ k.float().transpose(-1, -2) / 8)[0, 0]
    scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
    return product(torch.softmax(scores, -1).half(), v[0, 0]).half()[None, None]


def of_half(kernel: Kernel) -> Kernel:
    """The same on operands that were rounded to half."""
    return lambda *inputs: kernel(*(item.half().float() for item in inputs))


def conv(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return convolve(4, 2, x, weight, bias)


# Problem, workload, axes that are cut so that it takes no time here (none that a sum runs along), an honest kernel, one of less precision.
CASES: tuple[tuple[str, str, dict[str, int], Kernel, Kernel], ...] = (
    ("matmul_fp32", "128x128x128", {}, in_order, of_half(in_order)),
    ("matmul_fp32", "4096x4096x4096", {"m": 16, "n": 64}, in_order, of_half(in_order)),
    ("matmul_fp32", "8192x2048x1024", {"m": 16, "n": 64}, in_order, of_half(in_order)),
    ("matmul_4092", "n124", {}, in_order, of_half(in_order)),
    ("matmul_fp16", "128x128x128", {}, lambda a, b: in_order(a, b).half(), in_half),
    ("matmul_fp16", "8192x8192x8192", {"m": 16, "n": 64}, lambda a, b: in_order(a, b).half(), in_half),
    ("conv2d_fp32", "2x3x39x47", {}, conv, of_half(conv)),
    ("conv2d_fp32", "100x3x224x224", {"batch": 1, "filters": 4}, conv, of_half(conv)),
    ("conv_relu_maxpool", "2x4x20x36", {}, pooled, of_half(pooled)),
    ("conv_relu_maxpool", "32x64x112x112", {"batch": 1, "filters": 4}, pooled, of_half(pooled)),
    ("softmax_wide", "2x65536", {}, lambda x: softmax(torch.float32, x), lambda x: softmax(torch.float16, x)),
    ("layer_norm", "2x16x32x32", {}, normalise, of_half(normalise)),
    ("layer_norm", "16x64x256x256", {"batch": 1}, normalise, of_half(normalise)),
    ("flash_attention", "1x2x128", {"heads": 1}, lambda *qkv: attend(in_order, *qkv), lambda *qkv: attend(in_half, *qkv)),
    ("flash_attention", "32x16x1024", {"batch": 1, "heads": 1}, lambda *qkv: attend(in_order, *qkv), lambda *qkv: attend(in_half, *qkv)),
    ("elementwise_square", "223x781", {}, lambda x: x * x, of_half(lambda x: x * x)),
)


def compared(problem: str, workload_id: str, cut: dict[str, int], kernel: Kernel, key: str) -> Comparison:
    """Return the findings of the judge's comparison for the kernel's answer to this key's inputs."""
    spec = native.load(EXAMPLES / problem).spec
    workload = next(item for item in spec.workloads if item.workload_id == workload_id)
    inputs = draw(spec.inputs, {**workload.axes, **cut}, key, open_device("emulated"))
    reference, exact = reference_of(spec)(*inputs), reference_of(spec)(*(item.double() for item in inputs))
    answer = kernel(*inputs)
    return compare(answer, reference, exact, torch.zeros_like(answer, dtype=torch.bool), workload.tolerance or spec.tolerance)


@pytest.mark.parametrize("name", FIELD)
def test_the_declared_shapes_are_the_reference_s_at_every_size(name):
    """Derived sizes are axes of their own, so that they may disagree; on the meta device the real sizes cost nothing."""
    spec = native.load(EXAMPLES / name).spec
    (declared,) = spec.outputs
    for workload in spec.workloads:
        inputs = [torch.empty(shape_of(item, workload.axes), dtype=getattr(torch, item.dtype), device="meta") for item in spec.inputs]
        output = reference_of(spec)(*inputs)
        assert tuple(output.shape) == shape_of(declared, workload.axes), workload.workload_id
        assert output.dtype == getattr(torch, declared.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("problem", "workload", "cut", "honest", "narrow"), CASES, ids=[f"{case[0]}-{case[1]}" for case in CASES])
def test_an_honest_order_of_summation_keeps_half_of_the_budget(problem, workload, cut, honest, narrow, key):
    """At the real lengths of sums too. Less precision is over it: operands of half in float32, or sums kept in half in float16."""
    right, control = (compared(problem, workload, cut, kernel, key) for kernel in (honest, narrow))
    assert right.outcome is wire.TrialOutcome.PASSED and right.budget_ratio < 0.5
    assert control.outcome is wire.TrialOutcome.MISMATCHED and control.budget_ratio > 1
