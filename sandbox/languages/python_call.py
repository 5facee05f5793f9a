"""How a Python entry is called, by the problem's convention (`wire.Convention`)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.devices import Arena
from sandbox.languages import model_state, torch_extension
from sandbox.languages.python_module import ready
from sandbox.launch.kernel import Bound, LaunchRefused
from sandbox.protocol import pytree, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Call, Status

if TYPE_CHECKING:
    import torch

Kernel = Callable[..., object]


def kernel_of(entry: Any, job: wire.RunnerJob, state_fd: int) -> Kernel:
    """What is called again and again. A class is made first: with the state's arguments and weights where the convention has them."""
    state = Path(f"/proc/self/fd/{state_fd}").read_bytes() if job.convention is wire.Convention.MODEL else b""
    return ready(model_state.make(entry, state, device_info(job.device_kind).torch_device) if state and inspect.isclass(entry) else entry)


def bind(kernel: Kernel, call: Call, job: wire.RunnerJob, arena: Arena, make_object: pytree.MakeObject = pytree.no_objects) -> Bound:
    """A kernel with the arguments of one call. make_object: makes the objects of data."""
    inputs = [torch_extension.argument(arena, slot, tensor) for slot, tensor in zip(call.inputs, job.inputs, strict=True)]
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    match job.convention:
        case wire.Convention.DESTINATION:
            return Bound(launch=lambda: kernel(*inputs, *targets))
        case wire.Convention.DATA:
            node = json.loads(job.templates[call.template])
            data, views = _data(node, inputs, targets, make_object)
            return Bound(
                launch=lambda: kernel(data()),
                finish=lambda result: torch_extension.copy_out(_flat(result), views, job, widens=True),
                blank=torch_extension.blank(targets, call),
            )
        case wire.Convention.POSITIONAL | wire.Convention.MODEL | wire.Convention.ARGUMENTS:
            listed = job.convention is wire.Convention.ARGUMENTS
            arguments = list(pytree.build(job.templates[call.template], inputs)) if listed else inputs
            return Bound(
                launch=lambda: kernel(*arguments),
                finish=lambda result: torch_extension.copy_out(result, targets, job, call.outputs),
                blank=torch_extension.blank(targets, call),
            )


def _data(
    node: list[Any], inputs: list[object], targets: list[torch.Tensor], make_object: pytree.MakeObject
) -> tuple[Callable[[], object], list[torch.Tensor]]:
    """What an entry is given, and the outputs as it is to return them. A template may have the outputs' nest as its last part; theirs are
    the later numbers. An object is made for each launch, for a kernel may change it."""
    all_of, views = [*inputs, *targets], targets
    if any(number >= len(inputs) for number, _ in pytree.leaves(node)):
        node, *_, behind = node[1]
        views = [
            targets[number - len(inputs)] if dimensions is None else targets[number - len(inputs)].permute(dimensions)
            for number, dimensions in pytree.leaves(behind)
        ]
    make = pytree.builder(node, make_object)
    if pytree.has_objects(node):
        return lambda: make(all_of), views
    made = make(all_of)
    return lambda: made, views


def _flat(result: object) -> list[Any]:
    """The tensors of a returned nest, in the order in which they are met."""
    import torch

    try:
        return pytree.flatten(result, lambda one: isinstance(one, torch.Tensor))[0]
    except (pytree.NestInvalid, RecursionError) as wrong:
        raise LaunchRefused(Status.WRONG_DTYPE, f"the kernel's result can't be read: {wrong}") from None
