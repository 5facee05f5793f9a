"""Gives a box one GPU: finds the driver's device nodes and the libraries that fit the kernel module, and grants them.

Reads files and asks ldconfig; never loads the driver, never makes a node.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.isolation import GpuAccess, IsolationBroken
from grader.isolation.toolchain import BindMount, in_memory

LIBCUDA = "libcuda.so.1"
# What compute needs (the list of NVIDIA's own container toolkit). Not libnvidia-ml: a box has no business with clocks and other processes.
LIBRARIES = (
    "libcuda.so", "libnvidia-ptxjitcompiler.so", "libnvidia-nvvm", "libnvidia-gpucomp.so", "libnvidia-tileiras",
    "libnvidia-fatbinaryloader.so", "libnvidia-compiler", "libnvidia-pkcs11",
)  # fmt: skip
DIRECTORIES = (
    "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib",
)  # fmt: skip
# The loader looks here by itself, and much else lies here, so that these never go into LD_LIBRARY_PATH.
COMMON_DIRECTORIES = frozenset(
    map(Path, ("/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib", "/lib"))
)
LDCONFIG_TIMEOUT_S = 10
KERNEL_VERSION = re.compile(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s")
FILE_VERSION = re.compile(r"libcuda\.so\.(\d+(?:\.\d+)+)$")
READ_WRITE_FOR_ALL = stat.S_IROTH | stat.S_IWOTH


class DriverMissing(IsolationBroken):
    """This host cannot give a box a GPU; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFiles:
    """Files of the host that a GPU box needs.

    nodes: of one GPU and no other; the names are the same inside.
    directory: where `libraries` lie; it may hold much else.
    """

    nodes: tuple[Path, ...]
    directory: Path
    libraries: tuple[Path, ...]


def find_driver(minor: int, *, root: Path = Path("/"), library_path: str | None = None, loader_cache: str | None = None) -> DriverFiles:
    """Return what a box needs for the GPU with node /dev/nvidia{minor}; raises DriverMissing.

    root: where the host's files are looked for. library_path: LD_LIBRARY_PATH. loader_cache: what `ldconfig -p` prints.
    """
    wanted, refused = kernel_version(root), []
    nodes = tuple(_node(root, name, minor) for name in (f"nvidia{minor}", "nvidiactl", "nvidia-uvm"))
    if loader_cache is None:
        try:
            ldconfig = ["/sbin/ldconfig", "-p"]
            loader_cache = subprocess.run(ldconfig, capture_output=True, text=True, timeout=LDCONFIG_TIMEOUT_S, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            loader_cache = ""
    listed = [line for line in loader_cache.splitlines() if LIBCUDA in line and "x86-64" in line and "=>" in line]
    cached = [str(Path(line.rpartition("=>")[2].strip()).parent) for line in listed]
    search_path = os.environ.get("LD_LIBRARY_PATH", "") if library_path is None else library_path
    named = [path for path in search_path.split(":") if path.startswith("/")]
    for directory in dict.fromkeys(root / place.lstrip("/") for place in (*named, *cached, *DIRECTORIES)):  # the likeliest first
        if not (directory / LIBCUDA).is_file():
            continue
        versions = _versions(directory)
        if wanted is None or wanted in versions:
            libraries = sorted(path for path in directory.glob("lib*.so*") if path.name.startswith(LIBRARIES) and path.is_file())
            return DriverFiles(nodes=nodes, directory=directory, libraries=tuple(libraries))
        refused.append(f"{directory} has {' and '.join(versions) or 'one without a version'}")
    if refused:
        raise DriverMissing(
            f"the driver's kernel module is {wanted}, but of {LIBCUDA} {'; '.join(refused)}; "
            "put the directory of the matching one first in LD_LIBRARY_PATH, or restart the machine after a driver update"
        )
    raise DriverMissing(f"{LIBCUDA} is not on this host; install the driver's libraries, or name their directory in LD_LIBRARY_PATH")


def kernel_version(root: Path = Path("/")) -> str | None:
    """Return the version of the loaded kernel module; None where it does not say."""
    try:
        match = KERNEL_VERSION.search((root / "proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return match[1] if match else None


def _node(root: Path, name: str, minor: int) -> Path:
    path = root / "dev" / name
    try:
        mode = path.stat().st_mode
    except OSError:
        if name == "nvidia-uvm":
            remedy = "the kernel module nvidia-uvm is not loaded: run `nvidia-modprobe -u -c=0` as root"
        else:
            remedy = f"install the NVIDIA driver, or run `nvidia-modprobe -c={minor}` as root"
        raise DriverMissing(f"/dev/{name} is missing; {remedy}") from None
    if mode & READ_WRITE_FOR_ALL != READ_WRITE_FOR_ALL:
        raise DriverMissing(
            f"/dev/{name} is closed to the uids of boxes; run `chmod 0666 /dev/{name}`, or load nvidia with NVreg_DeviceFileMode=0666"
        )
    return path


def _versions(directory: Path) -> tuple[str, ...]:
    """Return the version of the loader's libcuda; where its file does not say, the versions of those next to it."""
    match = FILE_VERSION.match((directory / LIBCUDA).resolve().name)
    if match:
        return (match[1],)
    return tuple(neighbour[1] for path in sorted(directory.glob("libcuda.so.*")) if (neighbour := FILE_VERSION.match(path.name)))


DRIVER, TRITON = "/grader/driver", "/grader/triton"
ALWAYS = (
    ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    ("CUDA_CACHE_DISABLE", "1"),  # nothing that a kernel compiled is there for the next one
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Additions to a box for its GPU; empty for a box without a GPU.

    devices: nodes, readable and writable. binds: read-only.
    """

    devices: tuple[BindMount, ...] = ()
    binds: tuple[BindMount, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


NOTHING = Grant()


def plain(gpu: GpuAccess, driver: DriverFiles, memory_toolchain_dir: Path | None = None) -> Grant:
    """Grant the nodes and the driver's files themselves: no hook, no toolkit.

    The libraries one by one, so that nothing else that lies next to them is in the loader's way; of one that is in the toolchain's copy in
    memory, that copy.
    """
    libraries = tuple(
        in_memory(memory_toolchain_dir, BindMount(source=path.resolve(), target=f"{DRIVER}/{path.name}")) for path in driver.libraries
    )
    return Grant(
        devices=tuple(BindMount(source=node, target=f"/dev/{node.name}") for node in driver.nodes),
        binds=(*libraries, BindMount(source=gpu.triton_dir, target=TRITON)),
        environment=(*ALWAYS, ("CUDA_VISIBLE_DEVICES", "0"), ("TRITON_CACHE_DIR", TRITON), *_libraries_at(DRIVER)),
    )


def shared(gpu: GpuAccess, driver: DriverFiles) -> Grant:
    """Grant a plain process its GPU by name; it could open any other too."""
    directory = str(driver.directory)
    search_path = (("TRITON_LIBCUDA_PATH", directory),) if driver.directory in COMMON_DIRECTORIES else _libraries_at(directory)
    return Grant(environment=(*ALWAYS, ("CUDA_VISIBLE_DEVICES", gpu.uuid), ("TRITON_CACHE_DIR", str(gpu.triton_dir)), *search_path))


def _libraries_at(directory: str) -> tuple[tuple[str, str], ...]:
    return ("LD_LIBRARY_PATH", directory), ("TRITON_LIBCUDA_PATH", directory)
