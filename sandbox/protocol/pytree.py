"""Nests of tensors and plain values (tuples, lists, dicts), as a JSON text and a flat list of the tensors in it.

Judge and runner meet by the list; the text says what goes around it. Standard library only: what a tensor is, the caller says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

DEPTH_LIMIT = 16
TEXT_LIMIT = 64 * 1024

Make = Callable[[Sequence[Any]], Any]


class NestInvalid(ValueError):
    """A value that is no nest; the message says what is wrong with it."""


def flatten(value: object, is_tensor: Callable[[object], bool]) -> tuple[list[Any], str]:
    """The tensors in the order in which they are met, and the text around them."""
    found: list[Any] = []
    text = json.dumps(_take(value, is_tensor, found, 0))
    if len(text) > TEXT_LIMIT:
        raise NestInvalid(f"its plain values take {len(text)} characters; {TEXT_LIMIT} may be sent")
    return found, text


def build(text: str, tensors: Sequence[Any]) -> Any:
    """The nest with these tensors in it."""
    return builder(json.loads(text))(tensors)


def builder(node: list[Any]) -> Make:
    """A function that makes the nest of a template's node of tensors, without delay: a reference does it at every call."""
    match node:
        case ["tensor", int() as index]:
            return lambda tensors: tensors[index]
        case ["element", int() as index]:  # a tensor without dimensions: of a tensor of one element, for others travel as numbers
            return lambda tensors: tensors[index].reshape(())
        case ["value", value]:
            return lambda _: value
        case ["list", [*nodes]]:
            parts = [builder(one) for one in nodes]
            return lambda tensors: [make(tensors) for make in parts]
        case ["tuple", [*nodes]]:
            parts = [builder(one) for one in nodes]
            return lambda tensors: tuple([make(tensors) for make in parts])
        case ["dict", [*pairs]]:
            items = [(key, builder(one)) for key, one in pairs]
            return lambda tensors: {key: make(tensors) for key, make in items}
    raise NestInvalid(f"{node!r} is no nest")


def _take(value: object, is_tensor: Callable[[object], bool], found: list[Any], depth: int) -> list[Any]:
    if depth > DEPTH_LIMIT:
        raise NestInvalid(f"it is nested more than {DEPTH_LIMIT} deep")
    if is_tensor(value):
        found.append(value)
        return ["tensor", len(found) - 1]
    if value is None or isinstance(value, (bool, int, float, str)):
        return ["value", value]
    if isinstance(value, (list, tuple)):
        return ["list" if isinstance(value, list) else "tuple", [_take(one, is_tensor, found, depth + 1) for one in value]]
    if isinstance(value, dict):
        if not all(isinstance(key, (str, int)) for key in value):
            raise NestInvalid("a dict has a key that is neither a string nor an integer")
        return ["dict", [[key, _take(one, is_tensor, found, depth + 1)] for key, one in value.items()]]
    raise NestInvalid(f"it holds a {type(value).__name__}; tensors, numbers, strings, lists, tuples and dicts can be sent")
