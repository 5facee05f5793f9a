"""Compilers, devices and isolations of this host.  What does not work comes with the reason and a remedy. Installs nothing."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.config import Settings
from grader.dispatch.gpus import Gpu, discover, why_unusable
from grader.errors import GraderError
from grader.isolation import GpuAccess, IsolationBroken, probe
from grader.isolation.gpu import DriverMissing, find_driver, kernel_version
from grader.isolation.select import make, survey
from grader.isolation.settings import BoxSettings
from grader.isolations import isolations as known_isolations
from grader.server.wiring import Wiring, local
from sandbox.protocol import box_modules

_VERSION_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinding:
    """A compiler, device or isolation that was looked for. remedy: what to do where it is not usable; "" where there is nothing to do."""

    kind: str  # device, isolation, compiler, grading, cache or state
    name: str
    usable: bool
    detail: str
    remedy: str = ""
    warnings: tuple[str, ...] = ()
    required: bool = False


def finding(kind: str, name: str, detail: str, remedy: str = "", *, required: bool = False, warnings: tuple[str, ...] = ()) -> HostFinding:
    """Make a finding: without a remedy it is usable."""
    return HostFinding(kind=kind, name=name, usable=not remedy, detail=detail, remedy=remedy, required=required, warnings=warnings)


def can_grade(findings: list[HostFinding]) -> bool:
    """Return whether there is a device, an isolation, and every compiler that must be."""
    usable = {finding.kind for finding in findings if finding.usable}
    return {"device", "isolation"} <= usable and all(finding.usable for finding in findings if finding.required)


async def compilers() -> list[HostFinding]:
    """Return what kernels are built with."""
    gxx, nvcc = await asyncio.gather(_version("g++"), _version("nvcc"))
    headers, missing = Path(sysconfig.get_path("include")) / "Python.h", "not found in PATH"
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    no_headers = "" if headers.is_file() else f"for the language torch_extension install them (Debian: apt-get install {python}-dev)"
    compiled = Path(sys.prefix) / "share" / "grader-headers"  # where `grader_extensions.fast_torch_build.precompile` puts them
    precompile = "" if any(compiled.glob("*/*.gch")) else f"{sys.executable} -m grader_extensions.fast_torch_build.precompile"
    compiled_detail = "none, so that builds for the emulated device take longer" if precompile else str(compiled)
    no_nvcc = "" if nvcc else "only the device cuda needs it: install the CUDA toolkit where there is a GPU"
    return [
        finding("compiler", "g++", gxx or missing, "" if gxx else "install it (Debian: apt-get install g++)", required=True),
        finding("compiler", "Python headers", f"{headers} is missing" if no_headers else str(headers), no_headers),
        finding("compiler", "compiled headers", compiled_detail, precompile),
        finding("compiler", "nvcc", nvcc or missing, no_nvcc),
    ]


def devices() -> list[HostFinding]:
    """Return what kernels are run on."""
    missing = [name for name in ("torch", "tree_sitter", "tree_sitter_cuda") if importlib.util.find_spec(name) is None]
    missing += [] if box_modules.has_emulated() else ["kernel-grader-extensions"]
    if not missing:
        return [finding("device", "emulated", "CUDA C++ on the CPU; practice, not official")]
    remedy = "make setup, or pip install '.[judge]' ./grader_extensions in a clone"
    return [finding("device", "emulated", f"the Python packages {', '.join(missing)} are missing", remedy)]


async def gpus(isolations: list[HostFinding], find: Callable[[], Sequence[Gpu]] = discover) -> list[HostFinding]:
    """The GPUs of this host; each is tried in a box of the strongest isolation that works."""
    gpus_here = find()
    if not gpus_here:
        return [_no_gpu(kernel_version())]
    isolation = next((finding.name for finding in isolations if finding.usable), None)
    return [await _gpu(gpu, isolation) for gpu in gpus_here]


def _no_gpu(kernel_version: str | None) -> HostFinding:
    if kernel_version is None:
        detail, remedy = "no NVIDIA driver runs here", "grade on the emulated device, or on a machine with an NVIDIA GPU and its driver"
    else:
        detail = f"driver {kernel_version} is loaded, but its management library shows no GPU of ours"
        remedy = "look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES; libnvidia-ml.so.1 has to be found by the loader or in LD_LIBRARY_PATH"
    return finding("device", "cuda", detail, remedy)


async def _gpu(gpu: Gpu, isolation: str | None) -> HostFinding:
    """Look for the libraries and nodes, then start the driver in a box."""
    name, about = f"cuda:{gpu.index}", f"{gpu.name}, {gpu.memory_bytes / 2**30:.0f} GiB, driver {gpu.driver}"
    try:
        files = await asyncio.to_thread(find_driver, gpu.minor)
        about += f", libraries in {files.directory}"
    except DriverMissing as error:
        return finding("device", name, f"{about}: {error}", "see the reason")
    if (reason := why_unusable()) is not None:
        return finding("device", name, f"{about}: {reason}", "see the reason")
    if isolation is None:
        return finding("device", name, f"{about}: no isolation works", "see the isolations below")
    if (failure := await _tried(gpu, isolation)) is not None:
        return finding("device", name, f"{about}: {isolation}: {failure}", "see the reason")
    return finding("device", name, f"{about}, works in a box ({isolation})")


async def _tried(gpu: Gpu, isolation: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="grader-doctor-") as runtime:
        Path(runtime).chmod(0o711)
        triton_dir = Path(runtime) / "triton"
        triton_dir.mkdir()
        box_isolation = make(isolation, BoxSettings(state_id="doctor", runtime_dir=Path(runtime)))
        try:
            access = GpuAccess(index=gpu.index, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor, triton_dir=triton_dir)
            return await probe.failure(box_isolation, access)
        finally:
            await box_isolation.close()


async def isolations() -> list[HostFinding]:
    """Return what keeps kernels in; each is tried with a trivial box."""
    with tempfile.TemporaryDirectory(prefix="grader-doctor-") as runtime:
        Path(runtime).chmod(0o711)  # a box's own uid must get here
        availabilities = await survey(BoxSettings(state_id="doctor", runtime_dir=Path(runtime)))
    return [
        finding("isolation", name, state.detail, "" if state.usable else _isolation_remedy(name), warnings=state.warnings)
        for name, state in availabilities.items()
    ]


def _isolation_remedy(name: str) -> str:
    info = known_isolations()[name]
    if not info.program:
        return info.remedy
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # daemons are not in everybody's PATH
    return info.remedy if shutil.which(info.program, path=path) else f"install it (Debian: apt-get install {info.package})"


async def own_kernel(wiring: Wiring = local) -> HostFinding:
    """Return whether every device of this host grades a kernel of the grader's own, as a server tries before it takes submissions."""
    with tempfile.TemporaryDirectory(prefix="grader-doctor-") as state_dir:
        try:
            async with wiring(Settings(state_dir=Path(state_dir), resident_toolchain=False)) as grading:
                fault = await grading.proved() if grading.proved is not None else ""
        except (GraderError, IsolationBroken) as error:
            fault = str(error)
    remedy = "boxes see the Python environment that grader is installed in; what it needs must be there" if fault else ""
    detail = fault or "built, run and judged, as a server does before it takes submissions"
    return finding("grading", "own kernel", detail, remedy, required=True)


async def _version(program: str) -> str | None:
    path = shutil.which(program)
    if path is None:
        return None
    try:
        process = await asyncio.to_thread(
            subprocess.run, [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"{path}, which does not answer"
    lines = [line for line in process.stdout.decode(errors="replace").splitlines() if line.strip()]
    release = next((line for line in lines if "release" in line), lines[0] if lines else "")
    return f"{path}: {release.strip()}"
