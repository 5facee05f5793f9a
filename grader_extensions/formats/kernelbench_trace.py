"""Traces a call of a problem's model on tensors without memory: shapes, sizes, and what its forward changes or draws.

Where that can't be done, for the code looks at values, the call is made for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from grader_extensions.formats import problem_code
from sandbox.judge import references
from sandbox.judge.references import Tensors
from sandbox.judge.tensors import memory_of

# What one byte takes while it is judged: in two arenas, in the judge's copies, in the baseline's and the subject's own memory.
INPUT_FACTOR, OUTPUT_FACTOR, WEIGHT_FACTOR = 6, 10, 4
SMALLER = "make the file's sizes smaller (`grader-cli problems import --set NAME=VALUE`)"
_RUNNING = ("running_mean", "running_var")  # normalisation in train mode writes these, though not every schema declares it
_CALL_COUNTER = "num_batches_tracked"  # of normalisation, which no answer depends on
_PROBABILITIES = ("dropout_p", "dropout", "p")
_CGROUP_LIMIT, _MEMINFO = Path("/sys/fs/cgroup/memory.max"), Path("/proc/meminfo")  # which begins with MemTotal, proc_meminfo(5)
_OWN = ("_parameters", "_buffers", "_modules")  # of a module's attributes: compared as tensors

Making = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """Inputs, outputs and weights as they would be, and what forward leaves behind in its model: tensors and attributes, by name."""

    inputs: list[Any]
    outputs: Tensors
    weights: dict[str, torch.Tensor]
    written: tuple[str, ...]
    rebound: tuple[tuple[str, str], ...]  # a submodule's name and the attribute's


def trace(
    model: Callable[[Making], torch.nn.Module],
    inputs: Callable[[Making, str], list[Any]],
    where: str,
    *,
    weights_are_inputs: bool = False,
    only_described: bool = False,
) -> TracedCall:
    """Call the model once on such inputs. Raises ReferenceFailed where it does not fit, draws random numbers or keeps state.

    only_described: it will not be judged here, so that it may be larger than this device's memory."""
    without_memory, weight_factor = FakeTensorMode(allow_non_fake_inputs=True), WEIGHT_FACTOR + INPUT_FACTOR * weights_are_inputs
    try:
        return _trace(model, inputs, where, without_memory, 0 if only_described else weight_factor)
    except references.ReferenceFailed as failure:
        if not isinstance(failure.__cause__, RuntimeError):
            raise
    return _trace(model, inputs, where, _Bounded(memory_bytes(where)), weight_factor)


def _trace(
    model: Callable[[Making], torch.nn.Module],
    inputs: Callable[[Making, str], list[Any]],
    where: str,
    making: Making,
    weight_factor: int,
) -> TracedCall:
    real = isinstance(making, _Bounded)
    values = inputs(making, where if real else "cpu")
    for index, value in enumerate(values):
        if not torch.is_tensor(value) and not isinstance(value, (bool, int, float)):
            raise references.ReferenceFailed(f"input {index} is a {type(value).__name__}; tensors and numbers can be given")
    require_memory = partial(_require_memory, where, weight_factor, _size(values))
    require_memory(0, 0)
    traced_model = model(making)
    traced_model = traced_model.to(where) if real else traced_model
    weight_bytes = _size([*traced_model.parameters(), *traced_model.buffers()])
    require_memory(weight_bytes, 0)
    weights, before, watch = kept_tensors(traced_model), _Kept.of(traced_model), _TraceMode()
    with references.blamed("forward"), making, watch:
        outputs = problem_code.as_tensors(traced_model(*values), "forward")
    written, rebound = before.changes(traced_model, watch.written)
    require_memory(weight_bytes, _size(outputs))
    return TracedCall(inputs=values, outputs=outputs, weights=weights, written=written, rebound=rebound)


def cast(model: torch.nn.Module, dtype: torch.dtype, where: str) -> None:
    """Do as `model.to(where, dtype)`, also for tensors without memory, to which that can't be done."""
    if not any(isinstance(tensor, FakeTensor) for tensor in named_tensors(model).values()):
        model.to(where, dtype)
        return
    for module in model.modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if tensor.is_floating_point() and tensor.dtype is not dtype:
                converted = tensor.detach().to(dtype)
                setattr(
                    module,
                    name,
                    torch.nn.Parameter(converted, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else converted,
                )


class _Bounded(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to make a tensor that does not fit into memory: a host may hand out more than it has, and end the process later."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit_bytes = limit_bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Look at the operation, then do it."""
        if func._schema.arguments and func._schema.arguments[0].name == "size" and args and not func.is_view:
            count = math.prod(int(argument) for argument in args[0])
            if count * ((kwargs or {}).get("dtype") or torch.get_default_dtype()).itemsize > self._limit_bytes:
                raise references.ReferenceTooLarge(f"a tensor of shape {list(args[0])} does not fit into memory; {SMALLER}")
        return func(*args, **(kwargs or {}))


class _TraceMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Looks at every operation: refuses what draws random numbers, and remembers running statistics."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.written: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Look at the operation, then do it."""
        declared = func._schema.arguments  # a default is not among args
        named = {parameter.name: parameter.default_value for parameter in declared} | dict(
            zip((parameter.name for parameter in declared), args, strict=False)
        )
        named |= kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags and not any(_is_zero(named.get(name)) for name in _PROBABILITIES):
            text = (
                f"forward draws random numbers ({func}), anew in every call, so no kernel can give the same answer; set the probability of "
                "dropout to 0, call self.eval() at the end of __init__, or make what is random an input"
            )
            raise references.ReferenceFailed(text)
        if named.get("training", True):
            self.written |= {id(named[name]) for name in _RUNNING if torch.is_tensor(named.get(name))}
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A model before it was called."""

    versions: dict[str, int]
    attributes: dict[str, dict[str, Any]]
    attribute_versions: dict[int, int]

    @classmethod
    def of(cls, model: torch.nn.Module) -> _Kept:
        """Remember what a call could change."""
        attributes = {name: _attributes(module) for name, module in model.named_modules()}
        tensors = [value for fields in attributes.values() for value in fields.values() if torch.is_tensor(value)]
        return cls(
            versions={name: item._version for name, item in named_tensors(model).items()},
            attributes=attributes,
            attribute_versions={id(tensor): tensor._version for tensor in tensors},
        )

    def changes(self, model: torch.nn.Module, running: set[int]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Return the tensors that the call changed. A tensor that a later call would read is no change but a fault: answers would depend on
        earlier calls."""
        tensors = named_tensors(model)
        written = tuple(name for name, tensor in tensors.items() if id(tensor) in running or tensor._version != self.versions.get(name))
        rebound = []
        for name, module in model.named_modules():
            before, after = self.attributes.get(name, {}), _attributes(module)
            for key in sorted(before.keys() | after.keys()):
                old = before.get(key)
                moved = key not in before or key not in after or old is not after[key]
                if torch.is_tensor(old) and (moved or old._version != self.attribute_versions[id(old)]):
                    raise references.ReferenceFailed(
                        f"forward changes self.{key}, a tensor that it had before: the answer would depend on the calls before; "
                        "use a local variable in forward, or make it an input"
                    )
                if moved:
                    rebound.append((name, key))
        return written, tuple(rebound)


def named_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, by name."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def kept_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the tensors that a model keeps and an answer can depend on, by name: its state, other buffers, and tensors that are plain
    attributes."""
    tensors: dict[str, torch.Tensor] = {
        name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if torch.is_tensor(tensor)
    }
    attributes = {
        f"{name}.{key}" if name else key: tensor for name, module in model.named_modules() for key, tensor in _attributes(module).items()
    }
    for name, tensor in (*model.named_buffers(), *attributes.items()):
        if torch.is_tensor(tensor):
            tensors.setdefault(name, tensor)
    return {name: tensor for name, tensor in tensors.items() if name.rpartition(".")[2] != _CALL_COUNTER}


def _is_zero(value: object) -> bool:
    return isinstance(value, (int, float)) and value == 0


def _attributes(module: torch.nn.Module) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if name not in _OWN}


def _size(values: list[Any]) -> int:
    return sum(memory_of(value).numel() * value.element_size() for value in values if torch.is_tensor(value))


def _require_memory(where: str, weight_factor: int, input_bytes: int, weight_bytes: int, output_bytes: int) -> None:
    """ReferenceTooLarge where a problem does not fit, as far as sizes are known.

    weight_factor: what one byte of the weights takes while it is judged; 0: nothing is checked.
    """
    needed = INPUT_FACTOR * input_bytes + weight_factor * weight_bytes + OUTPUT_FACTOR * output_bytes
    if weight_factor and needed > (there := memory_bytes(where)):
        text = (
            f"inputs of {input_bytes / 1e9:.3g} GB, weights of {weight_bytes / 1e9:.3g} GB and outputs of {output_bytes / 1e9:.3g} GB "
            f"take {needed / 1e9:.3g} GB while they are judged, and here are {there / 1e9:.3g} GB; {SMALLER}"
        )
        raise references.ReferenceTooLarge(text)


def memory_bytes(where: str) -> int:
    """How much memory the device has; of the host what this process may use of it."""
    if where.startswith("cuda"):
        return int(torch.cuda.get_device_properties(where).total_memory)
    # Not os.sysconf: glibc asks sysinfo, which boxes refuse, and then answers with what was on the stack.
    there = 1024 * int(_MEMINFO.read_text("utf-8").split()[1])
    limit = _CGROUP_LIMIT.read_text("utf-8").strip() if _CGROUP_LIMIT.is_file() else ""
    return min(there, int(limit)) if limit.isdecimal() else there
