"""What the entry of a kernelbench problem is given, learned from one traced call: inputs, outputs and weights, with names for C.

`ModelNew` in Python is called with the inputs, as `Model` is. An entry in a compiled language gets the weights as further inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch

from sandbox.judge.reference_errors import ReferenceFailed
from sandbox.judge.references.nests import permutations_of, strides_of
from sandbox.judge.references.trace import TracedCall
from sandbox.judge.tensors import dtype_name
from sandbox.protocol import wire
from sandbox.protocol.gate import RANK_LIMIT, TENSOR_LIMIT

SCALARS = {bool: "bool", int: "int64", float: "float64"}
NAME_CHARS = 60
_EXACT_INTEGERS = 2**53  # of a double, by which scalars travel
_DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
# Of C++ and CUDA; and the last parameter of an entry.
_RESERVED = (
    "alignas alignof asm auto bool case catch char char8_t char16_t char32_t concept const consteval constexpr constinit const_cast "
    "co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit export extern float friend goto inline int "
    "long mutable namespace new noexcept nullptr operator private protected public register reinterpret_cast requires restrict short "
    "signed sizeof static static_assert static_cast struct switch template this thread_local throw typedef typeid typename union "
    "unsigned using virtual void volatile wchar_t half stream"
)


def described(digest: str, seen: TracedCall, parameters: list[str]) -> wire.Described:
    """The arguments of a problem. parameters: what forward calls its inputs. ReferenceFailed where no entry could be given them."""
    names = _Names()
    called = [*parameters, *(f"x{index}" for index in range(len(parameters), len(seen.inputs)))]
    for name, one in zip(called, seen.inputs, strict=False):
        _check_input(name, one)
    inputs = tuple(names.tensor(name, one) for name, one in zip(called, seen.inputs, strict=False))
    several = len(seen.outputs) > 1
    outputs = tuple(names.tensor(f"output{index}" if several else "output", one) for index, one in enumerate(seen.outputs))
    if len(inputs) + len(outputs) > TENSOR_LIMIT:
        text = f"{len(inputs)} inputs and {len(outputs)} outputs; {TENSOR_LIMIT} can be sent"
        raise ReferenceFailed(f"{text}: put several into one tensor")
    count = len(inputs) + len(outputs) + len(seen.weights)
    obstacle = (
        f"it has {len(seen.weights)} weights and buffers, and an entry can take {TENSOR_LIMIT} tensors" if count > TENSOR_LIMIT else ""
    )
    weights: tuple[wire.TensorSpec, ...] = ()
    try:
        weights = () if obstacle else tuple(names.tensor(name, one) for name, one in seen.weights.items())
    except ReferenceFailed as failure:
        obstacle = f"of its weights and buffers {failure}"
    strides = strides_of({spec.name: one for spec, one in zip(inputs, seen.inputs, strict=True)})
    strides |= permutations_of({spec.name: one for spec, one in zip(outputs, seen.outputs, strict=True)})
    return wire.Described(
        digest=digest, inputs=inputs, outputs=outputs, weights=weights, axes=names.axes, obstacle=obstacle, strides=strides
    )


def _check_input(name: str, one: Any) -> None:
    if torch.is_tensor(one) and one.dim() == 0:  # what has no axes travels as a number
        sentence = f"input {name!r} is a tensor without axes, which a kernel would get as a number"
        raise ReferenceFailed(f"{sentence}; give it an axis, as torch.rand(1) has, or return a number")
    if isinstance(one, int) and abs(one) > _EXACT_INTEGERS:
        raise ReferenceFailed(f"input {name!r} is {one}; integers up to 2 ** 53 can be given")


class _Names:
    """Names for tensors and their sizes that are different from each other, and that C++ takes."""

    def __init__(self) -> None:
        self.axes: dict[str, int] = {}
        self._taken = set(_RESERVED.split())

    def tensor(self, wanted: str, one: Any) -> wire.TensorSpec:
        """The next tensor or number. Its sizes are axes of its own."""
        shape = tuple(one.shape) if torch.is_tensor(one) else ()
        name = self._free(wanted, len(shape))
        if not torch.is_tensor(one):
            return wire.TensorSpec(name=name, dtype=SCALARS[type(one)], shape=())
        dtype = dtype_name(one)
        if dtype not in _DTYPES or len(shape) > RANK_LIMIT:
            raise ReferenceFailed(f"{wanted!r} is {dtype} with {len(shape)} axes; take one of {', '.join(_DTYPES)}, and {RANK_LIMIT} axes")
        sizes = {f"{name}_{index}": int(size) for index, size in enumerate(shape)}
        self.axes.update(sizes)
        return wire.TensorSpec(name=name, dtype=dtype, shape=tuple(sizes))

    def _free(self, wanted: str, rank: int) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", wanted)[:NAME_CHARS]
        base = plain if re.match(r"[A-Za-z_]", plain) else f"p{plain}"
        for name in (base, *(f"{base}{number}" for number in range(2, 2 + len(self._taken)))):
            own = {name, *(f"{name}_{index}" for index in range(rank))}
            if self._taken.isdisjoint(own):
                self._taken |= own
                return name
        raise AssertionError("more names are taken than there are")


def number_tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """Inputs as tensors: a number becomes one without axes."""
    return [one if torch.is_tensor(one) else torch.tensor(one, dtype=getattr(torch, SCALARS[type(one)])) for one in values]
