"""How many builds a host does at once: what is left of its cores and its memory."""

import os
from pathlib import Path

import pytest

from grader.server.wiring import MOST, build_resources, builder_count

MANY = 1 << 40
MEMINFO = "MemTotal: 1000000 kB\nMemFree: 1 kB\nMemAvailable: 1 kB\n"


@pytest.mark.parametrize(
    ("cores", "gpu_count", "emulated_count", "count"),
    [
        (1, 0, 1, 2), (2, 0, 1, 2), (8, 0, 1, 7), (8, 0, 4, 4), (128, 0, 1, MOST),
        (2, 1, 1, 1), (16, 1, 1, 6), (32, 4, 1, 11), (128, 8, 1, MOST),
    ],
)  # fmt: skip
def test_builds_follow_cores_and_lanes(cores: int, gpu_count: int, emulated_count: int, count: int) -> None:
    """Two are done where nothing is timed on a device, and one at least anywhere."""
    assert builder_count(cores, MANY, gpu_count=gpu_count, emulated_count=emulated_count) == count


@pytest.mark.parametrize(("gib", "count"), [(1, 1), (4, 1), (8, 2), (24, 6), (1024, 15)])
def test_builds_fit_into_memory(gib: int, count: int) -> None:
    """A builder for each 4 GiB, and one anywhere."""
    assert builder_count(16, gib << 30, gpu_count=0, emulated_count=1) == count


@pytest.mark.parametrize(
    ("groups", "files", "cores", "memory_bytes"),
    [
        ("0::/\n", {}, None, 1_024_000_000),
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, None, 1_024_000_000),
        ("0::/a/b\n", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1, 1_024_000_000),
        ("0::/a\n", {"a/cpu.max": "50000 100000", "a/memory.max": "4096"}, 1, 4096),
        ("1:cpu,cpuacct:/a\n4:memory:/a\n", {f"cpu,cpuacct/cpu.cfs_{name}_us": "100000" for name in ("quota", "period")}, 1, 1_024_000_000),
        ("1:cpu:/a\n4:memory:/a\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, 1_024_000_000),
        ("4:memory:/gone\n", {"memory/memory.limit_in_bytes": "8192"}, None, 8192),
        ("0::/../..\n", {"cpu.max": "5 0"}, None, 1_024_000_000),
    ],
)  # fmt: skip
def test_limits_of_containers_count(tmp_path: Path, groups: str, files: dict[str, str], cores: int | None, memory_bytes: int) -> None:
    """Those of the process's cgroup and of all above it, v1 and v2; none where they say nothing. A quota below a core is one."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(MEMINFO)
    (proc / "self" / "cgroup").write_text(groups)
    for name, text in files.items():
        (cgroups / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroups / name).write_text(text + "\n")
    assert build_resources(proc, cgroups) == (cores or len(os.sched_getaffinity(0)), memory_bytes)
