"""The judge's half of robust_kbench: a kernel gets what the task's Model gives forward_fn, or what its AutogradFunction gives backward_fn.

`Model(**init).forward(*get_inputs(**inputs), fn=kernel)` calls a kernel, and `AutogradFunction.backward` a backward kernel. Both are run
with a stand-in for the kernel, to see with what it is called. What goes to a runner is the flat list of the tensors among that; the
template has what lies around them. Weights are inputs: each key draws others, as their harness does with each seed. The reference is
forward_fn, or autograd's gradients of it. Settings of a task may give other tensors, such as none for a layer that is not there; then that
input has no elements, and the kernel is not given it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch.autograd.function import FunctionCtx
from torch.utils._pytree import tree_map_only

from grader_extensions.formats import nests, problem_code
from grader_extensions.formats.elementwise import ElementwiseComparer
from grader_extensions.formats.nests import permutations_of, renumbered, strides_of, with_strides
from sandbox.judge.references import ReferenceFailed, Task, Tensors, blamed
from sandbox.judge.tolerance import same_bytes
from sandbox.launch.constant_weights import ConstantWeights
from sandbox.protocol import pytree, wire
from sandbox.protocol.gate import TENSOR_LIMIT

MARK = "setting_number"
FORWARD, MODEL, INPUTS, AUTOGRAD, KERNEL = "forward_fn", "Model", "get_inputs", "AutogradFunction", "backward_fn"
GRADIENT_LIMIT = 16


def task(spec: wire.ProblemSpec, where: str) -> Task:
    """Execute the file once, and every setting once if its shapes are not known yet."""
    code = TaskCode(spec, where)
    if not spec.outputs:
        spec = _described(spec, code)
    settings = {workload.workload_id: _Setting(spec, workload, code) for workload in spec.workloads}
    by_shapes = {setting.shapes: setting for setting in settings.values()}

    @problem_code.with_own_code
    def reference(inputs: Tensors) -> Tensors:
        return by_shapes[tuple(tensor.shape for tensor in inputs)].run(inputs)

    @problem_code.with_own_code
    def wide(inputs: Tensors) -> Tensors:
        return problem_code.in_double(partial(by_shapes[tuple(tensor.shape for tensor in inputs)].run, wide=True), inputs)

    return Task(
        spec=spec,
        reference=reference,
        reference64=wide,
        draw=lambda workload, key: settings[workload.workload_id].draw(key),
        compare=ElementwiseComparer(allowed=spec.tolerance, wide=wide),
        templates=tuple(setting.template for setting in settings.values()),
        scratch=tuple(sorted({index for setting in settings.values() for index in setting.scratch})),
    )


class _Setting:
    """A workload as the described spec has it."""

    def __init__(self, spec: wire.ProblemSpec, workload: wire.Workload, code: TaskCode) -> None:
        self.code, self.name = code, workload.workload_id
        self.arguments: dict[str, Any] = json.loads(workload.arguments)
        self.template: str = self.arguments["template"]  # of a kernel's arguments
        self.places: list[int] = self.arguments["places"]  # which inputs the tensors of a call are
        self.scratch: list[int] = self.arguments["scratch"]
        self.inputs = nests.shapes_at(spec.inputs, workload.axes)
        self.shapes = tuple(shape for _, shape in self.inputs)  # by which the setting is found
        self.strides = [workload.strides.get(tensor.name, ()) for tensor in spec.inputs]  # () where one is contiguous
        # The arguments of forward_fn, over the inputs and the tensors that no kernel is given.
        self.forward = pytree.builder(self.arguments["forward"])
        self.own_tensors = code.call(self.arguments, _key(spec, workload)).own_tensors if self.arguments["has_own"] else []
        self.gradients = tuple(self.arguments["gradients"])
        # The gradient of what forward_fn returns, over the inputs; None: a task without.
        self.output = pytree.builder(self.arguments["output"]) if self.arguments["output"] else None

    def run(self, inputs: Tensors, *, wide: bool = False) -> Tensors:
        """The outputs. forward_fn gets copies of the inputs that it writes to. wide: in double precision, as the inputs are."""
        own_tensors = [tensor.double() if wide and tensor.is_floating_point() else tensor for tensor in self.own_tensors]
        tensors = [*(tensor.clone() if index in self.scratch else tensor for index, tensor in enumerate(inputs)), *own_tensors]
        outputs = self.code.outputs(self.forward(tensors), self.gradients, self.output(tensors) if self.output else None)
        return [tensor.contiguous() for tensor in outputs]

    def draw(self, key: str) -> Tensors:
        """Inputs of a key, of the same shapes and with the same values around them as at first."""
        call = self.code.call(self.arguments, key)
        if json.dumps(renumbered(call.tree, self.places)) != self.template:
            raise ReferenceFailed(f"setting {self.name!r} gives other values with each seed; let only tensors differ")
        drawn = nests.placed(call.tensors, self.places, self.inputs, self.code.where)
        if tuple(map(nests.shape_of, drawn)) != self.inputs:
            raise ReferenceFailed(f"setting {self.name!r} gives tensors whose shapes or dtypes differ from seed to seed")
        return [with_strides(tensor, strides) for tensor, strides in zip(drawn, self.strides, strict=True)]


class _SettingRun:
    """A run of a setting: its call without tensors; by name the shapes of what a kernel gets and returns; what forward_fn writes to."""

    def __init__(self, spec: wire.ProblemSpec, workload: wire.Workload, code: TaskCode) -> None:
        setting, name = json.loads(workload.arguments), workload.workload_id
        call = code.call(setting, _key(spec, workload))
        forward = pytree.builder(call.forward)

        def run(own_inputs: Tensors) -> tuple[Tensors, Tensors]:
            tensors = [*(tensor.clone() for tensor in call.tensors), *own_inputs]
            output = pytree.builder(call.output)(tensors) if call.output else None
            with problem_code.contained(f"{FORWARD} in setting {name!r}", code.where), problem_code.seeded(name, code.where):
                return code.outputs(forward(tensors), call.gradients, output), tensors

        outputs, tensors = run([item.clone() for item in call.own_tensors])
        if call.own_tensors:
            second_outputs = run(code.call(setting, _key(spec, workload, "other")).own_tensors)[0]
            if not all(torch.allclose(*pair, rtol=1e-3, atol=1e-6) for pair in zip(outputs, second_outputs, strict=True)):
                text = f"{KERNEL} is not given all that the gradients depend on, or not as {FORWARD} gets it; give it those tensors"
                raise ReferenceFailed(text)
        output_names = call.gradient_names or [f"output{index}" if len(outputs) > 1 else "output" for index in range(len(outputs))]
        inputs, returned = dict(zip(call.names, call.tensors, strict=True)), dict(zip(output_names, outputs, strict=True))
        # All settings are looked at together, and only for their shapes.
        self.call, self.own_count = replace(call, tensors=[], own_tensors=[]), len(call.own_tensors)
        self.inputs, self.outputs = (
            {name: nests.sent_shape_of(item, repr(name)) for name, item in items.items()} for items in (inputs, returned)
        )
        self.strides = strides_of(inputs) | permutations_of(returned)
        self.scratch = [name for (name, before), after in zip(inputs.items(), tensors, strict=False) if not same_bytes(before, after)]


def _described(spec: wire.ProblemSpec, code: TaskCode) -> wire.ProblemSpec:
    runs = [_SettingRun(spec, workload, code) for workload in spec.workloads]
    input_slots, output_slots = nests.slots_of(run.inputs for run in runs), nests.slots_of(run.outputs for run in runs)
    inputs = [nests.in_slots(input_slots, run.inputs) for run in runs]
    outputs = [nests.in_slots(output_slots, run.outputs) for run in runs]
    if len({tuple(shapes.items()) for shapes in inputs}) < len(inputs):
        inputs = [{**shapes, MARK: nests.mark(index)} for index, shapes in enumerate(inputs)]
    if len(inputs[0]) + len(outputs[0]) > TENSOR_LIMIT:
        raise ReferenceFailed(f"a kernel gets {len(inputs[0])} tensors and returns {len(outputs[0])}; {TENSOR_LIMIT} can be sent")
    names = list(inputs[0])
    workloads = []
    for index, (workload, run) in enumerate(zip(spec.workloads, runs, strict=True)):
        places = [names.index(name) for name in run.call.names]
        own_places = range(len(names), len(names) + run.own_count)
        arguments = {
            **json.loads(workload.arguments),
            "template": json.dumps(renumbered(run.call.tree, places)),
            "places": places,
            "forward": renumbered(run.call.forward, [*places, *own_places]),
            "output": run.call.output and renumbered(run.call.output, places),
            "gradients": run.call.gradients,
            "has_own": run.own_count > 0,
            "scratch": [names.index(name) for name in run.scratch],
        }
        axes = nests.axes(inputs[index]) | nests.axes(outputs[index])
        workloads.append(replace(workload, axes=axes, arguments=json.dumps(arguments), strides=run.strides))
    return replace(spec, inputs=nests.specs(inputs[0]), outputs=nests.specs(outputs[0]), workloads=tuple(workloads), axes=())


def _key(spec: wire.ProblemSpec, workload: wire.Workload, part: str = "") -> str:
    """The key of what is drawn once for a task."""
    return hashlib.sha256(f"{spec.digest}/{workload.workload_id}/{part}".encode()).hexdigest()[:32]


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """How a kernel is called in one setting.

    tensors: those among its arguments, in the order in which they are met, with names that no two share; tree: what lies around them, as
    `pytree` writes it. own_tensors: tensors that forward_fn gets and the kernel does not; forward: the tree of forward_fn's arguments, over
    tensors and then own. Of a backward kernel, gradients: the numbers of the arguments of forward_fn that its outputs are the gradients of;
    output: the node of the gradient of what forward_fn returns. Tensors without axes have one here, and [] for
    dimensions in the tree: others travel as numbers.
    """

    tensors: Tensors
    names: tuple[str, ...]
    tree: list[Any]
    own_tensors: Tensors
    forward: list[Any]
    gradients: tuple[int, ...] = ()
    gradient_names: tuple[str, ...] = ()
    output: list[Any] | None = None

    @classmethod
    def of(
        cls,
        arguments: tuple[Any, ...],
        names: tuple[str, ...],
        gradient: torch.Tensor | None = None,
        forward: tuple[Any, ...] = (),
        wanted: tuple[int, ...] = (),
    ) -> KernelCall:
        """Of a kernel that is called as forward_fn is; with the gradient of the output of a backward kernel. Then names are those of
        forward, wanted are the numbers of forward."""
        tensors, tree = _flat(arguments)
        if gradient is None:
            return cls(tensors=_sent(tensors), names=_tensor_names(tree, names), tree=tree, own_tensors=[], forward=tree)
        places = {id(tensor): index for index, tensor in enumerate(tensors)}
        if id(gradient) not in places:
            raise ReferenceFailed(f"{KERNEL} is not given the gradient of the output; give it as it is")
        below, forward_tree = _flat(forward)
        own_tensors = [tensor for tensor in below if id(tensor) not in places]
        places |= {id(tensor): len(tensors) + index for index, tensor in enumerate(own_tensors)}
        names_by_id = {id(tensor): name for tensor, name in zip((gradient, *forward), ("grad_output", *names), strict=True)}
        given_names = (names_by_id.get(id(argument), "") if torch.is_tensor(argument) else "" for argument in arguments)
        return cls(
            tensors=_sent(tensors),
            names=_tensor_names(tree, tuple(name or f"argument{index}" for index, name in enumerate(given_names))),
            tree=tree,
            own_tensors=_sent(own_tensors),
            forward=renumbered(forward_tree, [places[id(tensor)] for tensor in below]),
            gradients=wanted,
            gradient_names=tuple(f"grad_{names[index]}" for index in wanted),
            output=renumbered(_flat((gradient,))[1][1][0], [places[id(gradient)]]),
        )


class TaskCode:
    """The functions of a task's file, which is executed."""

    def __init__(self, spec: wire.ProblemSpec, where: str) -> None:
        self.where, self.backward = where, bool(json.loads(spec.workloads[0].arguments)["backward"])
        needed = (FORWARD, MODEL, INPUTS, *((AUTOGRAD,) if self.backward else ()))
        module = problem_code.executed(spec, where, {"task": spec.reference}, "task", needed).load("task")
        self.names: Mapping[str, Any] = vars(module)

    def call(self, setting: Mapping[str, Any], key: str) -> KernelCall:
        """The call that a setting and a key make. The key draws inputs, weights, and the gradient of the output."""
        with problem_code.contained("the setting", self.where), problem_code.seeded(key, self.where):
            inputs = problem_code.made_at(self.where, lambda: self.names[INPUTS](**setting["given"]), INPUTS)
            weights = ConstantWeights(seed=key)
            make_model = partial(weights.make, partial(self.names[MODEL], **setting["init"]))
            model = problem_code.made_at(self.where, make_model, MODEL).to(self.where)
            call_arguments = _moved(inputs if isinstance(inputs, (list, tuple)) else [inputs], self.where)
            arguments, keywords = _intercepted(lambda fn: model(*call_arguments, fn=fn), f"{MODEL}.forward", "fn")
            forward = _moved(self._positional(arguments, keywords), self.where)
            named = tuple(inspect.signature(self.names[FORWARD]).parameters)
            names = (*named, *(f"argument{index}" for index in range(len(named), len(forward))))[: len(forward)]
            return self._backward(forward, names) if self.backward else KernelCall.of(forward, names)

    def outputs(self, arguments: tuple[Any, ...], gradients: tuple[int, ...], output: torch.Tensor | None) -> Tensors:
        """Return the outputs that a kernel has to return: what forward_fn returns of these arguments, or its gradients by those of these
        numbers, where output is the gradient of what it returns."""
        function = self.names[FORWARD]
        if not gradients:
            return [item.detach() for item in problem_code.as_tensors(function(*arguments), FORWARD)]
        with torch.enable_grad():
            leaves = [_leaf(item) if index in gradients else item for index, item in enumerate(arguments)]
            wanted = [leaves[index] for index in gradients]
            returned = torch.autograd.grad(function(*leaves), wanted, output, allow_unused=True)
        return [torch.zeros_like(item) if got is None else got for item, got in zip(wanted, returned, strict=True)]

    def _positional(self, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a kernel's arguments by position: a bound function knows no names."""
        if not keywords:
            return arguments
        with blamed(f"{FORWARD}'s signature"):
            bound = inspect.signature(self.names[FORWARD]).bind(*arguments, **keywords)
        bound.apply_defaults()
        return (*bound.args, *bound.kwargs.values())

    def _backward(self, forward: tuple[Any, ...], names: tuple[str, ...]) -> KernelCall:
        autograd, context = self.names[AUTOGRAD], _Context(len(forward))
        output = autograd.forward(context, *forward)
        if not isinstance(output, torch.Tensor):
            raise ReferenceFailed(f"{AUTOGRAD}.forward returned a {type(output).__name__}; a task with one output can be judged")
        gradient = torch.randn_like(output)

        def backward(kernel: Callable[..., Any]) -> Any:
            before = getattr(autograd, KERNEL, None)
            setattr(autograd, KERNEL, kernel)
            try:
                return autograd.backward(context, gradient)
            finally:
                setattr(autograd, KERNEL, before)

        arguments, keywords = _intercepted(backward, f"{AUTOGRAD}.backward", KERNEL)
        if keywords:
            raise ReferenceFailed(f"{AUTOGRAD}.backward calls {KERNEL} with named arguments; give them by position")
        return KernelCall.of(arguments, names, gradient, forward, _gradients(backward, len(forward)))


def _sent(tensors: Sequence[torch.Tensor]) -> Tensors:
    return [tensor if tensor.dim() else tensor.reshape(1) for tensor in tensors]


def _flat(arguments: tuple[Any, ...]) -> tuple[Tensors, list[Any]]:
    return problem_code.flatten(arguments, "the arguments", dimensions=lambda tensor: None if tensor.dim() else [])


def _tensor_names(tree: list[Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """A name for each tensor: its argument's, with a number where that is a nest, and another where it is there twice."""
    tensor_names: list[str] = []
    for name, node in zip(names, tree[1], strict=True):
        for index, _ in enumerate(pytree.leaves(node)):
            wanted = name if node[0] == "tensor" else f"{name}_{index}"
            tensor_names.append(wanted if wanted not in tensor_names else f"{wanted}_{len(tensor_names)}")
    return tuple(tensor_names)


def _leaf(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        raise ReferenceFailed(f"{AUTOGRAD}.backward returns a gradient of a {type(value).__name__}; only floating tensors have one")
    return value.detach().requires_grad_()


def _moved(values: Any, where: str) -> tuple[Any, ...]:
    """Tensors as a kernel may get them, in whatever nest they lie; the same one stays the same."""
    moved: dict[int, torch.Tensor] = {}
    return tuple(tree_map_only(torch.Tensor, lambda tensor: moved.setdefault(id(tensor), nests.moved(tensor, where)), list(values)))


class _Intercepted(BaseException):  # not to be caught by the task's own code
    def __init__(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        super().__init__()
        self.arguments, self.keywords = arguments, keywords


def _intercepted(call: Callable[[Callable[..., Any]], Any], who: str, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """With what the kernel is called, which is not run."""

    def kernel(*arguments: Any, **keywords: Any) -> Any:
        raise _Intercepted(arguments, keywords)

    try:
        with blamed(who):
            call(kernel)
    except _Intercepted as intercepted:
        return intercepted.arguments, intercepted.keywords
    raise ReferenceFailed(f"{who} never calls {name}, which is the kernel")


def _gradients(backward: Callable[[Callable[..., Any]], Any], count: int) -> tuple[int, ...]:
    """Which arguments' gradients the kernel returns, in its order: seen by what `backward` does with outputs that differ."""
    several = (tuple(object() for _ in range(length)) for length in range(1, GRADIENT_LIMIT + 1))
    for outputs in (object(), *several):
        results = outputs if isinstance(outputs, tuple) else (outputs,)
        try:
            returned = backward(lambda *_, outputs=outputs: outputs)
        except (TypeError, ValueError, IndexError):  # it unpacks another number of them
            continue
        listed = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        places = [index for result in results for index, tensor in enumerate(listed[:count]) if tensor is result]
        if len(places) == len(results) and len(listed) >= count:
            return tuple(places)
    text = f"{AUTOGRAD}.backward does not return each output of {KERNEL} as the gradient of an argument; return them as they are"
    raise ReferenceFailed(text)


class _Context(FunctionCtx):
    """State that `AutogradFunction` keeps between forward and backward."""

    to_save: tuple[Any, ...] = ()

    def __init__(self, count: int) -> None:
        self.needs_input_grad = (True,) * count

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """Return what forward saved."""
        return self.to_save
