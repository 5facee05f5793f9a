"""Makes a submitted model class of what the judge sends with it: arguments, weights and a seed (`wire.Convention.MODEL`).

Weights are matched by name, so that a class may create them in any order. Where it has other parameters than the problem's, it keeps
what the same seed gives it, and constants are drawn as the problem's were (`sandbox/launch/constant_weights.py`).
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sandbox.devices import Arena
from sandbox.languages import cuda_errors, python_build, python_extensions, python_module, python_stubs, torch_extension
from sandbox.languages.python_module import ready
from sandbox.launch import objects
from sandbox.launch.constant_weights import Constant, ConstantWeights
from sandbox.launch.loop import Bound, LaunchRefused, Loaded
from sandbox.protocol import box_modules, python_archive, pytree, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Call, Status

if TYPE_CHECKING:
    import torch
Kernel = Callable[..., object]
NOT_FILLED = "float4_e2m1fn_x2"  # torch fills no fresh memory of it: with the filling on, it refuses to make any
build = python_build.build


def make_model(entry: Callable[..., Any], state: bytes, where: str) -> Any:
    """An instance on the device that torch calls where. Whatever its code raises goes through."""
    import torch

    contents = torch.load(io.BytesIO(state), weights_only=True)
    torch.manual_seed(contents["seed"])
    arguments, drawn = contents["arguments"], contents["drawn"]
    if drawn:
        weights_drawn = ConstantWeights(seed=drawn["seed"], only=frozenset(Constant(*constant) for constant in drawn["constants"]))
        model = weights_drawn.make(lambda: entry(*arguments))
    else:
        model = entry(*arguments)
    if not isinstance(model, torch.nn.Module):
        return model
    weights, parameters = contents["weights"] or {}, model.state_dict()
    alike = {name: value for name, value in weights.items() if name in parameters and parameters[name].shape == value.shape}
    if all(name in alike for name, _ in model.named_parameters()):
        model.load_state_dict(alike, strict=False)  # buffers that only one of them has are its own affair
    model.to(where, getattr(torch, contents["dtype"]))
    if not contents["train"]:
        model.eval()
    return model


def bind(kernel: Kernel, call: Call, job: wire.RunnerJob, arena: Arena, make_object: pytree.MakeObject = pytree.no_objects) -> Bound:
    """A kernel with the arguments of one call. make_object: makes the objects of data."""
    if job.convention is not wire.Convention.DATA:
        return torch_extension.bind(kernel, call, job, arena)
    inputs = [torch_extension.argument(arena, slot, tensor) for slot, tensor in zip(call.inputs, job.inputs, strict=True)]
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    data, views = _data(json.loads(job.templates[call.template_index]), inputs, targets, make_object)
    return Bound(
        launch=lambda: kernel(data()),
        finish=lambda result: torch_extension.copy_out(_flat(result), views, job, widens=True),
        blank=torch_extension.blank(targets, call),
    )


def argument_order(kernel: Kernel, job: wire.RunnerJob) -> tuple[int, ...]:
    """The place of each parameter's argument among inputs, outputs and axes, for a function that takes its outputs; () for one that
    returns them, or that takes whatever it is given, as many decorated ones do. LaunchRefused where neither fits."""
    try:
        parameters = list(inspect.signature(kernel, follow_wrapped=False).parameters.values())
    except Exception:  # noqa: BLE001  whatever the submission's own object does when it is asked
        return ()
    positional = [
        parameter.name for parameter in parameters if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    needed = sum(parameter.name in positional and parameter.default is parameter.empty for parameter in parameters)
    if needed <= len(job.inputs) <= len(positional) or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return ()
    if order := torch_extension.order_of(dict.fromkeys(positional[:needed]), job):
        return order
    names = [*(tensor.name for tensor in (*job.inputs, *job.outputs)), *job.axes]
    returning, writing = (f"{job.entry}({', '.join(part)})" for part in (names[: len(job.inputs)], names))
    raise LaunchRefused(
        Status.RAISED,
        f"the entry takes {', '.join(positional) or 'nothing'}; the problem calls {returning} and takes what it returns, or {writing}, "
        "where the outputs are written to and sizes may be left out",
    )


def _data(
    node: list[Any], inputs: list[object], targets: list[torch.Tensor], make_object: pytree.MakeObject
) -> tuple[Callable[[], object], list[torch.Tensor]]:
    """Return the maker of an entry's argument, and the outputs as it is to return them.

    A template may have the outputs' nest as its last part; theirs are the later numbers. An object is made for each
    launch, for a kernel may change it.
    """
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
    value = make(all_of)
    return lambda: value, views


def _flat(result: object) -> list[Any]:
    import torch

    try:
        return pytree.flatten(result, lambda value: isinstance(value, torch.Tensor))[0]
    except (pytree.NestInvalid, RecursionError) as wrong:
        raise LaunchRefused(Status.WRONG_DTYPE, f"the kernel's result can't be read: {wrong}") from None


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Unpack the artifact and import the main file; its body runs here."""
    place = python_module.ModuleDirectory(directory=Path(tempfile.mkdtemp(prefix="module-")))
    try:
        python_archive.unpack(Path(f"/proc/self/fd/{artifact_fd}").read_bytes(), place.directory)
        main = place.main()
    except (python_archive.ArchiveRefused, python_module.NoMainFile) as refused:
        raise LaunchRefused(Status.RAISED, str(refused)) from None
    _seal(place)
    os.chdir(place.place_work(main))
    os.environ.update(place.environment(job.device_kind))
    import torch

    torch.set_grad_enabled(False)
    text = place.text()
    python_stubs.install(text)
    if device_info(job.device_kind).emulates_cuda:
        box_modules.emulated().install(text)
    python_extensions.execute_from_anywhere()
    python_module.install_extensions(text, python_extensions.built(place.extensions))
    try:
        module = python_module.import_main(main, place.sources, place.modules)
        entry = python_module.find_entry(module, job.entry)
        state = Path(f"/proc/self/fd/{state_fd}").read_bytes() if job.convention is wire.Convention.MODEL else b""
        kernel = ready(make_model(entry, state, device_info(job.device_kind).torch_device) if state and inspect.isclass(entry) else entry)
    except python_module.NoEntry as missing:
        raise LaunchRefused(Status.ENTRY_NOT_FOUND, str(missing)) from None
    except SystemExit as left:
        raise LaunchRefused(Status.RAISED, f"the module ended its process when it was imported: SystemExit: {left}") from None
    except Exception as error:
        python_module.explain(error, place.sources)
        raise
    if job.convention is wire.Convention.POSITIONAL:
        job = replace(job, argument_order=argument_order(kernel, job))

    def explained_kernel(*arguments: object) -> object:
        try:
            return kernel(*arguments)
        except Exception as error:
            python_module.explain(error, place.sources)
            raise

    make_object = partial(_make_object, module, place)
    fills = all(tensor.dtype != NOT_FILLED for tensor in (*job.inputs, *job.outputs))
    return Loaded(
        bind=lambda call: bind(explained_kernel, call, job, arena, make_object),
        uses_torch=True,
        fills=fills,
        takes_outputs=bool(job.argument_order),
        libraries=python_extensions.libraries,
        take_error=cuda_errors.of_any((python_extensions.take_error, cuda_errors.of_shared_runtime(job.device_kind))),
    )


def _make_object(module: ModuleType, place: python_module.ModuleDirectory, kind: str, name: str, fields: dict[str, Any]) -> Any:
    """An object of data: of the problem's class where that is in one of its modules, else of the main file's class of the same name, else
    of one that only has the same attributes."""
    file, _, path = name.partition(".")
    is_module = (place.modules / f"{file}.py").is_file()
    value: Any = importlib.import_module(file) if is_module else module
    for part in path.split(".") if is_module else path.split(".")[-1:]:
        value = getattr(value, part, None)
    return objects.make_object(kind, name, fields, value if isinstance(value, type) else objects.torch_class(name))


def _seal(place: python_module.ModuleDirectory) -> None:
    """Make submitted and compiled files read only, though new files may be written next to them; compilers may write to their caches."""
    python_module.seal(place.sources, directory_mode=0o755)
    for part in (place.modules, place.extensions):
        python_module.seal(part)
    for path in place.caches().values():
        Path(path).mkdir(parents=True, exist_ok=True)
    for directory, _, names in os.walk(place.directory / python_archive.CACHES):
        for name in names:
            Path(directory, name).chmod(0o644)
