"""Builds and loads kernels that TVM-FFI binds: a function takes the problem's inputs, then its outputs, and writes those.

The entry is the exported function of the name asked for, else `run`, else the only one.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import Unsupported
from sandbox.devices import Arena
from sandbox.languages import cuda_errors, torch_extension
from sandbox.launch.loop import LaunchRefused, Loaded
from sandbox.protocol import elf, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Status

EXPORTED, DEFAULT_ENTRY = "__tvm_ffi_", "run"
DEVICE_AT, CUDA_DEVICE = 32, 2  # in a tensor, behind its header and the address of its data; kDLCUDA
LACKING = 'TVM-FFI (apache-tvm-ffi) is not installed here; bind the function by PYBIND11_MODULE, or define a plain extern "C" function'


def headers(job: wire.BuildJob, sources: Mapping[str, str], place: Path) -> Iterator[Headers | str]:
    """The package's. Unsupported without it."""
    if find_spec("tvm_ffi") is None:
        raise Unsupported(job.sources[0], 1, LACKING)
    yield Headers(include_dirs=(str(_package() / "include"),))


def libraries(device_kind: str) -> list[str]:
    """The package's library, which the runner has loaded, and the device's runtime inside the artifact."""
    return [str(_package() / "lib" / "libtvm_ffi.so"), *device_info(device_kind).runtime]


def check(artifact: bytes, entry: str) -> str | None:
    """Return the sentence on a missing entry; None where one is there."""
    names = _functions(artifact)
    if not {entry, DEFAULT_ENTRY}.isdisjoint(names) or len(names) == 1:
        return None
    has = f"it exports {', '.join(names)}; name one as `entry`" if names else f"add TVM_FFI_DLL_EXPORT_TYPED_FUNC({entry}, function)"
    return f"no function '{entry}' is exported to TVM-FFI; {has}"


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Load the artifact; its constructors run here."""
    import torch

    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"  # it would be compiled here
    import tvm_ffi

    path = f"/proc/self/fd/{artifact_fd}"
    names = _functions(Path(path).read_bytes())
    name = next((name for name in (job.entry, DEFAULT_ENTRY) if name in names), names[0])
    try:
        function = tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(path, "so").get_function(name)
    except Exception as error:  # noqa: BLE001  TVM-FFI raises what the artifact makes it raise
        raise LaunchRefused(Status.RAISED, f"the artifact can't be loaded: {error}") from None
    emulated = device_info(job.device_kind).emulates_cuda
    kernel = (lambda *arguments: function(*map(_on_gpu, arguments))) if emulated else function
    job = dataclasses.replace(job, convention=wire.Convention.DESTINATION)
    return Loaded(
        bind=lambda call: torch_extension.bind(kernel, call, job, arena),
        uses_torch=True,
        take_error=cuda_errors.of_library(library := ctypes.CDLL(path)),
        libraries=lambda: (library,),
    )


def _functions(artifact: bytes) -> list[str]:
    """The functions that an artifact exports; what belongs to one, such as its documentation, has a second `_`."""
    names = (name.removeprefix(EXPORTED) for name in elf.exported_names(artifact) if name.startswith(EXPORTED))
    return sorted(name for name in names if not name.startswith("_"))


def _on_gpu(argument: Any) -> Any:
    """A tensor of the emulated device as one that says that it lies on a GPU; a number as it is."""
    import tvm_ffi

    if not hasattr(argument, "__dlpack__"):
        return argument
    tensor = tvm_ffi.from_dlpack(argument)
    ctypes.c_int32.from_address(tensor.__chandle__() + DEVICE_AT).value = CUDA_DEVICE
    return tensor


def _package() -> Path:
    spec = find_spec("tvm_ffi")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent
