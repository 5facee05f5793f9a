"""What these tools ask of the host: its GPUs, their memory, the boxes that live, the commit.  Touches no GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import docker
import docker.errors

from grader.dispatch.gpus import Gpu, discover
from grader.isolation import container

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
BOX_PROGRAMS = (b"sandbox.runner.run", b"sandbox.builder.build")
COMMAND_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is in use. memory_mib: of each GPU, by all processes; containers: of one server; None: no engine answers."""

    memory_mib: tuple[float, ...]
    containers: int | None
    box_processes: int

    @property
    def boxes(self) -> int:
        """How many boxes there are: a server's containers, or where there is no engine the processes of all servers."""
        return self.box_processes if self.containers is None else self.containers


def look(state_id: str) -> Left:
    """What is in use now, and of that server."""
    return Left(memory_mib=memory_mib(), containers=container_count(state_id), box_processes=box_process_count())


def memory_mib() -> tuple[float, ...]:
    """How much of each GPU's memory is in use, in PCI order; nothing where there is no GPU."""
    gpus = discover()
    if not gpus:
        return ()
    nvml: Any = import_module("pynvml")
    nvml.nvmlInit()
    try:
        return tuple(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)).used / MIB for gpu in gpus)
    finally:
        nvml.nvmlShutdown()


def container_count(state_id: str) -> int | None:
    """How many containers of that server there are, also dead ones."""
    try:
        client = docker.APIClient(version="auto", timeout=int(COMMAND_S))
        try:
            return len(client.containers(all=True, filters={"label": f"{container.STATE_LABEL}={state_id}"}))
        finally:
            client.close()
    except (docker.errors.DockerException, OSError):
        return None


def box_process_count() -> int:
    """How many processes run a box's program, whatever keeps them in. Those of other users' servers count too."""
    found = 0
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile
            continue
        found += any(word in BOX_PROGRAMS for word in words)
    return found


def gpu_environment(gpu: Gpu | None) -> dict[str, str]:
    """This process's environment for a child that is to see only that GPU."""
    if gpu is None:
        return dict(os.environ)
    return {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def facts() -> dict[str, str]:
    """Device, driver, compilers and packages, as far as they can be asked without a GPU of one's own."""
    gpus = discover()
    named = ", ".join(f"{gpu.index}: {gpu.name} ({gpu.memory_bytes / 2**30:.0f} GiB)" for gpu in gpus)
    return {
        "device": named or "no GPU",
        "driver": gpus[0].driver if gpus else "",
        "nvcc": _nvcc(),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "cores": str(len(os.sched_getaffinity(0))),
        "commit": commit(),
    }


def commit() -> str:
    """The commit of this tree, and whether it was changed since."""
    head = _output(["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"])
    if not head:
        return "unknown: this tree is no git repository"
    return f"{head} and changes" if _output(["git", "-C", str(ROOT), "status", "--porcelain"]) else head


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "without metadata"


def _nvcc() -> str:
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
    said = _output(["nvcc" if shutil.which("nvcc") else str(toolkit), "--version"])
    return next((line.rsplit(", ", 1)[-1] for line in said.splitlines() if "release" in line), "none")


def _output(command: list[str]) -> str:
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
