"""Finds the NVIDIA driver's side of a GPU box: the device nodes, and the libraries that fit the kernel module.

Reads files and asks ldconfig; never loads the driver, never makes a node.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from grader.isolation import IsolationBroken

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
    """What of the host a GPU box needs.

    nodes: of one GPU and no other; the names are the same inside.
    directory: where `libraries` lie; it may hold much else.
    version: None where neither the kernel module nor the file names say.
    """

    nodes: tuple[Path, ...]
    directory: Path
    libraries: tuple[Path, ...]
    version: str | None = None

    @property
    def common(self) -> bool:
        """Whether the loader finds the libraries without a search path."""
        return self.directory in COMMON_DIRECTORIES


def find(minor: int, *, root: Path = Path("/"), library_path: str | None = None, loader_cache: str | None = None) -> DriverFiles:
    """Return what a box needs for the GPU with node /dev/nvidia{minor}; raises DriverMissing.

    root: where the host's files are looked for. library_path: LD_LIBRARY_PATH. loader_cache: what `ldconfig -p` prints.
    """
    wanted = kernel_version(root)
    nodes = tuple(_node(root, name, minor) for name in (f"nvidia{minor}", "nvidiactl", "nvidia-uvm"))
    named = os.environ.get("LD_LIBRARY_PATH", "") if library_path is None else library_path
    cached = _loader_cache() if loader_cache is None else loader_cache
    refused = []
    for directory in _candidates(root, named, cached):
        versions = _versions(directory)
        if wanted is None or wanted in versions:
            version = wanted or next(iter(versions), None)
            return DriverFiles(nodes=nodes, directory=directory, libraries=_libraries(directory), version=version)
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
        found = KERNEL_VERSION.search((root / "proc/driver/nvidia/version").read_text())
    except OSError:
        return None
    return found[1] if found else None


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


def _loader_cache() -> str:
    try:
        asked = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=LDCONFIG_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout


def _candidates(root: Path, library_path: str, loader_cache: str) -> list[Path]:
    """Return the directories that hold a libcuda, the likeliest first."""
    listed = [line for line in loader_cache.splitlines() if LIBCUDA in line and "x86-64" in line and "=>" in line]
    cached = [str(Path(line.rpartition("=>")[2].strip()).parent) for line in listed]
    named = [one for one in library_path.split(":") if one.startswith("/")]
    places = dict.fromkeys(root / place.lstrip("/") for place in (*named, *cached, *DIRECTORIES))
    return [place for place in places if (place / LIBCUDA).is_file()]


def _versions(directory: Path) -> tuple[str, ...]:
    """Return what the loader's libcuda is; where its file does not say, what those next to it are."""
    own = FILE_VERSION.match((directory / LIBCUDA).resolve().name)
    if own:
        return (own[1],)
    return tuple(found[1] for path in sorted(directory.glob("libcuda.so.*")) if (found := FILE_VERSION.match(path.name)))


def _libraries(directory: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in directory.glob("lib*.so*") if path.name.startswith(LIBRARIES) and path.is_file()))
