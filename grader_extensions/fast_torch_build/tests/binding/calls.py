"""The calls of `kernel.cpp`, good and bad: each a function and its arguments."""

from __future__ import annotations

import decimal
import fractions
from collections.abc import Iterator
from typing import Any

import numpy
import torch


class Index:
    def __index__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "Index()"


class Int(Index):
    """Has `__int__` too, and it says another number."""

    def __int__(self) -> int:
        return 8


class OnlyInt:
    def __int__(self) -> int:
        return 9

    def __repr__(self) -> str:
        return "OnlyInt()"


class Float:
    def __float__(self) -> float:
        return 1.25

    def __repr__(self) -> str:
        return "Float()"


class Unrepresentable:
    def __repr__(self) -> str:
        raise ValueError("no")


class Broken:
    """A sequence that fails when it is read."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        raise KeyError("broken")

    def __repr__(self) -> str:
        return "Broken()"


class Truth:
    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __repr__(self) -> str:
        return "Truth()"


class Subclass(torch.Tensor):
    pass


class Raising(torch.Tensor):
    """Its operators fail in Python, below what C++ calls."""

    @staticmethod
    def __new__(cls) -> Raising:
        return torch.Tensor._make_wrapper_subclass(cls, (2,))

    @classmethod
    def __torch_dispatch__(cls, *_: object) -> torch.Tensor:
        raise LookupError("dispatched")

    def __repr__(self) -> str:  # type: ignore[override]
        return "Raising()"


X = torch.arange(4.0)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 - 1, 2**32, 2**63 - 1),
    *(2**63, -(2**63), 2**64 - 1, 2**64, 10**30, -(10**30), True, False, 1.0, 1.5, float("nan"), float("inf"), None, "1", b"1"),
    *(1j, [1], (1,), {}, X, torch.tensor(3), torch.tensor(2.5), torch.tensor(True), numpy.int32(5), numpy.int64(-5)),
    *(numpy.uint8(200), numpy.float32(1.5), numpy.float64(2.5), numpy.bool_(True), numpy.array(3), numpy.array([1, 2])),
    *(Index(), Int(), OnlyInt(), Float(), decimal.Decimal("2.5"), fractions.Fraction(5, 2), Truth(), int, object),
)
TEXTS: tuple[Any, ...] = (
    *("", "text", "ü€😀", "nul\0in", "\ud800", b"bytes", b"\xff\xfe", bytearray(b"array"), memoryview(b"x"), None, 1),
    *(numpy.str_("np"), ["a"]),
)
SEQUENCES: tuple[Any, ...] = (
    *([], [1, 2, 3], (1, 2, 3), [1, 2], [1.5, 2, 3], [1, None, 3], ["a", "b", "c"], "abc", b"abc", {1, 2, 3}, frozenset([1])),
    *({1: 2, 3: 4, 5: 6}, {1: 2}.keys(), {1: 2}.values(), {1: 2}.items(), range(3), torch.Size([1, 2, 3])),
    *(torch.tensor([1, 2, 3]), X[:3], [X, X], (X,), [[1], [2, 3]], numpy.array([1, 2, 3]), numpy.array([1.5, 2, 3])),
    *([True, False, True], [numpy.bool_(True)] * 3, [Index()] * 3, Broken(), None, 3, [2**40] * 3, bytearray(b"abc"), list),
    *([0] * 12, (1, "a"), [1, b"a"], (X, 1, None), (X, 1, 2), (X, 1), ("ab", 1), "ab", [torch.tensor(1)] * 3),
)


def generators() -> Iterator[Any]:
    """Made anew for each call: they are used up."""
    yield (x for x in [1, 2, 3])
    yield map(int, "123")
    yield zip([1, 2, 3], [4, 5, 6], strict=True)
    yield iter([1, 2, 3])
    yield filter(None, [1, 2, 3])
    yield (1 // x for x in [1, 0])


NUMERIC = "int_ uint short_ uchar schar long_ ulong longlong size float_ double_ bool_ optional_int overloaded scalar"
SEQUENTIAL = "ints nested floats bools strings tensors pair tuple tuple_ref size_list prefer count_of"
WITH_TENSOR = "twice defined nothing_ same optional_tensor optional_ref policy policy_ref sizes object scalar"
WITH_NOTHING = "undefined bad_text functor size_list dtype defaults optional_tensor optional_ref"
Call = tuple[str, tuple[Any, ...], dict[str, Any]]


def calls() -> Iterator[Call]:
    """All of them; to be made once for each module."""

    def of(name: str, *arguments: Any, **keywords: Any) -> Call:
        return name, arguments, keywords

    yield from ((name, (value,), {}) for name in NUMERIC.split() for value in NUMBERS)
    yield from ((name, (value,), {}) for name in ("string", "view", "chars", "string_ref") for value in TEXTS)
    yield from ((name, (value,), {}) for name in SEQUENTIAL.split() for value in SEQUENCES)
    for at, name in ((at, name) for name in SEQUENTIAL.split() for at in range(6)):
        yield name, (list(generators())[at],), {}
    wrappers = X.int(), torch.nn.Parameter(X.clone()), X.as_subclass(Subclass), X.to("meta")
    tensors = (X, *wrappers, None, 1, [1.0], numpy.array([1.0]), torch.Tensor)
    for name in WITH_TENSOR.split():
        yield from ((name, (value,), {}) for value in tensors)
    yield from ((name, (), {}) for name in WITH_NOTHING.split())
    yield from (of(name, value) for name in ("added", "caught", "defined", "string") for value in (X, Raising(), 1))
    yield from (of("fail", kind) for kind in range(40))
    yield from (of("device", value) for value in (torch.device("cpu"), torch.device("cuda:3"), "cpu", None, 0))
    yield from (of("dtype", value) for value in (torch.float16, torch.int64, float, "float32", None))
    yield from (of("object", value) for value in (1, None, "x", [1]))
    yield from (of("release", 4), of("static_add", 1, 2), of("static_add", 1), of("static_add", a=1, b=2), of("tie", X, X + 1))
    yield from (of("tie", X, None),)
    yield from (of("moved", X, [1]), of("moved", X, [1.5]), of("lambda", 3), of("captured", 3), of("captured", x=3), of("captured", y=3))
    yield from (of("mutable_", 1), of("mutable_", 1), of("functor", 2), of("functor", x=2), of("functor", 2, x=2), of("functor", 1, 2))
    yield from (of("noexcept_add", 1), of("noexcept_add", b=1), of("noexcept_add", b=1, a=2), of("noexcept_add", 1, 2, 3))
    yield from (of("noexcept_add", 1, a=1),)
    yield from (of("noexcept_add", 1, c=2), of("noexcept_add", "x", b=[X]), of("noexcept_add", Unrepresentable(), b=Unrepresentable()))
    yield from (of("overloaded", 1, None), of("overloaded", 1, X), of("overloaded", n=1), of("overloaded", n=1, x=X))
    yield from (of("overloaded", x=X), of("overloaded"))
    yield from (of("overloaded", n=1.5), of("overloaded", 1, 2), of("overloaded", 1, n=1), of("overloaded", n=Index()))
    yield from (of("overloaded", "x", y=1),)
    yield from (of("unnamed", 5, 3), of("unnamed", 5, b=3), of("unnamed", b=3), of("unnamed", 1))
    yield from (of("defaults", 1), of("defaults", c=b"x", e=X), of("defaults", f=(1, 2)), of("defaults", f=[1]), of("defaults", g=1))
    yield from (of("twice", x=X), of("twice", **{"ü": 1}), of("nothing_", X, X))
