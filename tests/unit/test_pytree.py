"""Nests of tensors, plain values and objects are taken apart and put together again."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from sandbox.protocol import pytree


class Leaf:
    """A stand-in for a tensor."""

    def __init__(self, name: str, dimensions: list[int] | None = None) -> None:
        self.name, self.order = name, dimensions

    def permute(self, dimensions: list[int]) -> str:
        return f"{self.name} {dimensions}"


def is_leaf(value: object) -> bool:
    return isinstance(value, Leaf)


def parts(value: object) -> pytree.ObjectParts | None:
    is_plain = isinstance(value, SimpleNamespace)
    return pytree.ObjectParts(kind="plain", name="task.Config", fields=vars(value)) if is_plain else None


A, B = Leaf("a"), Leaf("b", [1, 0])
NEST = [A, {"x": (1, None, "s", 2.5, True), 3: B}, SimpleNamespace(inner=(A,), n=7)]


def test_a_nest_is_the_same_when_it_is_built() -> None:
    tensors, text = pytree.flatten(NEST, is_leaf, dimensions=lambda leaf: leaf.order, parts=parts)
    assert tensors == [A, B, A]
    nest = pytree.build(text, ["p", Leaf("q"), "r"], lambda kind, name, fields: (kind, name, fields))
    assert nest == ["p", {"x": (1, None, "s", 2.5, True), 3: "q [1, 0]"}, ("plain", "task.Config", {"inner": ("r",), "n": 7})]


def test_its_tensors_can_be_listed() -> None:
    node = json.loads(pytree.flatten(NEST, is_leaf, dimensions=lambda leaf: leaf.order, parts=parts)[1])
    assert list(pytree.leaves(node)) == [(0, None), (1, [1, 0]), (2, None)]
    assert pytree.has_objects(node) and not pytree.has_objects(node[1][0])


def test_what_is_no_nest_is_refused() -> None:
    with pytest.raises(pytree.NestInvalid, match="it holds a SimpleNamespace; tensors, numbers"):
        pytree.flatten(NEST, is_leaf)
    with pytest.raises(pytree.NestInvalid, match="neither a string nor an integer"):
        pytree.flatten({(): 1}, is_leaf)
    with pytest.raises(pytree.NestInvalid, match="which can not be made here"):
        pytree.build('["object", "plain", "task.Config", []]', [])
    with pytest.raises(pytree.NestInvalid, match="is no nest"):
        pytree.build('["pickle", "x"]', [])
    assert pytree.flatten([A, (1,)], is_leaf)[1] == '["list", [["tensor", 0], ["tuple", [["value", 1]]]]]'


def test_a_tensor_of_no_dimensions_is_sent_as_one_element() -> None:
    point = SimpleNamespace(reshape=lambda shape: ("point", shape))
    node = json.loads(pytree.flatten([Leaf("a", [])], is_leaf, dimensions=lambda leaf: leaf.order)[1])
    assert pytree.builder(node)([point]) == [("point", ())]
