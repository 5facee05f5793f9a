"""Nests of tensors, plain values and objects, as a JSON text and a flat list of the tensors in it.

Judge and runner meet by the list; the text says what goes around it. Standard library only: what a tensor is, and what an object is made
of, the caller says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DEPTH_LIMIT = 16
TEXT_LIMIT = 64 * 1024

Make = Callable[[Sequence[Any]], Any]
Dimensions = list[int] | None
MakeObject = Callable[[str, str, dict[str, Any]], Any]


class NestInvalid(ValueError):
    """A value that is no nest; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectParts:
    """Parts of an object. kind: how it is put together (`sandbox/launch/objects.py`). name: its file's and its class's, as in
    "task.Config"."""

    kind: str
    name: str
    fields: Mapping[str, object]


def flatten(
    value: object,
    is_tensor: Callable[[object], bool],
    *,
    dimensions: Callable[[Any], Dimensions] = lambda tensor: None,
    parts: Callable[[object], ObjectParts | None] = lambda value: None,
) -> tuple[list[Any], str]:
    """The tensors in the order in which they are met, and the text around them. dimensions: of a tensor, how `permute` makes it of the
    contiguous one that is sent; None: it is that one. parts: of an object; None where it can't be sent."""
    tensors: list[Any] = []

    def take(value: object, depth: int = 0) -> list[Any]:
        if depth > DEPTH_LIMIT:
            raise NestInvalid(f"it is nested more than {DEPTH_LIMIT} deep")
        if is_tensor(value):
            tensors.append(value)
            order = dimensions(value)
            return ["tensor", len(tensors) - 1, *([] if order is None else [order])]
        if value is None or isinstance(value, (bool, int, float, str)):
            return ["value", value]
        if (of_object := parts(value)) is not None:
            return ["object", of_object.kind, of_object.name, [[key, take(child, depth + 1)] for key, child in of_object.fields.items()]]
        if isinstance(value, (list, tuple)):
            return ["list" if isinstance(value, list) else "tuple", [take(child, depth + 1) for child in value]]
        if isinstance(value, dict):
            if not all(isinstance(key, (str, int)) for key in value):
                raise NestInvalid("a dict has a key that is neither a string nor an integer")
            return ["dict", [[key, take(child, depth + 1)] for key, child in value.items()]]
        sentence = "tensors, numbers, strings, lists, tuples, dicts and objects of the problem's own classes can be sent"
        raise NestInvalid(f"it holds a {type(value).__name__}; {sentence}")

    text = json.dumps(take(value))
    if len(text) > TEXT_LIMIT:
        raise NestInvalid(f"its plain values take {len(text)} characters; {TEXT_LIMIT} may be sent")
    return tensors, text


def no_objects(kind: str, name: str, fields: dict[str, Any]) -> Any:
    """For nests without objects."""
    raise NestInvalid(f"it holds a {name}, which can not be made here")


def build(text: str, tensors: Sequence[Any], make_object: MakeObject = no_objects) -> Any:
    """The nest with these tensors in it."""
    return builder(json.loads(text), make_object)(tensors)


def builder(node: list[Any], make_object: MakeObject = no_objects) -> Make:
    """A function that makes the nest of a template's node of tensors, without delay: a reference does it at every call."""
    match node:
        case ["tensor", int() as index]:
            return lambda tensors: tensors[index]
        case ["tensor", int() as index, []]:  # a tensor without dimensions: of a tensor of one element, for others travel as numbers
            return lambda tensors: tensors[index].reshape(())
        case ["tensor", int() as index, [*dimensions]]:
            return lambda tensors: tensors[index].permute(dimensions)
        case ["value", value]:
            return lambda _: value
        case ["list", [*nodes]]:
            parts = [builder(node, make_object) for node in nodes]
            return lambda tensors: [make(tensors) for make in parts]
        case ["tuple", [*nodes]]:
            parts = [builder(node, make_object) for node in nodes]
            return lambda tensors: tuple([make(tensors) for make in parts])
        case ["dict", [*pairs]]:
            items = [(key, builder(child, make_object)) for key, child in pairs]
            return lambda tensors: {key: make(tensors) for key, make in items}
        case ["object", str() as kind, str() as name, [*pairs]]:
            items = [(key, builder(child, make_object)) for key, child in pairs]
            return lambda tensors: make_object(kind, name, {key: make(tensors) for key, make in items})
    raise NestInvalid(f"{node!r} is no nest")


def leaves(node: list[Any]) -> Iterator[tuple[int, Dimensions]]:
    """The tensors of a template's node, in the order in which they are met: number and dimensions."""
    match node:
        case ["tensor", int() as index, *dimensions]:
            yield index, dimensions[0] if dimensions else None
    for child in _children(node):
        yield from leaves(child)


def _children(node: list[Any]) -> list[list[Any]]:
    match node:
        case ["list" | "tuple", [*nodes]]:
            return nodes
        case ["dict", [*pairs]] | ["object", _, _, [*pairs]]:
            return [child for _, child in pairs]
    return []


def has_objects(node: list[Any]) -> bool:
    """Return whether there is an object in a template's node: a kernel may change one, so each launch gets its own."""
    return node[:1] == ["object"] or any(map(has_objects, _children(node)))
