"""Nests of tensors without their text: built and taken apart at every call of a reference, so without delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Make = Callable[[Sequence[Any]], Any]


def builder(node: list[Any]) -> Make:
    """A function that makes the nest of a template's node (`sandbox/nest.py`) of tensors."""
    match node:
        case ["tensor", int() as index]:
            return lambda tensors: tensors[index]
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
    raise ValueError(f"{node!r} is no nest")


def tensors_of(value: object) -> list[torch.Tensor]:
    """The tensors of a nest, in the order in which `nest.flatten` meets them."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for one in value for tensor in tensors_of(one)] if isinstance(value, (list, tuple)) else []
