"""C++ and CUDA extensions of torch: a Python module (`PYBIND11_MODULE`) or operators (`TORCH_LIBRARY`), tensors in and out.

The entry is what has the name asked for, `forward`, or the only function or operator. One that returns nothing and takes a tensor more for
each output writes its outputs there; the names of its parameters say which.
"""

from __future__ import annotations

import ctypes
import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sandbox.compilers.headers import FULL, Headers, torch_directory, torch_include_dirs
from sandbox.devices import Arena
from sandbox.languages import cuda_errors, python_extensions
from sandbox.launch.loop import Bound, LaunchRefused, Loaded
from sandbox.protocol import elf, pytree, wire
from sandbox.protocol.box_modules import box_module
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Call, Slot, Status

if TYPE_CHECKING:
    import torch

    Tensors = list[torch.Tensor]

MODULE = "kernel"
DEFAULT_ENTRY = "forward"
SIGNATURE = re.compile(r"\w+\((.*)\) -> None$", re.MULTILINE)
NUMBER, STREAM = re.compile(r"int|float|bool|str|number|Int|Float"), "stream"
TYPE_ARGUMENTS = re.compile(r"\[[^\[\]]*\]")
TORCH_LIBRARIES = ("c10", "c10_cuda", "torch_cpu", "torch_cuda", "torch", "torch_python")
# What of torch an artifact wants that defines an operator, or implements one: torch::Library::def and impl, and those of its stable ABI.
DEFINES_OPERATOR = ("_ZNR5torch7Library4_def", "aoti_torch_library_def", "torch_library_def")
IMPLEMENTS_OPERATOR = ("_ZNR5torch7Library5_impl", "aoti_torch_library_impl", "torch_library_impl")
# What `torch.utils.cpp_extension` defines for every compiler.
DEFINES = (f"TORCH_EXTENSION_NAME={MODULE}", "TORCH_API_INCLUDE_EXTENSION_H", "_GLIBCXX_USE_CXX11_ABI=1")


def headers(job: wire.BuildJob, sources: Mapping[str, str], place: Path) -> Iterator[Headers | str]:
    """Light headers where a package brings them, and torch's own for what those do not carry."""
    return headers_of(sources, place, job.device_kind)


def headers_of(sources: Mapping[str, str], place: Path, device_kind: str) -> Iterator[Headers | str]:
    """The same, for sources without a job."""
    device = device_info(device_kind)
    common = (*DEFINES, *device.torch_defines)
    if (light := box_module("torch_headers")) is not None:
        prepared = light.prepare(sources, place, emulated=device.emulates_cuda)
        yield prepared if isinstance(prepared, str) else dataclasses.replace(prepared, standard="20", defines=(*common, *prepared.defines))
    yield Headers(standard="20", name=FULL, include_dirs=tuple(torch_include_dirs()), defines=common)


def libraries(device_kind: str) -> list[str]:
    """torch's libraries, of which a build without CUDA has fewer; in the runner they are loaded before the artifact."""
    directory = torch_directory() / "lib"
    paths = [directory / f"lib{name}.so" for name in TORCH_LIBRARIES]
    # The runtime that torch has loaded: two would each have a current device and a last error.
    return [*(str(path) for path in paths if path.exists()), *device_info(device_kind).shared_runtime]


def check(artifact: bytes, entry: str) -> str | None:
    """Return the sentence on a missing Python module or operator; None where there is one. Names are seen when the artifact is loaded."""
    if any(name.startswith(python_extensions.INIT) for name in elf.exported_names(artifact)):
        return None
    wanted = list(elf.undefined_names(artifact))
    if any(name.startswith(DEFINES_OPERATOR) for name in wanted):
        return None
    if any(name.startswith(IMPLEMENTS_OPERATOR) for name in wanted):
        return (
            "TORCH_LIBRARY_IMPL implements operators that nothing here defines; submit the file with TORCH_LIBRARY(name, m) "
            "{ m.def(...); }, too"
        )
    return (
        'no Python module in the artifact; add PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }, or define an '
        "operator with TORCH_LIBRARY"
    )


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Load the artifact; its constructors and module body run here."""
    import torch  # its libraries must be there first

    path = f"/proc/self/fd/{artifact_fd}"
    operators_before = set(torch._C._dispatch_get_all_op_names())
    module = python_extensions.import_library(path, Path(path).read_bytes())
    if module is None:
        ctypes.CDLL(path)
    operators = [name for name in torch._C._dispatch_get_all_op_names() if name not in operators_before]
    named = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    functions = {name: value for name, value in named.items() if callable(value)}
    function = _entry(functions, _operators(operators), job.entry)
    if job.convention is wire.Convention.POSITIONAL and (void := parameters_of(function)):
        parameters, written = void
        job = dataclasses.replace(job, argument_order=order_of(parameters, job, written))
    library = ctypes.CDLL(path)
    return Loaded(
        bind=lambda call: bind(function, call, job, arena),
        uses_torch=True,
        libraries=lambda: (library,),
        take_error=cuda_errors.of_any((cuda_errors.of_library(library), cuda_errors.of_shared_runtime(job.device_kind))),
        own_operators=frozenset(operators),
        takes_outputs=bool(job.argument_order),
    )


def bind(kernel: Callable[..., object], call: Call, job: wire.RunnerJob, arena: Arena) -> Bound:
    """A kernel with the arguments of one call, by any convention but DATA."""
    arguments = [argument(arena, slot, tensor) for slot, tensor in zip(call.inputs, job.inputs, strict=True)]
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    if job.convention is wire.Convention.DESTINATION:
        return Bound(launch=lambda: kernel(*arguments, *targets))
    if job.argument_order:
        ordered = [(*arguments, *targets, *call.axes)[place] for place in job.argument_order]
        return Bound(launch=lambda: kernel(*ordered))
    if job.convention is wire.Convention.ARGUMENTS:
        arguments = list(pytree.build(job.templates[call.template_index], arguments))
    changed = [value for value, tensor in zip(arguments, job.inputs, strict=False) if tensor.inout]
    return Bound(
        launch=lambda: kernel(*arguments),
        finish=lambda result: copy_out(result, targets, job, call.outputs, changed),
        blank=blank(targets, call),
    )


def parameters_of(function: Callable[..., object]) -> tuple[dict[str, bool | None], list[str]] | None:
    """Return the parameters of an entry that returns nothing, as `order_of` takes them; None of any other.

    They are those of an operator's schema, or of the signature that pybind11 writes into the docstring of a function that is not
    overloaded: `f(x: torch.Tensor, y: torch.Tensor) -> None`.
    """
    schema = getattr(getattr(function, "default", None), "_schema", None)
    if schema is not None:
        written = [argument.name for argument in schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
        return None if schema.returns else ({argument.name: _is_tensor(str(argument.type)) for argument in schema.arguments}, written)
    signature = SIGNATURE.match(function.__doc__ or "")
    if signature is None:
        return None
    parameters, before = signature[1], ""
    while parameters != before:  # a type may hold types, as `tuple[int, list[int]]` does
        parameters, before = TYPE_ARGUMENTS.sub("", parameters), parameters
    parts = (part.partition(":") for part in parameters.split(",") if part.strip())
    return {name.strip(): _is_tensor(kind) for name, _, kind in parts}, []


def _is_tensor(kind: str) -> bool | None:
    return True if "Tensor" in kind else False if NUMBER.search(kind) else None


def order_of(parameters: Mapping[str, bool | None], job: wire.RunnerJob, written: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the place of each parameter's argument among inputs, outputs and axes, of an entry that takes its outputs. () where that
    leaves a tensor out, or a parameter.

    Outputs and inputs in place are what is written to, where that is known. Else names decide where every input that is a tensor has its
    own, and the problem's order where not. parameters: whether each is a tensor; None: not known. written: those that are written to.
    """
    tensors, count = (*job.inputs, *job.outputs), len(job.inputs)
    names = [*(tensor.name for tensor in tensors), *job.axes]
    alike = {name.casefold(): name for name in names}
    if len(alike) == len(set(names)) and len({name.casefold() for name in parameters}) == len(parameters):
        parameters = {alike.get(name.casefold(), name): kind for name, kind in parameters.items()}
        written = [alike.get(name.casefold(), name) for name in written]
    is_tensor = [place >= count or bool(tensor.shape) for place, tensor in enumerate(tensors)] + [False] * len(job.axes)
    named = {name: names.index(name) for name in parameters if name in names}
    places: dict[str, int] = {}
    changed = [place for place, tensor in enumerate(tensors) if place >= count or tensor.inout]
    if len(written) == len(changed):
        is_named = {named.get(name) for name in written} == {*changed}
        places = {name: named[name] if is_named else place for name, place in zip(written, changed, strict=True)}
        places |= {name: place for name, place in named.items() if name not in places and place not in changed}
    elif all(tensor.name in parameters for tensor in job.inputs if tensor.shape):
        places = named
    for name, kind in parameters.items():
        if name not in places:
            fitting = (place for place in range(len(names)) if place not in places.values() and kind in (None, is_tensor[place]))
            places[name] = next(fitting, -1) if name != STREAM else -1
    order = tuple(places[name] for name in parameters)
    return order if -1 not in order and {*range(len(tensors))} <= {*order} else ()


def _operators(names: list[str]) -> dict[str, Callable[..., object]]:
    """Operators by name, without namespace and overload, from names such as `mine::scale.out`."""
    import torch

    parts = [name.partition(".")[0].partition("::") for name in names]
    return {name: getattr(getattr(torch.ops, namespace), name) for namespace, _, name in parts}


def _entry(functions: dict[str, Callable[..., object]], operators: dict[str, Callable[..., object]], wanted: str) -> Callable[..., object]:
    callables = {**operators, **functions}
    for name in (wanted, DEFAULT_ENTRY):
        if name in callables:
            return callables[name]
    only = list((functions or operators).values())
    if len(only) == 1:
        return only[0]
    there = ", ".join(functions) or "none"
    operators_there = f" and the operators {', '.join(operators)}" if operators else ""
    raise LaunchRefused(
        Status.ENTRY_NOT_FOUND,
        f"the module has no function 'forward'; it has {there}{operators_there}; name one m.def(\"forward\", ...), or set `entry`",
    )


def argument(arena: Arena, slot: Slot, tensor: wire.TensorSpec) -> object:
    """An input as a kernel that knows torch gets it: a tensor over the arena, or a number."""
    if slot.shape:
        return arena.tensor(slot.offset, tensor.dtype, slot.shape, slot.strides)
    if tensor.dtype == "bool":
        return bool(slot.scalar)
    return slot.scalar if tensor.dtype.startswith(("float", "bfloat")) else int(slot.scalar)


def blank(targets: list[torch.Tensor], call: Call) -> Callable[[], None] | None:
    """For a null run: copy as much as a kernel's outputs, from memory that is taken now and not in anybody's time."""
    import torch

    if not call.copy_out:
        return None
    values = [torch.empty_like(target) for target in targets]

    def copy() -> None:
        for value, target in zip(values, targets, strict=True):
            target.copy_(value)

    return copy


def copy_out(
    result: object, targets: Tensors, job: wire.RunnerJob, slots: Sequence[Slot] = (), changed: Sequence[Any] = (), *, widens: bool = False
) -> None:
    """Copy what the kernel returned into the output arena; one tensor, or a tuple or list of them. slots: with strides that a tensor may
    have as well. changed: inputs that it changes in place, and may return. widens: float32 is taken for float64, for formats whose
    references compute in float64 only to be exact."""
    import torch

    results = _without(changed, [] if result is None else list(result) if isinstance(result, (tuple, list)) else [result], len(targets))
    if len(results) != len(targets):
        inputs, outputs = (", ".join(tensor.name for tensor in tensors) for tensors in (job.inputs, job.outputs))
        if result is None:
            text = f"the kernel returned nothing, and the problem has {inputs} -> {outputs}; return {outputs}, or take it as a parameter"
            raise LaunchRefused(Status.WRONG_DTYPE, f"{text} and write there")
        names = ", ".join(tensor.name for tensor in job.inputs if tensor.inout)
        text = f", next to {names}, which is changed in place: write there" if names else ""
        raise LaunchRefused(Status.WRONG_SHAPE, f"the kernel returned {len(results)} outputs; the problem has {len(targets)}{text}")
    strides = [slot.strides for slot in slots] or [()] * len(targets)
    # There may be outputs that this workload does not have.
    for value, target, tensor, allowed in zip(results, targets, job.outputs, strides, strict=False):
        if not isinstance(value, torch.Tensor):
            raise _refused(tensor, f"is a {type(value).__name__}; return a torch.Tensor", Status.WRONG_DTYPE)
        if value.dtype != target.dtype and not (widens and (value.dtype, target.dtype) == (torch.float32, torch.float64)):
            raise _refused(tensor, f"has dtype {value.dtype}; the problem asks for {target.dtype}", Status.WRONG_DTYPE)
        if job.convention is wire.Convention.ARGUMENTS and target.dim() == 0 and value.numel() == 1:
            value = value.view(())
        if value.shape != target.shape:
            raise _refused(tensor, f"has shape {tuple(value.shape)}; the problem asks for {tuple(target.shape)}")
        if value.layout != torch.strided or value.device != target.device or not _lies_plainly(value, target, allowed):
            # A view would leave its work to the copy, which everybody is forgiven.
            raise _refused(tensor, "is not a contiguous tensor on the device; return one, such as by .contiguous()")
        if value.is_neg() or value.is_conj():
            raise _refused(tensor, "is negated or conjugated only when it is copied; return its values, such as by .resolve_neg()")
        if _overlap(value, target):  # by its own doing: the copy that is forgiven would be none
            raise _refused(tensor, "lies where the grader copies it to; return a tensor of your own")
        with torch.no_grad():
            target.copy_(value)


def _without(changed: Sequence[Any], returned: Sequence[Any], count: int) -> list[Any]:
    """Return what a kernel returned but for the tensors that it changed in place, and for views of all of one, down to count."""
    results = [value for value in returned if not any(value is tensor for tensor in changed)]
    for tensor in changed:
        place = next((place for place, value in enumerate(results) if _same_memory(value, tensor)), None)
        if place is not None and len(results) > count:
            del results[place]
    return results


def _same_memory(value: Any, tensor: torch.Tensor) -> bool:
    return hasattr(value, "data_ptr") and (value.data_ptr(), value.numel()) == (tensor.data_ptr(), tensor.numel())


def _refused(tensor: wire.TensorSpec, sentence: str, status: Status = Status.WRONG_SHAPE) -> LaunchRefused:
    return LaunchRefused(status, f"output {tensor.name!r} {sentence}")


def _lies_plainly(value: torch.Tensor, target: torch.Tensor, allowed: tuple[int, ...]) -> bool:
    """Return whether a tensor is contiguous, or lies in memory as is allowed or as the target does."""
    sizes = zip(value.shape, value.stride(), allowed or target.stride(), strict=True)
    return value.is_contiguous() or all(stride == wanted for size, stride, wanted in sizes if size > 1)


def _overlap(value: torch.Tensor, target: torch.Tensor) -> bool:
    """Of two contiguous tensors of one size, whether a byte is in both."""
    return value.numel() > 0 and abs(value.data_ptr() - target.data_ptr()) < target.numel() * target.element_size()
