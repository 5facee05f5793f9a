"""Compiles a module's Numba kernels for the types that its entry calls them with, and reports what they are made of.

Usage: `numba_kernels PLACE REPORT MAIN`; PLACE and MAIN are those of `python_import`. A process of its own, without Numba's simulator.
Whatever fails, or takes too long, leaves no report: it is for remarks only, and a claim like all that a build box says.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import math
import mmap
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from grader_extensions.emulated_cuda import emulated_numba, emulated_torch
from grader_extensions.modes.box import numba_ptx
from sandbox.compilers import nvcc
from sandbox.compilers.steps import BUILT
from sandbox.languages import python_extensions, python_module, python_stubs
from sandbox.protocol import wire

KERNEL_LIMIT = 8


def main() -> None:
    """Import the main file, call its entry once on zeros, compile what it launched."""
    place, report, main_path = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    job = wire.decode((place / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    # What the kernels take of the device, and why some compute in float64.
    module = python_module.ModuleDirectory(directory=place / "module")
    text = module.text()
    architecture = int(re.sub(r"\D", "", nvcc.target(job.architecture or nvcc.ARCHITECTURE)))
    recorded = record_numba(architecture)
    python_stubs.install(text)
    emulated_torch.install(text)
    python_module.install_extensions(text, no_extension)
    # From here on untrusted code has run in this process. Where it fails, what it launched until then counts.
    with contextlib.suppress(Exception, SystemExit):
        imported = python_module.import_main(module.sources / main_path, module.sources, module.modules)
        call_entry(job, python_module.find_entry(imported, job.entry))
    uses: list[wire.KernelUse] = []
    remarks: dict[str, None] = {}
    for dispatcher, types in recorded[:KERNEL_LIMIT]:
        with contextlib.suppress(Exception):  # Numba's own refusal comes again where the kernel is run
            kernel = numba_ptx.compiled(dispatcher, types, architecture)
            uses.append(numba_ptx.use(kernel, architecture))
            remarks |= dict.fromkeys(numba_ptx.numba_float64_remarks(kernel, source_path(dispatcher, module.sources)))
    note = wire.BuildNote(kernels=tuple(uses), remarks=tuple(remarks))
    report.write_text(json.dumps({"code": BUILT, "log": "", "note": wire.encode(note).decode()}), "utf-8")
    os._exit(0)


def record_numba(architecture: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """Replace what would ask for a GPU, until the process ends; nothing is run. Raises ImportError without Numba.

    architecture: the GPU's, such as 90. Numba compiles a kernel for the types of the arguments that it meets, so the entry has to be
    called. Kernels and types come into the list, in their order, each pair once; of a kernel with signatures those alone.
    """
    import torch

    emulated_numba.answer_without_runtime()
    pairs, signed = list[tuple[Any, tuple[Any, ...]]](), set[int]()
    cuda: Any = importlib.import_module("numba.cuda")
    dispatchers: Any = importlib.import_module("numba.cuda.dispatcher")
    dispatcher, device = dispatchers.CUDADispatcher, SimpleNamespace(compute_capability=divmod(architecture, 10))
    normalized: Callable[[Any], Any] = importlib.import_module("numba.cuda.core.sigutils").normalize_signature
    np: Any = importlib.import_module("numpy")

    def array_of(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else value

    def add(dispatcher: Any, types: tuple[Any, ...]) -> None:
        if not any(recorded is dispatcher and those == types for recorded, those in pairs):
            pairs.append((dispatcher, types))

    def launch(self: Any, *arguments: Any) -> None:
        if id(self) not in signed:
            add(self, tuple(self.typeof_pyval(array_of(argument)) for argument in arguments))

    def configured(self: Any, *configuration: Any, **named: Any) -> Callable[..., None]:
        return lambda *arguments: launch(self, *arguments)

    def compile_for(self: Any, signature: Any) -> None:
        signed.add(id(self))
        add(self, normalized(signature)[0])

    dispatchers.get_current_device = lambda: device  # which a device function is compiled for
    dispatcher.configure = dispatcher.forall = configured
    dispatcher.compile = compile_for
    dispatcher.disable_compile = lambda self, val=True: None
    dispatcher.specialize = lambda self, *arguments: self
    replaced: dict[str, Callable[..., Any]] = {
        "as_cuda_array": lambda value, sync=True: array_of(value),
        "to_device": lambda value, *arguments, **named: array_of(value),
        "synchronize": lambda: None,
        "is_available": lambda: True,
        "stream": lambda: 0,
        "external_stream": lambda pointer: 0,
        "default_stream": lambda: 0,
        "device_array": lambda shape, dtype=np.float64, **named: np.empty(shape, dtype),
        "device_array_like": lambda value, **named: np.empty_like(array_of(value)),
    }
    for name, value in replaced.items():
        setattr(cuda, name, value)
    return pairs


def no_extension(extension: python_extensions.Extension) -> Path:
    """Refuse: extensions are compiled elsewhere."""
    raise NotImplementedError("extensions are compiled elsewhere")


def call_entry(job: wire.BuildJob, entry: Any) -> None:
    """Call the entry as the problem does, at a size that is shown; nothing where that is not known here."""
    if job.call is None or not job.call.sizes:
        return
    call = job.call
    function = python_module.ready(entry) if inspect.isclass(entry) else entry
    outputs = call.outputs if call.convention is wire.Convention.DESTINATION else ()
    function(*(_zeros(tensor, call.sizes) for tensor in (*call.inputs, *outputs)))


def _zeros(tensor: wire.TensorSpec, sizes: dict[str, int]) -> Any:
    """A tensor whose memory is only taken where it is touched; a number for a scalar."""
    import torch

    if tensor.shape == ():
        return 0.0 if tensor.dtype.startswith(("float", "bfloat")) else 0
    shape = [sizes[size] if isinstance(size, str) else size for size in tensor.shape]
    kind = getattr(torch, tensor.dtype)
    count = math.prod(shape)
    return torch.frombuffer(mmap.mmap(-1, max(1, count * kind.itemsize)), dtype=kind, count=count).view(shape)


def source_path(dispatcher: Any, sources: Path) -> str:
    """The file that a kernel was written in, as it was submitted."""
    return inspect.getfile(dispatcher.py_func).removeprefix(f"{sources}{os.sep}")


if __name__ == "__main__":
    main()
