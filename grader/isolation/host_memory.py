"""Watches for host memory that a GPU box takes through the driver, where the kernel's own limits may not count it.

The driver's pages belong to no process, no cache and no cgroup (`nv-vm.c` allocates them without __GFP_ACCOUNT), but their sum shows
in /proc/meminfo: what is neither free nor in any of its categories. Others' boxes take such memory too, so one sign is not enough.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.isolation import processes

WATCH_S = 0.1  # the driver clears its pages, so about a gigabyte at most comes between two looks
SCARCE_BYTES, SCARCE_SHARE = 2 << 30, 0.05
# Every page that is not in one of these is a driver's. Shmem is in Cached, Mlocked in AnonPages; HugePages are counted by themselves.
CATEGORIES = (
    "MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack", "PageTables", "SecPageTables", "Percpu", "Hugetlb",
    "Bounce",
)  # fmt: skip
NODE_PREFIX = b"/dev/nvidia"
UVM_PREFIX = b"/dev/nvidia-uvm"  # reserves addresses by the terabyte


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """One look at /proc/meminfo. driver_bytes: what nobody else has."""

    total_bytes: int
    available_bytes: int
    driver_bytes: int

    @property
    def scarce(self) -> bool:
        """Whether the host itself is about to run out."""
        return self.available_bytes < max(SCARCE_BYTES, SCARCE_SHARE * self.total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWatch:
    """The watch over one box.

    members: its processes; asked only where something is amiss already.
    """

    limit_bytes: int
    members: Callable[[], Iterable[int]]
    record_cause: Callable[[], None]
    proc: Path = Path("/proc")

    async def run(self) -> None:
        """Look until the box is to blame, then strike once."""
        start = read_host_memory(self.proc)
        while True:
            await asyncio.sleep(WATCH_S)
            now = read_host_memory(self.proc)
            if amiss(start, now, self.limit_bytes):
                own_bytes = await asyncio.to_thread(self._own_bytes)
                if to_blame(start, now, own_bytes, self.limit_bytes):
                    self.record_cause()
                    return

    def _own_bytes(self) -> int:
        seen = processes.table()
        inside = {pid for pid in self.members() if pid in seen}
        return processes.memory_bytes(inside, seen, self.limit_bytes) + mapped_bytes(inside, self.proc)


def amiss(start: HostMemory, now: HostMemory, limit_bytes: int) -> bool:
    """Whether it is worth asking whose memory it is."""
    return now.scarce or _grown(start, now, limit_bytes)


def to_blame(start: HostMemory, now: HostMemory, own_bytes: int, limit_bytes: int) -> bool:
    """Whether two of three signs hold: the driver holds more than when the box began, by more than the box may have; the box's own
    processes have as much in sight, resident or mapped from the driver; the host is nearly out of memory.
    """
    return sum((_grown(start, now, limit_bytes), own_bytes > limit_bytes, now.scarce)) >= 2


def _grown(start: HostMemory, now: HostMemory, limit_bytes: int) -> bool:
    return now.driver_bytes - start.driver_bytes > limit_bytes


def read_host_memory(proc: Path = Path("/proc")) -> HostMemory:
    """Look once; costs some microseconds."""
    counted = {}
    for line in (proc / "meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            counted[name] = int(words[0]) << 10
    total = counted["MemTotal"]
    return HostMemory(
        total_bytes=total,
        available_bytes=counted["MemAvailable"],
        driver_bytes=total - sum(counted.get(name, 0) for name in CATEGORIES),
    )


def mapped_bytes(pids: Iterable[int], proc: Path = Path("/proc")) -> int:
    """Return how much these processes have mapped from the driver's nodes.  It is not resident memory for the kernel."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in (proc / str(pid) / "maps").read_bytes().splitlines():
                addresses, *_, name = line.split(maxsplit=5)
                if name.startswith(NODE_PREFIX) and not name.startswith(UVM_PREFIX):
                    begin, _, end = addresses.partition(b"-")
                    total += int(end, 16) - int(begin, 16)
    return total
