"""C++ and CUDA extensions of torch: `PYBIND11_MODULE`, entry `forward` or the module's only function, tensors in and out."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox import wire
from sandbox.box import elf
from sandbox.box.languages import Loaded, Refused
from sandbox.devices import Arena
from sandbox.gate import Call, Slot, Status

NAME = "torch_extension"
MODULE = "kernel"
DEFAULT_ENTRY = "forward"
_INIT = "PyInit_"


def _torch_dir() -> Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def include_dirs() -> list[str]:
    """torch's headers and Python's, found without importing torch."""
    import sysconfig

    root = _torch_dir() / "include"
    return [str(root), str(root / "torch/csrc/api/include"), sysconfig.get_path("include")]


def defines() -> list[str]:
    """What `torch.utils.cpp_extension` defines."""
    return [f"TORCH_EXTENSION_NAME={MODULE}", "TORCH_API_INCLUDE_EXTENSION_H", "_GLIBCXX_USE_CXX11_ABI=1"]


def libraries() -> list[str]:
    """torch's libraries; in the runner they are loaded before the artifact."""
    return [f"-L{_torch_dir() / 'lib'}", "-ltorch", "-ltorch_cpu", "-ltorch_python", "-lc10"]


def check(artifact: bytes, entry: str) -> str | None:
    """Whether there is a Python module; its functions are seen when it is loaded."""
    if any(name.startswith(_INIT) for name in elf.exported_names(artifact)):
        return None
    return 'no Python module in the artifact; add PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }'


def load(artifact_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Import the artifact; its constructors and module body run here."""
    import torch  # noqa: F401  its libraries must be there first

    path = f"/proc/self/fd/{artifact_fd}"
    names = [name for name in elf.exported_names(Path(path).read_bytes()) if name.startswith(_INIT)]
    if not names:
        raise Refused(Status.ENTRY_NOT_FOUND, "the artifact is no Python module")
    name = names[0].removeprefix(_INIT)
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    function = _entry(module, job.entry)

    def bind(call: Call) -> Callable[[], object]:
        arguments = [_argument(arena, slot, tensor) for slot, tensor in zip(call.inputs, job.inputs, strict=True)]
        return lambda: function(*arguments)

    return Loaded(bind=bind, finish=lambda call, result: _copy_out(call, result, job, arena), uses_torch=True)


def _entry(module: Any, wanted: str) -> Callable[..., object]:
    functions = [name for name in dir(module) if not name.startswith("_") and callable(getattr(module, name))]
    for name in (wanted, DEFAULT_ENTRY):
        if name in functions:
            return getattr(module, name)  # type: ignore[no-any-return]
    if len(functions) == 1:
        return getattr(module, functions[0])  # type: ignore[no-any-return]
    raise Refused(
        Status.ENTRY_NOT_FOUND,
        f"the module has no function 'forward'; it has {', '.join(functions) or 'none'}; name one m.def(\"forward\", ...)",
    )


def _argument(arena: Arena, slot: Slot, tensor: wire.TensorSpec) -> object:
    if slot.shape:
        return arena.tensor(slot.offset, tensor.dtype, slot.shape)
    return slot.scalar if tensor.dtype.startswith(("float", "bfloat")) else int(slot.scalar)


def _copy_out(call: Call, result: object, job: wire.RunnerJob, arena: Arena) -> None:
    """Copy what the kernel returned into the output arena; one tensor, or a tuple or list of them."""
    import torch

    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(call.outputs):
        raise Refused(Status.WRONG_SHAPE, f"the kernel returned {len(results)} outputs; the problem has {len(call.outputs)}")
    for value, slot, tensor in zip(results, call.outputs, job.outputs, strict=True):
        if not isinstance(value, torch.Tensor):
            raise Refused(Status.WRONG_DTYPE, f"output {tensor.name!r} is a {type(value).__name__}; return a torch.Tensor")
        if value.dtype != getattr(torch, tensor.dtype):
            raise Refused(Status.WRONG_DTYPE, f"output {tensor.name!r} has dtype {value.dtype}; the problem asks for torch.{tensor.dtype}")
        if tuple(value.shape) != slot.shape:
            raise Refused(Status.WRONG_SHAPE, f"output {tensor.name!r} has shape {tuple(value.shape)}; the problem asks for {slot.shape}")
        if value.layout != torch.strided or value.is_meta:
            raise Refused(Status.WRONG_SHAPE, f"output {tensor.name!r} is not a dense tensor on the device; return one")
        with torch.no_grad():
            arena.tensor(slot.offset, tensor.dtype, slot.shape).copy_(value)
