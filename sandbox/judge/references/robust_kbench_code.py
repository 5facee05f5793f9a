"""What only the code of a robust_kbench task knows: the arguments that it gives a kernel in one setting, and what is computed from them.

`Model(**init).forward(*get_inputs(**inputs), fn=kernel)` calls a kernel, and `AutogradFunction.backward` a backward kernel. Both are run
with a stand-in for the kernel, to see with what it is called.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from sandbox.judge import references
from sandbox.judge.references import nests, seeds, sources
from sandbox.launch.constant_weights import ConstantWeights
from sandbox.protocol import pytree, wire

NAME = "robust_kbench"
FORWARD, MODEL, INPUTS, AUTOGRAD, KERNEL = "forward_fn", "Model", "get_inputs", "AutogradFunction", "backward_fn"
GRADIENT_LIMIT = 16
_Tensors = list[torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """How a kernel is called in one setting.

    tensors: those among its arguments, in the order in which they are met, with names that no two share; tree: what lies around them, as
    `pytree` writes it. own: tensors that forward_fn gets and the kernel does not; forward: the tree of forward_fn's arguments, over tensors
    and then own. Of a backward kernel, gradients: the numbers of the arguments of forward_fn that its outputs are the gradients of; output:
    the node of the gradient of what forward_fn returns. Tensors without axes have one here, and `element` nodes: others travel as numbers.
    """

    tensors: _Tensors
    names: tuple[str, ...]
    tree: list[Any]
    own: _Tensors
    forward: list[Any]
    gradients: tuple[int, ...] = ()
    gradient_names: tuple[str, ...] = ()
    output: list[Any] | None = None

    @classmethod
    def forward_call(cls, arguments: tuple[Any, ...], names: tuple[str, ...]) -> KernelCall:
        """Of a kernel that is called as forward_fn is."""
        tensors, tree = _flat(arguments)
        marked = renumbered(tree, range(len(tensors)), tensors)
        return cls(tensors=_sent(tensors), names=_tensor_names(tree, names), tree=marked, own=[], forward=marked)

    @classmethod
    def backward_call(
        cls, arguments: tuple[Any, ...], gradient: torch.Tensor, forward: tuple[Any, ...], names: tuple[str, ...], wanted: tuple[int, ...]
    ) -> KernelCall:
        """Of a backward kernel: gradient is that of the output, names are those of forward, wanted are the numbers of forward."""
        tensors, tree = _flat(arguments)
        places = {id(one): index for index, one in enumerate(tensors)}
        if id(gradient) not in places:
            raise references.ReferenceFailed(f"{KERNEL} is not given the gradient of the output; give it as it is")
        below, forward_tree = _flat(forward)
        own = [one for one in below if id(one) not in places]
        everything = [*tensors, *own]
        places |= {id(one): len(tensors) + index for index, one in enumerate(own)}
        known = {id(one): name for one, name in zip((gradient, *forward), ("grad_output", *names), strict=True)}
        given = (known.get(id(one), "") if torch.is_tensor(one) else "" for one in arguments)
        return cls(
            tensors=_sent(tensors),
            names=_tensor_names(tree, tuple(name or f"argument{index}" for index, name in enumerate(given))),
            tree=renumbered(tree, range(len(tensors)), tensors),
            own=_sent(own),
            forward=renumbered(forward_tree, [places[id(one)] for one in below], everything),
            gradients=wanted,
            gradient_names=tuple(f"grad_{names[index]}" for index in wanted),
            output=renumbered(["tensor", 0], [places[id(gradient)]], everything),
        )


@dataclass(frozen=True, kw_only=True)
class TaskCode:
    """The functions of a task's file."""

    where: str
    names: Mapping[str, Any]
    backward: bool

    @classmethod
    def of(cls, spec: wire.ProblemSpec, where: str) -> TaskCode:
        """Execute the file."""
        backward = bool(json.loads(spec.workloads[0].arguments)["backward"])
        with sources.contained("the task's file", where), seeds.seeded(spec.digest, where):
            module = sources.Modules({"task": spec.reference}, f"{NAME}_{spec.digest[:12]}", where).load("task")
        for name in (FORWARD, MODEL, INPUTS, *((AUTOGRAD,) if backward else ())):
            if not callable(getattr(module, name, None)):
                raise references.ReferenceFailed(f"the task's file defines no {name}; define it at the top level")
        return cls(where=where, names=vars(module), backward=backward)

    def call(self, setting: Mapping[str, Any], key: str) -> KernelCall:
        """The call that a setting and a key make. The key draws inputs, weights, and the gradient of the output."""
        with sources.contained("the setting", self.where), seeds.seeded(key, self.where):
            inputs = self._made(lambda: self.names[INPUTS](**setting["given"]), INPUTS)
            weights = ConstantWeights(seed=key)
            model = self._made(lambda: weights.make(partial(self.names[MODEL], **setting["init"])), MODEL).to(self.where)
            given = _moved(inputs if isinstance(inputs, (list, tuple)) else [inputs], self.where)
            arguments, keywords = _intercepted(lambda fn: model(*given, fn=fn), f"{MODEL}.forward", "fn")
            forward = _moved(self._positional(arguments, keywords), self.where)
            named = tuple(inspect.signature(self.names[FORWARD]).parameters)
            names = (*named, *(f"argument{index}" for index in range(len(named), len(forward))))[: len(forward)]
            return self._backward(forward, names) if self.backward else KernelCall.forward_call(forward, names)

    def outputs(self, arguments: tuple[Any, ...], gradients: tuple[int, ...], output: torch.Tensor | None) -> _Tensors:
        """What a kernel has to return: what forward_fn returns of these arguments, or its gradients by those of these numbers, where output
        is the gradient of what it returns."""
        function = self.names[FORWARD]
        if not gradients:
            result = function(*arguments)
            found = list(result) if isinstance(result, (list, tuple)) else [result]
            if wrong := [one for one in found if not torch.is_tensor(one)]:
                raise references.ReferenceFailed(f"{FORWARD} returned a {type(wrong[0]).__name__}; return a tensor, or a tuple of tensors")
            return [one.detach() for one in found]
        with torch.enable_grad():
            leaves = [_leaf(one) if index in gradients else one for index, one in enumerate(arguments)]
            wanted = [leaves[index] for index in gradients]
            returned = torch.autograd.grad(function(*leaves), wanted, output, allow_unused=True)
        return [torch.zeros_like(one) if got is None else got for one, got in zip(wanted, returned, strict=True)]

    def _made(self, make: Callable[[], Any], what: str) -> Any:
        """Made on the device, which is much faster; a file that mixes those tensors with others of its own has them made on the CPU."""
        try:
            with references.blamed(what), torch.device(self.where):
                return make()
        except references.ReferenceFailed as failure:
            if self.where == "cpu" or not isinstance(failure.__cause__, RuntimeError):
                raise
        with references.blamed(what):
            return make()

    def _positional(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """What a kernel is given, by position: a bound function knows no names."""
        if not keywords:
            return arguments
        with references.blamed(f"{FORWARD}'s signature"):
            bound = inspect.signature(self.names[FORWARD]).bind(*arguments, **keywords)
        bound.apply_defaults()
        return (*bound.args, *bound.kwargs.values())

    def _backward(self, forward: tuple[Any, ...], names: tuple[str, ...]) -> KernelCall:
        autograd, context = self.names[AUTOGRAD], _Context(len(forward))
        output = autograd.forward(context, *forward)
        if not isinstance(output, torch.Tensor):
            raise references.ReferenceFailed(f"{AUTOGRAD}.forward returned a {type(output).__name__}; a task with one output can be judged")
        gradient = torch.randn_like(output)

        def backward(kernel: Callable[..., Any]) -> Any:
            with _kernel(autograd, kernel):
                return autograd.backward(context, gradient)

        arguments, keywords = _intercepted(backward, f"{AUTOGRAD}.backward", KERNEL)
        if keywords:
            raise references.ReferenceFailed(f"{AUTOGRAD}.backward calls {KERNEL} with named arguments; give them by position")
        return KernelCall.backward_call(arguments, gradient, forward, names, _gradients(backward, len(forward)))


def renumbered(tree: list[Any], numbers: Sequence[int], tensors: Sequence[torch.Tensor] = ()) -> list[Any]:
    """A tree of `pytree` with other numbers for its tensors. tensors: by the new numbers; those without axes become elements."""
    match tree:
        case [("tensor" | "element") as kind, int() as index]:
            place = numbers[index]
            return ["element" if place < len(tensors) and tensors[place].dim() == 0 else kind, place]
        case [("list" | "tuple") as kind, [*parts]]:
            return [kind, [renumbered(one, numbers, tensors) for one in parts]]
        case ["dict", [*pairs]]:
            return ["dict", [[key, renumbered(one, numbers, tensors)] for key, one in pairs]]
    return tree


def _sent(tensors: Sequence[torch.Tensor]) -> _Tensors:
    return [one if one.dim() else one.reshape(1) for one in tensors]


def _flat(arguments: tuple[Any, ...]) -> tuple[_Tensors, list[Any]]:
    try:
        tensors, text = pytree.flatten(arguments, torch.is_tensor)
    except pytree.NestInvalid as invalid:
        raise references.ReferenceFailed(f"the arguments can't be sent to a kernel: {invalid}") from None
    return tensors, json.loads(text)


def _tensor_names(tree: list[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """A name for each tensor: its argument's, with a number where that is a nest, and another where it is there twice."""
    found: list[str] = []
    for name, node in zip(names, tree[1], strict=True):
        inside = _tensor_count(node)
        for index in range(inside):
            wanted = name if node[0] == "tensor" else f"{name}_{index}"
            found.append(wanted if wanted not in found else f"{wanted}_{len(found)}")
    return tuple(found)


def _tensor_count(node: list[Any]) -> int:
    match node:
        case ["tensor", _]:
            return 1
        case [("list" | "tuple"), [*parts]]:
            return sum(map(_tensor_count, parts))
        case ["dict", [*pairs]]:
            return sum(_tensor_count(one) for _, one in pairs)
    return 0


def _leaf(one: Any) -> Any:
    if not isinstance(one, torch.Tensor) or not one.is_floating_point():
        raise references.ReferenceFailed(
            f"{AUTOGRAD}.backward returns a gradient of a {type(one).__name__}; only floating tensors have one"
        )
    return one.detach().requires_grad_()


def _moved(given: Any, where: str) -> tuple[Any, ...]:
    """Tensors as a kernel may get them, in whatever nest they lie; the same one stays the same."""
    known: dict[int, torch.Tensor] = {}

    def move(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return known.setdefault(id(one), nests.moved(one, where))
        return type(one)(map(move, one)) if type(one) in (list, tuple) else one

    return tuple(map(move, given))


class _Intercepted(BaseException):  # not to be caught by the task's own code
    def __init__(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.keywords = arguments, keywords


def _intercepted(call: Callable[[Callable[..., Any]], Any], who: str, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """With what the kernel is called, which is not run."""

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        raise _Intercepted(arguments, keywords)

    try:
        with references.blamed(who):
            call(kernel)
    except _Intercepted as intercepted:
        return intercepted.arguments, intercepted.keywords
    raise references.ReferenceFailed(f"{who} never calls {name}, which is the kernel")


@contextmanager
def _kernel(autograd: Any, kernel: Callable[..., Any]) -> Iterator[None]:
    before = getattr(autograd, KERNEL, None)
    setattr(autograd, KERNEL, kernel)
    try:
        yield
    finally:
        setattr(autograd, KERNEL, before)


class _Gradient:
    """Stands for an output of a backward kernel."""


def _gradients(backward: Callable[[Callable[..., Any]], Any], count: int) -> tuple[int, ...]:
    """Which arguments' gradients the kernel returns, in its order: seen by what `backward` does with outputs that differ."""
    several = (tuple(_Gradient() for _ in range(length)) for length in range(1, GRADIENT_LIMIT + 1))
    for outputs in (_Gradient(), *several):
        made = outputs if isinstance(outputs, tuple) else (outputs,)
        try:
            returned = backward(partial(_returns, outputs))
        except (TypeError, ValueError, IndexError):  # it unpacks another number of them
            continue
        listed = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        places = [index for each in made for index, one in enumerate(listed[:count]) if one is each]
        if len(places) == len(made) and len(listed) >= count:
            return tuple(places)
    text = f"{AUTOGRAD}.backward does not return each output of {KERNEL} as the gradient of an argument; return them as they are"
    raise references.ReferenceFailed(text)


def _returns(outputs: object, *_: object) -> object:
    return outputs


class _Context:
    """What `AutogradFunction` keeps between forward and backward."""

    def __init__(self, count: int) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.needs_input_grad = (True,) * count

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep these."""
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Nothing to do: only gradients that backward returns are asked for."""

    mark_dirty = set_materialize_grads = mark_non_differentiable
