"""A Python module: `ModelNew`, `custom_kernel`, `run`, `solution` or a function of the problem's own name, tensors in and out.

Inside it whatever launches kernels: torch, `load_inline`, Triton, Numba. Its main file is imported in the build box, where its extensions
are compiled, and again in the run box, where they are only loaded.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from sandbox.devices import Arena
from sandbox.languages import (
    cuda_errors,
    python_build,
    python_call,
    python_emulated,
    python_extensions,
    python_files,
    python_module,
    python_stubs,
)
from sandbox.launch import objects
from sandbox.launch.kernel import LaunchRefused, Loaded
from sandbox.protocol import python_archive, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Status

NAME = "python"
NOT_FILLED = "float4_e2m1fn_x2"  # torch fills no fresh memory of it: with the filling on, it refuses to make any
build = python_build.build


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Unpack the artifact and import the main file; its body runs here."""
    place = python_files.ModuleDirectory(directory=Path(tempfile.mkdtemp(prefix="module-")))
    try:
        python_archive.unpack(Path(f"/proc/self/fd/{artifact_fd}").read_bytes(), place.directory)
        main = place.main()
    except (python_archive.ArchiveRefused, python_files.NoMainFile) as refused:
        raise LaunchRefused(Status.RAISED, str(refused)) from None
    _seal(place)
    os.chdir(place.place_work(main))
    os.environ.update(place.environment(job.device_kind))
    import torch

    torch.set_grad_enabled(False)
    text = place.text()
    python_stubs.install(text)
    if device_info(job.device_kind).emulates_cuda:
        python_emulated.install(text)
    python_extensions.execute_from_anywhere()
    python_module.install_extensions(text, python_extensions.built(place.extensions))
    kernel, module = _kernel(main, place, job, state_fd)
    make_object = partial(_make_object, module, place)
    fills = all(tensor.dtype != NOT_FILLED for tensor in (*job.inputs, *job.outputs))
    return Loaded(
        bind=lambda call: python_call.bind(kernel, call, job, arena, make_object),
        uses_torch=True,
        fills=fills,
        libraries=python_extensions.libraries,
        take_error=cuda_errors.of_any((python_extensions.take_error, cuda_errors.of_shared_runtime())),
    )


def _kernel(main: Path, place: python_files.ModuleDirectory, job: wire.RunnerJob, state_fd: int) -> tuple[python_call.Kernel, ModuleType]:
    try:
        module = python_files.import_main(main, place.sources, place.modules)
        kernel = python_call.kernel_of(python_module.find_entry(module, job.entry), job, state_fd)
    except python_module.NoEntry as missing:
        raise LaunchRefused(Status.ENTRY_NOT_FOUND, str(missing)) from None
    except SystemExit as left:
        raise LaunchRefused(Status.RAISED, f"the module ended its process when it was imported: SystemExit: {left}") from None
    except Exception as error:
        python_module.explain(error, place.sources)
        raise

    def sentence(*arguments: object) -> object:
        try:
            return kernel(*arguments)
        except Exception as error:
            python_module.explain(error, place.sources)
            raise

    return sentence, module


def _make_object(module: ModuleType, place: python_files.ModuleDirectory, kind: str, name: str, fields: dict[str, Any]) -> Any:
    """An object of data: of the problem's class where that is in one of its modules, else of the main file's class of the same name, else
    of one that only has the same attributes."""
    file, _, path = name.partition(".")
    given = (place.modules / f"{file}.py").is_file()
    found: Any = importlib.import_module(file) if given else module
    for part in path.split(".") if given else path.split(".")[-1:]:
        found = getattr(found, part, None)
    return objects.make_object(kind, name, fields, found if isinstance(found, type) else objects.torch_class(name))


def _seal(place: python_files.ModuleDirectory) -> None:
    """What was submitted and compiled is read only, though new files may be written next to it; caches are their compilers' to write to."""
    python_files.seal(place.sources, directory_mode=0o755)
    for part in (place.modules, place.extensions):
        python_files.seal(part)
    for path in place.caches().values():
        Path(path).mkdir(parents=True, exist_ok=True)
    for directory, _, names in os.walk(place.directory / python_archive.CACHES):
        for name in names:
            Path(directory, name).chmod(0o644)
