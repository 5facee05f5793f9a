"""What a box is granted so that it can use one GPU.  Pure but for `named_by_cdi`, which reads the engine's device files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.isolation import GpuAccess
from grader.isolation.driver import DriverFiles
from grader.isolation.toolchain import Bind, at_resident

DRIVER, TRITON = "/grader/driver", "/grader/triton"
CDI_KIND = "nvidia.com/gpu"
# Where NVIDIA's toolkit puts the libraries of an image that is made as ours is.
TOOLKIT_DIRECTORY = "/usr/lib/x86_64-linux-gnu"
ALWAYS = (
    ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    ("CUDA_CACHE_DISABLE", "1"),  # nothing that a kernel compiled is there for the next one
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What comes to a box on top of the others' equipment; nothing, for a box without a GPU.

    devices: nodes, readable and writable. binds: read-only. requests: for an engine that finds the rest by itself.
    """

    devices: tuple[Bind, ...] = ()
    binds: tuple[Bind, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    requests: tuple[Mapping[str, Any], ...] = ()


NOTHING = Grant()


def plain(gpu: GpuAccess, driver: DriverFiles, resident_dir: Path | None = None) -> Grant:
    """Grant the nodes and the driver's files themselves: no hook, no toolkit.

    The libraries one by one, so that nothing else that lies next to them is in the loader's way; of one that is in the toolchain's copy in
    memory, that copy.
    """
    libraries = tuple(at_resident(resident_dir, Bind(source=path.resolve(), target=f"{DRIVER}/{path.name}")) for path in driver.libraries)
    return Grant(
        devices=tuple(Bind(source=node, target=f"/dev/{node.name}") for node in driver.nodes),
        binds=(*libraries, _triton(gpu)),
        environment=(*ALWAYS, ("CUDA_VISIBLE_DEVICES", "0"), ("TRITON_CACHE_DIR", TRITON), *_libraries_at(DRIVER)),
    )


def shared(gpu: GpuAccess, driver: DriverFiles) -> Grant:
    """Grant a plain process its GPU by name; it could open any other too."""
    directory = str(driver.directory)
    found = (("TRITON_LIBCUDA_PATH", directory),) if driver.common else _libraries_at(directory)
    return Grant(environment=(*ALWAYS, ("CUDA_VISIBLE_DEVICES", gpu.uuid), ("TRITON_CACHE_DIR", str(gpu.triton_dir)), *found))


def requested(gpu: GpuAccess, engine: Mapping[str, Any]) -> Grant | None:
    """Grant what the engine can arrange itself, by CDI or by NVIDIA's runtime; None if it has neither.

    engine: its answer to `info`.
    """
    environment = (*ALWAYS, ("CUDA_VISIBLE_DEVICES", "0"), ("TRITON_CACHE_DIR", TRITON), *_libraries_at(TOOLKIT_DIRECTORY))
    cdi = named_by_cdi(gpu, engine)
    if cdi is not None:
        return Grant(binds=(_triton(gpu),), environment=environment, requests=({"Driver": "cdi", "DeviceIDs": [cdi]},))
    if "nvidia" in (engine.get("Runtimes") or {}):
        # Only `compute`: no NVML, no graphics. The hook reads this variable, so here it may not say "void".
        request: dict[str, Any] = {"Driver": "nvidia", "DeviceIDs": [gpu.uuid], "Capabilities": [["gpu", "compute"]]}
        return Grant(binds=(_triton(gpu),), environment=(*environment, ("NVIDIA_VISIBLE_DEVICES", gpu.uuid)), requests=(request,))
    return None


def named_by_cdi(gpu: GpuAccess, engine: Mapping[str, Any]) -> str | None:
    """Return the CDI name of this GPU; None if the engine knows none."""
    discovered = {str(one.get("ID")) for one in engine.get("DiscoveredDevices") or ()}
    for name in (gpu.uuid, str(gpu.index)):
        if f"{CDI_KIND}={name}" in discovered or _in_files(name, map(Path, engine.get("CDISpecDirs") or ())):
            return f"{CDI_KIND}={name}"
    return None


def _in_files(name: str, directories: Iterable[Path]) -> bool:
    device = re.compile(rf"""\bname["']?:\s*["']?{re.escape(name)}["']?\s*[,}}]?\s*$""", re.MULTILINE)
    for directory in directories:
        for path in sorted((*directory.glob("*.yaml"), *directory.glob("*.json"))):
            text = path.read_text(errors="replace")
            if CDI_KIND in text and device.search(text):
                return True
    return False


def _triton(gpu: GpuAccess) -> Bind:
    return Bind(source=gpu.triton_dir, target=TRITON)


def _libraries_at(directory: str) -> tuple[tuple[str, str], ...]:
    return ("LD_LIBRARY_PATH", directory), ("TRITON_LIBCUDA_PATH", directory)
