"""When a GPU box is to blame for host memory that the driver took."""

import asyncio
from pathlib import Path

import pytest

from grader.isolation import processes
from grader.isolation.processes import HostMemory, exceeds_host_memory, mapped_bytes, read_host_memory, to_blame

GIB = 1 << 30
LIMIT = 16 * GIB
QUIET = HostMemory(total_bytes=128 * GIB, available_bytes=100 * GIB, driver_bytes=1 * GIB)
DRIVER_MEMORY = HostMemory(total_bytes=128 * GIB, available_bytes=80 * GIB, driver_bytes=20 * GIB)
NEARLY_OUT = HostMemory(total_bytes=128 * GIB, available_bytes=3 * GIB, driver_bytes=1 * GIB)
TAKEN_ALL = HostMemory(total_bytes=128 * GIB, available_bytes=3 * GIB, driver_bytes=98 * GIB)
MEMINFO = """MemTotal: {total} kB
MemFree: 1000 kB
MemAvailable: {available} kB
Cached: 500 kB
Shmem: 400 kB
AnonPages: 300 kB
Slab: 200 kB
HugePages_Total: 0
"""


@pytest.mark.parametrize(
    ("now", "own_bytes", "blamed"),
    [
        (QUIET, 0, False),
        (QUIET, 20 * GIB, False),  # resident: the kernel counts that, and strikes by itself
        (DRIVER_MEMORY, 0, False),  # another box of this host
        (DRIVER_MEMORY, 20 * GIB, True),
        (NEARLY_OUT, 0, False),  # somebody's program
        (NEARLY_OUT, 20 * GIB, True),
        (TAKEN_ALL, 0, True),  # it has unmapped what it holds, and the host must live
    ],
)
def test_two_signs_are_needed(now: HostMemory, own_bytes: int, blamed: bool) -> None:
    """The driver's share has grown, the box has as much in sight, the host is nearly out."""
    assert to_blame(QUIET, now, own_bytes, LIMIT) is blamed


def test_the_drivers_memory_is_what_nobody_else_has(tmp_path: Path) -> None:
    """Shared memory is in the cache already; counts of pages are no sizes."""
    (tmp_path / "meminfo").write_text(MEMINFO.format(total=5000, available=1500))
    assert read_host_memory(tmp_path) == HostMemory(total_bytes=5000 << 10, available_bytes=1500 << 10, driver_bytes=3000 << 10)


def test_this_hosts_memory_adds_up() -> None:
    """The categories leave little over where no driver takes any."""
    here = read_host_memory()
    assert 0 <= here.driver_bytes < 0.5 * here.total_bytes
    assert 0 < here.available_bytes < here.total_bytes


def test_what_is_mapped_from_the_driver_counts_but_not_what_is_only_reserved(tmp_path: Path) -> None:
    """Unified memory reserves addresses by the terabyte."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "maps").write_text(
        "7f0000000000-7f0040000000 rw-s 00000000 00:06 563 /dev/nvidiactl\n"
        "7f0040000000-7f0080000000 rw-s 00000000 00:06 564 /dev/nvidia0\n"
        "200000000-10200000000 ---s 00000000 00:06 565 /dev/nvidia-uvm\n"
        "7f0090000000-7f00a0000000 rw-p 00000000 00:00 0\n"
        "7f00b0000000-7f00c0000000 r--p 00000000 08:01 9 /usr/lib/a b.so\n"
    )
    assert mapped_bytes((7, 8), tmp_path) == 2 * GIB


async def test_the_watch_strikes_once_the_host_is_nearly_out(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text(
        MEMINFO.format(total=128 << 20, available=100 << 20).replace("AnonPages: 300", f"AnonPages: {120 << 20}")
    )
    running = asyncio.ensure_future(exceeds_host_memory(LIMIT, set, tmp_path))
    await asyncio.sleep(3 * processes.WATCH_S)
    assert not running.done()
    (tmp_path / "meminfo").write_text(MEMINFO.format(total=128 << 20, available=1 << 20))
    await asyncio.wait_for(running, 300)
