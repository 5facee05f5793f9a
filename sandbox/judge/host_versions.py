"""What a judge runs on and with: operating system, CPU, compilers, packages.  Facts of this process and its tools; a kernel's process says
nothing here.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from sandbox.protocol.devices import DeviceKind, device_info

PACKAGES = ("numpy", "triton", "numba", "numba-cuda")
ASK_S = 10.0
CPU_INFO = Path("/proc/cpuinfo")
CUDA_HOME = "/usr/local/cuda"  # as `grader/isolation/toolchain.py` looks for it
_RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def host_versions(kind: DeviceKind, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Names and versions, by what they are of. What this host does not have, or does not say, is left out."""
    found = {
        "os": _system_name(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cudnn": cudnn_version(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "gcc": _answer([*environ.get("CXX", "g++").split(), "-dumpfullversion"]),
        **{name: _package_version(name) for name in PACKAGES},
    }
    if device_info(kind).toolkit_program:
        found["nvcc"] = nvcc_version(_answer([_nvcc(environ), "--version"]))
    return {name: version for name, version in found.items() if version}


def cudnn_version(number: int | None) -> str:
    """cuDNN's number in words: 91002 is 9.10.2, and 8907 is 8.9.7 (cudnn_version.h). "" where there is none."""
    if not number:
        return ""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def nvcc_version(answer: str) -> str:
    """The full version that `nvcc --version` says; "" where it says none."""
    found = _RELEASE.search(answer)
    return found[1] if found else ""


def _nvcc(environ: Mapping[str, str]) -> str:
    homes = (environ.get("CUDA_HOME"), CUDA_HOME)
    return next((f"{home}/bin/nvcc" for home in homes if home and Path(home, "bin", "nvcc").exists()), "nvcc")


def _answer(command: Sequence[str]) -> str:
    """What a tool prints; "" where it is missing, or does not answer."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.system()


def _cpu_model() -> str:
    try:
        found = _MODEL.search(CPU_INFO.read_text("utf-8", "replace"))
    except OSError:
        found = None
    return found[1].strip() if found else platform.machine()
