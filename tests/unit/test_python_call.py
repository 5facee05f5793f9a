"""Calls of kernels that know torch: their arguments, their results, and the memory that they allocate."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox.devices import Arena
from sandbox.languages import python, torch_extension
from sandbox.launch.loop import LaunchRefused, _poison_allocations
from sandbox.protocol import wire
from sandbox.protocol.gate import Slot, Status
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch


NOWHERE = cast(Arena, None)  # of what goes by value
JOB = wire.RunnerJob(
    device_kind="emulated",
    language="python",
    entry="solve",
    arena_bytes=64,
    inputs=(),
    outputs=(wire.TensorSpec(name="c", dtype="float32", shape=(3,)),),
)


@pytest.mark.parametrize(
    ("dtype", "scalar", "expected"),
    [("bool", 1.0, True), ("bool", 0.0, False), ("int64", 1.0, 1), ("uint8", 3.0, 3), ("float64", 1.0, 1.0), ("bfloat16", 0.5, 0.5)],
)
def test_a_number_is_given_as_what_it_is(dtype: str, scalar: float, expected: object) -> None:
    """True is no 1: torch.sort(descending=1) raises."""
    tensor = wire.TensorSpec(name="a", dtype=dtype, shape=())
    argument = torch_extension.argument(NOWHERE, Slot(offset=0, shape=(), scalar=scalar), tensor)
    assert type(argument) is type(expected) and argument == expected


def test_a_result_that_is_negated_when_it_is_copied_is_refused() -> None:
    """Although contiguous, it leaves its work to the copy, which everybody is forgiven; the control has done that work."""
    value, target = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(3)
    lazy = torch._neg_view(value)
    assert lazy.is_contiguous()
    with pytest.raises(LaunchRefused, match="'c' is negated or conjugated only when it is copied") as caught:
        torch_extension.copy_out(lazy, [target], JOB)
    assert caught.value.status is Status.WRONG_SHAPE and not target.any()
    torch_extension.copy_out(lazy.resolve_neg(), [target], JOB)
    assert torch.equal(target, -value)


def test_a_result_that_lies_where_it_is_copied_to_is_refused() -> None:
    """A copy of a tensor to itself takes no time, and what a copy takes is forgiven. Beside it is another's place."""
    memory = torch.zeros(12)
    target = memory[4:8]
    for begin in (3, 4, 7):
        with pytest.raises(LaunchRefused, match="'c' lies where the grader copies it to"):
            torch_extension.copy_out(memory[begin : begin + 4], [target], JOB)
    for begin in (0, 8):
        torch_extension.copy_out(memory[begin : begin + 4], [target], JOB)


def test_fresh_memory_is_filled_and_no_compiler_is_imported():
    """Torch's own switch imports its compiler first, which takes seconds of the time that the judge is patient for."""
    before = set(sys.modules)
    try:
        _poison_allocations(True)
        assert torch.empty(64).isnan().all()
        assert torch.empty(64, dtype=torch.int32).eq(torch.iinfo(torch.int32).max).all()
    finally:
        _poison_allocations(False)
    assert not torch.are_deterministic_algorithms_enabled()
    assert not [name for name in set(sys.modules) - before if name.startswith("torch._inductor")]


# -- functions of a torch extension that write their outputs behind their inputs ---------------------------------------

OVERLOADED = "f(*args, **kwargs)\nOverloaded function.\n\n1. f(arg0: torch.Tensor, arg1: torch.Tensor) -> None\n"


def documented(text: str | None) -> SimpleNamespace:
    return SimpleNamespace(__doc__=text)


ROWS = replace(
    JOB,
    inputs=tuple(wire.TensorSpec(name=name, dtype="float32", shape=("rows", "n")) for name in "ab"),
    outputs=(wire.TensorSpec(name="c", dtype="float32", shape=("rows",)),),
    axes=("rows", "n"),
)


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("f(arg0: torch.Tensor, arg1: torch.Tensor, arg2: torch.Tensor) -> None\n", (0, 1, 2)),
        ("f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> None\n\nReLU of x, into y", (0, 1, 2)),
        ("f(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor, size: int) -> None\n", (2, 0, 1, 3)),
        ("f(size: int, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None\n", (3, 0, 1, 2)),
        ("f(a: torch.Tensor, sizes: tuple[int, list[int]], b: torch.Tensor, c: torch.Tensor) -> None\n", (0, 3, 1, 2)),
        ("f(a: torch.Tensor, c: torch.Tensor, out: torch.Tensor) -> None\n", (0, 1, 2)),  # names of its own
        ("f(arg0: object, arg1: object, arg2: object) -> None\n", (0, 1, 2)),
        ("f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, stream: int) -> None\n", ()),
        ("f(a: torch.Tensor, b: torch.Tensor) -> None\n", ()),  # it takes something else
        ("f() -> None\n", ()),
        ("f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor) -> None\n", ()),
        ("f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor\n", None),  # it returns its output
        ("f(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> tuple[None, None]\n", None),
        (OVERLOADED, None),  # which one is called would depend on the arguments
        ("says nothing of its arguments", None),
        ("", None),
        (None, None),
    ],
)
def test_a_signature_of_pybind11(text: str | None, order: tuple[int, ...] | None) -> None:
    """Outputs are given to a function that returns nothing, by the names and types of its parameters."""
    parameters = torch_extension.parameters_of(cast(Any, documented(text)))
    assert (parameters and torch_extension.order_of(parameters[0], ROWS, parameters[1])) == order


@pytest.mark.parametrize(
    ("schema", "order"),
    [
        ("f(Tensor x, Tensor y, Tensor z) -> ()", (0, 1, 2)),
        ("f(Tensor! out, Tensor x, Tensor y, float rows) -> ()", (2, 0, 1, 3)),
        ("f(Tensor! C, Tensor B, Tensor A) -> ()", (2, 1, 0)),
        ("f(Tensor! b, Tensor x, Tensor y) -> ()", (2, 0, 1)),  # that it is written to says more than a name
        ("f(Tensor a, Tensor c, Tensor(x!) out) -> ()", (0, 1, 2)),
        ("f(Tensor x, Tensor y) -> ()", ()),
        ("f(Tensor x, Tensor y) -> Tensor", None),
    ],
)
def test_a_schema_of_an_operator(schema: str, order: tuple[int, ...] | None) -> None:
    """As vLLM declares its operators, outputs first."""
    operator = SimpleNamespace(default=SimpleNamespace(_schema=torch._C.parse_schema(schema)))
    parameters = torch_extension.parameters_of(cast(Any, operator))
    assert (parameters and torch_extension.order_of(parameters[0], ROWS, parameters[1])) == order


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        (lambda a, b: None, ()),
        (lambda a, b, block=128: None, ()),
        (lambda *tensors: None, ()),
        (lambda a, b, c: None, (0, 1, 2)),
        (lambda x, y, out, m, n: None, (0, 1, 2, 3, 4)),
        (lambda c, a, b, n: None, (2, 0, 1, 4)),
        (lambda n, out, b, a: None, (4, 2, 1, 0)),
        (lambda C, B, A, N: None, (2, 1, 0, 4)),
        (lambda a, A, b: None, (0, 2, 1)),  # two of one name: A is what is left
        (lambda a, b, c, rows, block=128: None, (0, 1, 2, 3)),
        (functools.wraps(lambda a, b, c: None)(lambda a, b: None), ()),
        (functools.wraps(lambda a, b, c: None)(lambda *tensors: None), ()),
    ],
)
def test_a_function_that_takes_its_outputs_gets_them(kernel, order) -> None:
    """As LeetGPU's do: by name, whatever its capitals, and what is left in the problem's order. What has a default is never given."""
    assert python.argument_order(kernel, ROWS) == order


@pytest.mark.parametrize("kernel", [lambda a: None, lambda: None, lambda a, b, c, d, e, f: None])
def test_a_function_that_can_not_be_called_is_told_how_it_is(kernel) -> None:
    """Before it runs."""
    with pytest.raises(LaunchRefused, match=r"calls solve\(a, b\) and takes what it returns, or solve\(a, b, c, rows, n\), where"):
        python.argument_order(kernel, ROWS)
