"""Which GPUs this host has, as the driver's management library says.  Touches no GPU: a server never holds a CUDA context."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module, metadata
from operator import itemgetter
from pathlib import Path
from typing import Any

import structlog

from grader.isolation.toolchain import cuda_home
from grader.observability.tracing import has_module
from sandbox.protocol.devices import DeviceKind

VISIBLE = "CUDA_VISIBLE_DEVICES"
LOADED = Path("/proc/driver/nvidia/version")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU of this host. index: its place in PCI order; minor: the N of /dev/nvidiaN, which may be another; kind: of device."""

    index: int
    uuid: str
    name: str
    minor: int
    memory_bytes: int
    driver: str
    kind: DeviceKind = DeviceKind.CUDA


def discover(environment: Mapping[str, str] = os.environ, load: Callable[[], Any] = lambda: import_module("pynvml")) -> tuple[Gpu, ...]:
    """The GPUs that are ours, in PCI order; none where there is no driver or no `nvidia-ml-py`. Where CUDA_VISIBLE_DEVICES is set, a GPU
    that it does not name is somebody else's."""
    try:
        nvml = load()
    except ImportError:
        return ()
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError, OSError) as error:  # no driver, or one that does not run
        if LOADED.exists():
            log.error("driver_does_not_answer", detail=str(error))
        return ()
    try:
        gpus = _all(nvml)
    except nvml.NVMLError as error:
        log.warning("gpus_not_found", detail=str(error))
        return ()
    finally:
        nvml.nvmlShutdown()
    return visible(gpus, environment.get(VISIBLE))


def why_unusable() -> str | None:
    """Why no kernel could be built for a GPU, or run on it, with what is here, and what to do; None where nothing speaks against it."""
    for module, package in (("torch", "torch"), ("cuda.bindings", "cuda-bindings")):
        if not has_module(module):
            return f"the package {package} is missing; install it"
    with suppress(metadata.PackageNotFoundError):  # carried in without its metadata
        if (version := metadata.version("torch")).endswith("+cpu"):
            return f"torch {version} is a build without CUDA; install one that has it"
    if cuda_home() is None and shutil.which("nvcc") is None:
        return "nvcc is missing; install the CUDA toolkit, or set CUDA_HOME"
    return None


def visible(gpus: Sequence[Gpu], wanted: str | None) -> tuple[Gpu, ...]:
    """Those that a CUDA_VISIBLE_DEVICES names: by index, or by the beginning of a UUID; all where it is None. As in CUDA, what comes after
    a name that fits nothing is not looked at."""
    if wanted is None:
        return tuple(gpus)
    named = set[str]()
    for word in (part.strip() for part in wanted.split(",")):
        fits = [gpu for gpu in gpus if word and (str(gpu.index) == word or (word.startswith("GPU-") and gpu.uuid.startswith(word)))]
        if len(fits) != 1:
            break
        named.add(fits[0].uuid)
    return tuple(gpu for gpu in gpus if gpu.uuid in named)


def _all(nvml: Any) -> tuple[Gpu, ...]:
    driver = nvml.nvmlSystemGetDriverVersion()
    gpus: list[tuple[tuple[int, int, int], Gpu]] = []
    for number in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(number)
            pci = nvml.nvmlDeviceGetPciInfo(handle)
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
            minor, memory_bytes = int(nvml.nvmlDeviceGetMinorNumber(handle)), int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
        except nvml.NVMLError as error:  # lost, or not for us: the others are as good as before
            log.warning("gpu_left_out", number=number, detail=str(error))
            continue
        gpu = Gpu(index=number, uuid=uuid, name=name, minor=minor, memory_bytes=memory_bytes, driver=driver)
        gpus.append(((int(pci.domain), int(pci.bus), int(pci.device)), gpu))
    # The library promises no order, CUDA_DEVICE_ORDER=PCI_BUS_ID does.
    return tuple(replace(gpu, index=index) for index, (_, gpu) in enumerate(sorted(gpus, key=itemgetter(0))))
