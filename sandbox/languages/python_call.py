"""How a Python entry is called, by the problem's convention (`wire.Convention`)."""

from __future__ import annotations

import inspect
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


def bind(kernel: Kernel, call: Call, job: wire.RunnerJob, arena: Arena) -> Bound:
    """A kernel with the arguments of one call."""
    inputs = [torch_extension.argument(arena, slot, tensor) for slot, tensor in zip(call.inputs, job.inputs, strict=True)]
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    match job.convention:
        case wire.Convention.DESTINATION:
            return Bound(launch=lambda: kernel(*inputs, *targets))
        case wire.Convention.DATA:
            data = _data(job.templates[call.template], inputs, targets)
            return Bound(
                launch=lambda: kernel(data),
                finish=lambda result: torch_extension.copy_out(_flat(result), targets, job),
                blank=torch_extension.blank(targets, call),
            )
        case wire.Convention.POSITIONAL | wire.Convention.MODEL | wire.Convention.ARGUMENTS:
            listed = job.convention is wire.Convention.ARGUMENTS
            arguments = list(pytree.build(job.templates[call.template], inputs)) if listed else inputs
            return Bound(
                launch=lambda: kernel(*arguments),
                finish=lambda result: torch_extension.copy_out(result, targets, job),
                blank=torch_extension.blank(targets, call),
            )


def _data(template: str, inputs: list[object], targets: list[torch.Tensor]) -> object:
    """The nest that an entry is given. A template may have the outputs' nest as its second half; theirs are the later numbers."""
    made = pytree.build(template, [*inputs, *targets])
    used = _tensor_count(template)
    return made[0] if used > len(inputs) and isinstance(made, tuple) else made


def _tensor_count(template: str) -> int:
    found, _ = pytree.flatten(
        pytree.build(template, list(map(_TensorSlot, range(template.count('"tensor"'))))), lambda one: isinstance(one, _TensorSlot)
    )
    return len(found)


class _TensorSlot:
    """Stands for a tensor while they are counted."""

    def __init__(self, number: int) -> None:
        self.number = number


def _flat(result: object) -> list[Any]:
    """The tensors of a returned nest, in the order in which they are met."""
    import torch

    try:
        return pytree.flatten(result, lambda one: isinstance(one, torch.Tensor))[0]
    except (pytree.NestInvalid, RecursionError) as wrong:
        raise LaunchRefused(Status.WRONG_DTYPE, f"the kernel's result can't be read: {wrong}") from None
