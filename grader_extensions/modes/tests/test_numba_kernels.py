"""A module's Numba kernels are compiled to PTX when it is built, and what makes them compute in float64 is named."""

from __future__ import annotations

import importlib.util

import pytest

from sandbox.compilers.steps import BUILT
from sandbox.protocol import wire

pytestmark = [
    pytest.mark.slow,  # torch is imported twice in each
    pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed"),
]


def tensor(name, *shape):
    return wire.TensorSpec(name=name, dtype="float32", shape=shape)


MATMUL = wire.EntryCall(
    inputs=(tensor("a", "n", "n"), tensor("b", "n", "n")), outputs=(tensor("c", "n", "n"),), axes=("n",), sizes={"n": 8}
)
TEXT = """import numpy as np
import torch
from numba import cuda, float32, int32
FACTOR = 0.1

@cuda.jit(device=True)
def product(x, y):
    return x * y

DECORATOR
def matmul(a, b, c, n, scale):
    row, column = cuda.grid(2)
    if row < n and column < n:
        total = START
        for k in range(n):
            total += product(a[row, k], b[k, column])
        c[row, column] = RESULT

def solution(a, b):
    c = torch.empty_like(a)
    matmul[(1, 1), (8, 8)](a, b, c, a.shape[0], SCALE)
    return c
"""
SIGNATURE = "void(float32[:,:], float32[:,:], float32[:,:], int32, float32)"


def text(start="np.float32(0)", result="total", scale="np.float32(2)", decorator="@cuda.jit"):
    filled = TEXT.replace("DECORATOR", decorator).replace("START", start).replace("RESULT", result)
    return filled.replace("SCALE", scale)


@pytest.mark.parametrize(
    ("replacements", "remark"),
    [
        ({}, None),
        (
            {"start": "0"},
            "14: accumulates in float64: the literal `0` is an int64, and with float32 that makes a float64; write `np.float32(0)`",
        ),
        ({"start": "0.0"}, "14: accumulates in float64: the literal `0.0` is a float64; write `np.float32(0.0)`"),
        ({"result": "total * 0.3"}, "17: computes in float64: the literal `0.3` is a float64; write `np.float32(0.3)`"),
        ({"result": "total * 2.0"}, None),
        (
            {"result": "total * scale", "scale": "0.3"},
            "17: computes in float64: the argument `scale` is a float64; write `np.float32(scale)`",
        ),
        ({"result": "total + FACTOR"}, "17: computes in float64: the global `FACTOR` is a float64; write `np.float32(FACTOR)`"),
        (
            {"start": "0.0", "decorator": f"@cuda.jit({SIGNATURE!r})"},
            "14: accumulates in float64: the literal `0.0` is a float64; write `np.float32(0.0)`",
        ),
    ],
    ids=["typed", "integer", "literal", "factor", "exact_factor", "argument", "global", "signature"],
)
def test_what_makes_a_float64_is_named_with_its_line(builder, replacements, remark):
    """The kernel is compiled for what its entry calls it with. A product with 2.0 is as exact in float32, and the compiler knows it."""
    built = builder(text(**replacements), call=MATMUL)
    assert built.code == BUILT, built.log
    (kernel,) = built.note.kernels
    assert kernel.name == "matmul" and kernel.registers > 0
    assert built.note.remarks == (() if remark is None else (f"mine/kernel.py:{remark}",))
    assert (kernel.double_instruction_count > 0) is (remark is not None)


@pytest.mark.parametrize("decorator", ["@cuda.jit", f"@cuda.jit({SIGNATURE!r})"])
def test_a_kernel_whose_types_nobody_knows_is_not_compiled(builder, decorator):
    """Where only the problem's own code knows its inputs, a kernel with a signature is, and no other. What is built is the same."""
    plain, called = builder(text("0.0", decorator=decorator)), builder(text("0.0", decorator=decorator), call=MATMUL)
    assert bool(plain.note.remarks) is ("float32" in decorator)
    assert plain.artifact is not None and plain.artifact == called.artifact


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ("    return c\n", 1),
        ("    raise ValueError('after the launch')\n", 1),
        ("    import os\n    os._exit(3)\n", 0),
        ("    import sys\n    sys.exit(3)\n", 1),
    ],
    ids=["as it is", "raises", "ends", "exits"],
)
def test_an_entry_that_fails_without_a_gpu_changes_no_build(builder, changed, count):
    """Kernels launched until then are compiled where there is still somebody to do it."""
    built = builder(text("0.0").replace("    return c\n", changed), call=MATMUL)
    assert built.code == BUILT and built.names == ["sources/mine/kernel.py"], built.log
    assert len(built.note.remarks) == len(built.note.kernels) == count
