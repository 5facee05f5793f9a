"""Takes data apart: which tensors are in it, how they lie in memory, and what its objects are made of."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import torch

from sandbox.judge import ReferenceFailed
from sandbox.judge.inputs import shape_of as shape_at
from sandbox.judge.references import Tensors
from sandbox.judge.tolerance import is_narrow, memory_of, numbers, same_bytes
from sandbox.launch.objects import ATTRIBUTE, BUFFER, MODULE, NAMED_TUPLE, PARAMETER, PLAIN, SUBMODULE
from sandbox.protocol import pytree, wire
from sandbox.protocol.gate import RANK_LIMIT, span

DTYPES = frozenset(("float32", "float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"))
Shape = tuple[str, tuple[int, ...]]  # with the dtype
Shapes = dict[str, Shape]  # of tensors by name
_NUMBER_BYTE = 0x55  # neither zero nor NaN in any narrow float
_Key = TypeVar("_Key", bound=Hashable)


def is_nan(tensor: torch.Tensor) -> torch.Tensor:
    """A mask of the values that are NaN; of float4 as long as `numbers`."""
    return (numbers(tensor) if is_narrow(tensor.dtype) else tensor).isnan()


def filled(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """A tensor like this one with the value everywhere; of narrow floats with one of their bytes that is a number other than zero."""
    if not is_narrow(tensor.dtype):
        return torch.full_like(tensor, value)
    copy = tensor.clone()
    copy.view(torch.uint8).fill_(_NUMBER_BYTE)
    return copy


def dtype_name(tensor: torch.Tensor) -> str:
    """As `wire.TensorSpec` has it."""
    return str(tensor.dtype).removeprefix("torch.")


def renumbered(node: list[Any], numbers: Sequence[int]) -> list[Any]:
    """The node with other numbers for its tensors; those that it has are indices of numbers."""
    match node:
        case ["tensor", int() as index, *dimensions]:
            return ["tensor", numbers[index], *dimensions]
        case ["list" | "tuple" as kind, [*nodes]]:
            return [kind, [renumbered(node, numbers) for node in nodes]]
        case [*head, [*pairs]] if head[:1] in (["dict"], ["object"]):
            return [*head, [[key, renumbered(child, numbers)] for key, child in pairs]]
    return node


def shape_of(tensor: torch.Tensor) -> Shape:
    """Return dtype and shape."""
    return dtype_name(tensor), tuple(tensor.shape)


def sent_shape_of(tensor: torch.Tensor, subject: str, dtypes: Collection[str] = DTYPES) -> Shape:
    """Return dtype and shape. ReferenceFailed where such a tensor can't be sent to a kernel; subject: its name in the error."""
    dtype, shape = shape_of(tensor)
    if dtype not in dtypes or len(shape) > RANK_LIMIT:
        text = f"{subject} is {dtype} with {len(shape)} axes; take one of {', '.join(sorted(dtypes))}, and at most {RANK_LIMIT} axes"
        raise ReferenceFailed(text)
    return dtype, shape


def shapes_at(specs: Sequence[wire.TensorSpec], axes: dict[str, int]) -> tuple[Shape, ...]:
    """Return the shapes of declared tensors at a workload's axes."""
    return tuple((spec.dtype, shape_at(spec, axes)) for spec in specs)


def specs(shapes: Shapes) -> tuple[wire.TensorSpec, ...]:
    """Return what the tensors are declared as: each size is an axis of its own."""
    return tuple(wire.TensorSpec(name=name, dtype=shape[0], shape=tuple(axes({name: shape}))) for name, shape in shapes.items())


def axes(shapes: Shapes) -> dict[str, int]:
    """Return the axes of these tensors, with their sizes."""
    return {f"{name}_{index}": size for name, (_, shape) in shapes.items() for index, size in enumerate(shape)}


def slots_of(settings: Iterable[Mapping[_Key, Shape]]) -> dict[_Key, Shape]:
    """Return the tensors of all settings of a task, without elements, in the order in which the settings have them."""
    slots: dict[_Key, Shape] = {}
    for setting in settings:
        for key, (dtype, sizes) in setting.items():
            if slots.setdefault(key, empty := (dtype, (0,) * len(sizes))) != empty:
                raise ReferenceFailed(f"{key!r} has another dtype or number of axes in another setting; make them the same")
    return slots


def in_slots(slots: Mapping[_Key, Shape], setting: Mapping[_Key, Shape]) -> dict[_Key, Shape]:
    """Return a shape for each slot: without elements where the setting has no such tensor."""
    if missing := [dtype for key, (dtype, sizes) in slots.items() if not sizes and key not in setting]:
        text = f"some cases have more outputs without dimensions, of {missing[0]}, than others; make problems of their own of these"
        raise ReferenceFailed(text)
    return {**slots, **setting}


def mark(index: int) -> Shape:
    """Return the shape of a tensor that no kernel is given: it tells settings apart that have the same shapes."""
    return "uint8", (index + 1,)


def placed(tensors: Sequence[torch.Tensor], numbers: Sequence[int], shapes: Sequence[Shape], where: str) -> Tensors:
    """The tensors at these numbers, and at the others those without elements, or the mark. shapes: of each number."""
    at = dict(zip(numbers, tensors, strict=True))
    for number, (dtype, sizes) in enumerate(shapes):
        if number not in at:  # torch fills no float4
            empty = torch.empty(sizes, dtype=getattr(torch, dtype), device=where)
            at[number] = empty.zero_() if empty.numel() else empty
    return [at[number] for number in range(len(shapes))]


def tensors_of(value: object) -> Tensors:
    """The tensors of a nest without objects, in the order in which `pytree.flatten` meets them. It is done at every call of a reference, so
    it makes no text."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for element in value for tensor in tensors_of(element)] if isinstance(value, (list, tuple)) else []


def dimensions(tensor: torch.Tensor) -> list[int] | None:
    """How `permute` makes the tensor of `in_memory` of it; None where it is contiguous, or has gaps or overlaps."""
    order = _memory_order(tensor)
    return None if order is None else [order.index(dim) for dim in range(tensor.dim())]


def in_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with its dimensions in the order in which they lie in memory: contiguous, unless it has gaps or overlaps."""
    order = _memory_order(tensor)
    return tensor if order is None else tensor.permute(order)


def _memory_order(tensor: torch.Tensor) -> list[int] | None:
    if tensor.layout != torch.strided or tensor.is_contiguous():
        return None
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    return order if tensor.permute(order).is_contiguous() else None


def moved(tensor: torch.Tensor, where: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    """A plain tensor of the same strides on the device; what lies in its gaps is cast and moved too."""
    plain = tensor.detach()
    if plain.layout != torch.strided or plain.is_contiguous():
        return plain.to(where, dtype).contiguous()
    return memory_of(plain).to(where, dtype).as_strided(plain.shape, plain.stride())


def strides_of(tensors: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    """The strides of those that are not contiguous, by name; what is no tensor has none."""
    return {name: tensor.stride() for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous()}


def permutations_of(tensors: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """The same of those that are contiguous but for the order of their dimensions."""
    return strides_of({name: tensor for name, tensor in tensors.items() if _memory_order(tensor) is not None})


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor with these strides, () for contiguous: as it is, or a copy whose gaps hold zeros. ReferenceFailed where they overlap."""
    if not strides or tensor.stride() == strides:
        return tensor if strides else tensor.contiguous()
    copy = torch.zeros(span(tensor.shape, strides), dtype=tensor.dtype, device=tensor.device).as_strided(tensor.shape, strides)
    with suppress(RuntimeError):  # torch refuses where it sees that elements share memory
        copy.copy_(tensor)
    if not same_bytes(copy, tensor):
        text = f"an input has strides {tensor.stride()}, and had {strides} before; let strides not differ from call to call"
        raise ReferenceFailed(text)
    return copy


def object_parts(value: object, name_of: Callable[[type], str | None]) -> pytree.ObjectParts | None:
    """Return the parts of an object; None for what a problem does not define. name_of: the name of a class that can be found again."""
    kind = type(value)
    if isinstance(value, torch.nn.Module):
        return _parts(MODULE, kind, _module_fields(value), name_of)
    if isinstance(value, tuple):
        named = getattr(kind, "_fields", None)
        return None if named is None else _parts(NAMED_TUPLE, kind, dict(zip(named, value, strict=True)), name_of)
    if isinstance(value, types.SimpleNamespace):
        return pytree.ObjectParts(kind=PLAIN, name="types.SimpleNamespace", fields=vars(value))
    if isinstance(value, (list, dict, type)) or (name_of(kind) is None and not dataclasses.is_dataclass(kind)):
        return None
    slots = [name for base in reversed(kind.__mro__) for name in _slots(base) if hasattr(value, name)]
    return _parts(PLAIN, kind, {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}, name_of)


def _parts(kind: str, of: type, fields: dict[str, object], name_of: Callable[[type], str | None]) -> pytree.ObjectParts:
    name = name_of(of)
    if name is None:
        raise pytree.NestInvalid(
            f"it holds a {of.__name__}, whose class is not at the top level of a file of the problem; define it there, such as in task.py"
        )
    return pytree.ObjectParts(kind=kind, name=name, fields=fields)


def _slots(of: type) -> tuple[str, ...]:
    slots: Any = vars(of).get("__slots__", ())
    return tuple(name for name in ((slots,) if isinstance(slots, str) else slots) if not name.startswith("__"))


def _module_fields(module: torch.nn.Module) -> dict[str, object]:
    """Of a module all but the hooks, which belong to torch."""
    of_torch = vars(torch.nn.Module())
    attributes = {name: value for name, value in vars(module).items() if name not in of_torch or name == "training"}
    parts = ((PARAMETER, module._parameters), (BUFFER, module._buffers), (SUBMODULE, module._modules), (ATTRIBUTE, attributes))
    return {f"{group}:{name}": value for group, values in parts for name, value in values.items()}
