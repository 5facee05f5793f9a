"""A Python module: `ModelNew`, `custom_kernel`, `run`, `solution` or a function of the problem's own name, tensors in and out.

Inside it whatever launches kernels: torch, `load_inline`, Triton, Numba. It is imported in the build box, where its extensions are
compiled, and again in the run box, where they are only loaded.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sandbox.devices import Arena
from sandbox.languages import python_build, python_call, python_emulated, python_extensions, python_module, python_stubs
from sandbox.launch.kernel import LaunchRefused, Loaded
from sandbox.protocol import python_archive, wire
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import Status

NAME = "python"
build = python_build.build


def load(artifact_fd: int, state_fd: int, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Unpack the artifact and import the module; its body runs here."""
    place = python_module.ModuleDirectory(directory=Path(tempfile.mkdtemp(prefix="module-")))
    try:
        python_archive.unpack(Path(f"/proc/self/fd/{artifact_fd}").read_bytes(), place.directory)
        source = python_module.only_file(place.sources)
    except (python_archive.ArchiveRefused, python_module.NoEntry) as refused:
        raise LaunchRefused(Status.RAISED, str(refused)) from None
    _seal(place)
    os.environ.update(place.environment(job.device_kind))
    import torch

    torch.set_grad_enabled(False)
    text = source.read_text("utf-8", "replace")
    python_stubs.install(text)
    if device_info(job.device_kind).emulates_cuda:
        python_emulated.install(text)
    python_extensions.execute_from_anywhere()
    python_module.install_extensions(text, python_extensions.built(place.extensions))
    kernel = _kernel(source, place, job, state_fd)
    return Loaded(bind=lambda call: python_call.bind(kernel, call, job, arena), uses_torch=True)


def _kernel(source: Path, place: python_module.ModuleDirectory, job: wire.RunnerJob, state_fd: int) -> python_call.Kernel:
    try:
        module = python_module.import_file(source)
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

    return sentence


def _seal(place: python_module.ModuleDirectory) -> None:
    """What was submitted and compiled is read only; caches are their compilers' to write to."""
    for part in (place.sources, place.extensions):
        part.mkdir(exist_ok=True)
        for directory, _, names in os.walk(part, topdown=False):
            for name in names:
                Path(directory, name).chmod(0o444)
            Path(directory).chmod(0o555)
    for path in place.caches().values():
        Path(path).mkdir(parents=True, exist_ok=True)
    for directory, _, names in os.walk(place.directory / python_archive.CACHES):
        for name in names:
            Path(directory, name).chmod(0o644)
