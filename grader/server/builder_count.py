"""How many builds a host does at once, where `--builders` does not say it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.isolation.processes import read_host_memory

CGROUPS = Path("/sys/fs/cgroup")
GPU_LANE_CORES = 2  # the judge's and the kernel's, each of which has a core of its own while something is timed
GPU_HOST_BUILD_CORES = 2  # nvcc compiles for the device and for the host side by side
FEWEST, MOST = 2, 16  # two hide each other's waiting; a GPU host may have one
BUILD_BYTES = 4 << 30  # half of what a build box may take: few builds take more, and not at the same time


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResources:
    """What this process may use of its host."""

    cores: int
    memory_bytes: int


def builder_count(resources: BuildResources, *, gpu_count: int, emulated_count: int) -> int:
    """How many builds leave each GPU lane its cores, and each emulated lane one."""
    cores = resources.cores - GPU_LANE_CORES * gpu_count - emulated_count
    wanted = max(1, cores // GPU_HOST_BUILD_CORES) if gpu_count else max(FEWEST, cores)
    return min(wanted, MOST, max(1, resources.memory_bytes // BUILD_BYTES))


def build_resources(proc: Path = Path("/proc"), cgroups: Path = CGROUPS) -> BuildResources:
    """Look at the process's affinity, and at the limits of its cgroup and of those above it."""
    cores, memory_bytes = float(len(os.sched_getaffinity(0))), read_host_memory(proc).total_bytes
    for directory in _cgroup_directories(proc, cgroups):
        quota, _, period = _text(directory / "cpu.max").partition(" ")  # v2: "150000 100000", or "max 100000"
        quota = quota or _text(directory / "cpu.cfs_quota_us")  # v1: -1 for none
        period = period or _text(directory / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, int(quota) / int(period))
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (limit := _text(directory / name)).isdigit():
                memory_bytes = min(memory_bytes, int(limit))
    return BuildResources(cores=max(1, int(cores)), memory_bytes=memory_bytes)


def _cgroup_directories(proc: Path, cgroups: Path) -> Iterator[Path]:
    """The process's cgroups and all above them, v1 and v2. In a container the paths may be those of the host; then only the top exists."""
    for line in _text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = cgroups / controllers if controllers else cgroups
        directory = top / path.lstrip("/")
        yield from (one for one in (directory, *directory.parents) if one.is_relative_to(top) and ".." not in one.parts)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
