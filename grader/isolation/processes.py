"""Reads /proc: finds and ends processes by descent, by uid and by the label in their environment, and watches the host's memory."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.isolation import IsolationBroken
from grader.isolation.settings import BoxSettings

STATE_VARIABLE, SERVER_VARIABLE, BOX_VARIABLE = "GRADER_BOX_STATE", "GRADER_BOX_SERVER", "GRADER_BOX_ID"
GONE_WITHIN_S = 5.0
DEAD = frozenset("ZX")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
WATCH_S = 0.1  # the driver clears its pages, so about a gigabyte at most comes between two looks
SCARCE_BYTES, SCARCE_SHARE = 2 << 30, 0.05
# Every page that is not in one of these is a driver's. Shmem is in Cached, Mlocked in AnonPages; HugePages are counted by themselves.
CATEGORIES = (
    "MemFree", "Buffers", "Cached", "SwapCached", "AnonPages", "Slab", "KernelStack", "PageTables", "SecPageTables", "Percpu", "Hugetlb",
    "Bounce",
)  # fmt: skip
NODE_PREFIX = b"/dev/nvidia"
UVM_PREFIX = b"/dev/nvidia-uvm"  # reserves addresses by the terabyte


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """A line of the process table."""

    parent: int
    session: int
    state: str
    thread_count: int
    resident_bytes: int


def labels(settings: BoxSettings, box_id: str) -> dict[str, str]:
    """Return the variables by which `sweep` knows a box's processes."""
    return {STATE_VARIABLE: settings.state_id, SERVER_VARIABLE: settings.run_id, BOX_VARIABLE: box_id}


def table() -> dict[int, ProcessFacts]:
    """Return the live processes of this host that we can see."""
    return {pid: facts for pid, facts in everything().items() if facts.state not in DEAD}


def everything() -> dict[int, ProcessFacts]:
    """Return the processes of this host that we can see, with those that have died and wait to be reaped."""
    facts_by_pid = {}
    for pid in _pids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            facts_by_pid[pid] = facts_of(pid)
    return facts_by_pid


def _pids() -> Iterator[int]:
    # Here and below without Path, which took most of the server's time for a box: each box looks at every process of the host.
    return map(int, filter(str.isdecimal, os.listdir("/proc")))  # noqa: PTH208


def _read(path: str, most_bytes: int = 4096) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, most_bytes)
    finally:
        os.close(descriptor)


def facts_of(pid: int) -> ProcessFacts:
    """Return a line of the process table; OSError if the process is gone."""
    # The name of a process is its own choice and may hold anything, so count from its last bracket.
    words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return ProcessFacts(int(words[1]), int(words[3]), words[0].decode(), int(words[17]), int(words[21]) * PAGE_BYTES)


def descendants(root: int, processes: dict[int, ProcessFacts]) -> set[int]:
    """Return `root` and everything below it, and whatever else is in its session."""
    children: dict[int, list[int]] = {}
    for pid, facts in processes.items():
        children.setdefault(facts.parent, []).append(pid)
    pids = {pid for pid, facts in processes.items() if pid == root or facts.session == root}
    waiting = list(pids | {root})
    while waiting:
        below = [pid for pid in children.get(waiting.pop(), []) if pid not in pids]
        pids.update(below)
        waiting += below
    return pids


def of_uid(uid: int, among: Iterable[int] | None = None) -> set[int]:
    """Return the processes of a uid, of those given or else of the live ones."""
    pids = set()
    for pid in _pids() if among is None else among:
        with contextlib.suppress(OSError, ValueError, IndexError):
            if os.stat(f"/proc/{pid}").st_uid == uid and (among is not None or facts_of(pid).state not in DEAD):  # noqa: PTH116
                pids.add(pid)
    return pids


def memory_bytes(pids: Iterable[int], processes: dict[int, ProcessFacts], limit_bytes: int) -> int:
    """Return the memory that these processes hold.  Cheap while it is under the limit; exact above, where shared pages must count once."""
    resident = {pid: processes[pid].resident_bytes for pid in pids}
    if sum(resident.values()) <= limit_bytes:
        return sum(resident.values())
    return sum(_proportional_bytes(pid, otherwise=resident[pid]) for pid in resident)


def _proportional_bytes(pid: int, *, otherwise: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return otherwise


def labelled(**wanted: str) -> dict[int, dict[str, str]]:
    """Return the processes whose environment began with these variables, with that environment."""
    environments, values = {}, [value.encode() for value in wanted.values()]
    for pid in _pids():
        with contextlib.suppress(OSError):
            content = _read(f"/proc/{pid}/environ", 1 << 16)  # which may be 6 MB of each process in a box
            if not all(value in content for value in values):  # nearly every process
                continue
            environment = dict(entry.split("=", 1) for entry in content.decode(errors="replace").split("\0") if "=" in entry)
            if all(environment.get(name) == value for name, value in wanted.items()):
                environments[pid] = environment
    return environments


def strangers(settings: BoxSettings) -> dict[int, str]:
    """Return the processes of boxes of earlier servers with this state directory, each with its box."""
    return {
        pid: environment.get(BOX_VARIABLE, "")
        for pid, environment in labelled(**{STATE_VARIABLE: settings.state_id}).items()
        if environment.get(SERVER_VARIABLE) != settings.run_id
    }


def end_all(find: Callable[[], set[int]]) -> None:
    """Kill what `find` finds until it finds nothing; stopped first, so that a fork loop cannot outrun us."""
    until = time.monotonic() + GONE_WITHIN_S
    while pids := find():
        if time.monotonic() > until:
            raise IsolationBroken(f"processes {sorted(pids)} of a box do not die; a device driver may hold them")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in filter(None, pids):  # 0, one of another PID namespace, would be all of our own group
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        time.sleep(0.001)


def kill(descriptor: int) -> None:
    """Kill the process that a pidfd stands for."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def await_end(descriptor: int) -> None:
    """Wait until the process that a pidfd stands for has ended."""
    if not select.select([descriptor], [], [], GONE_WITHIN_S)[0]:
        raise IsolationBroken("a box's first process does not die; a device driver may hold it")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """Contents of /proc/meminfo. driver_bytes: the bytes that are in no other category."""

    total_bytes: int
    available_bytes: int
    driver_bytes: int

    @property
    def scarce(self) -> bool:
        """Return whether the host itself is about to run out."""
        return self.available_bytes < max(SCARCE_BYTES, SCARCE_SHARE * self.total_bytes)


async def exceeds_host_memory(limit_bytes: int, members: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
    """Return once a GPU box takes too much host memory through the driver, where the kernel's own limits may not count it.

    The driver's pages belong to no process, no cache and no cgroup (`nv-vm.c` allocates them without __GFP_ACCOUNT), but their sum shows
    in /proc/meminfo: what is neither free nor in any of its categories. Others' boxes take such memory too, so one sign is not enough.
    members: the box's processes; read only where something is amiss already.
    """

    def own_bytes() -> int:
        processes = table()
        inside = {pid for pid in members() if pid in processes}
        return memory_bytes(inside, processes, limit_bytes) + mapped_bytes(inside, proc)

    start = read_host_memory(proc)
    while True:
        await asyncio.sleep(WATCH_S)
        now = read_host_memory(proc)
        amiss = now.scarce or _grown(start, now, limit_bytes)  # else it is not worth asking whose memory it is
        if amiss and to_blame(start, now, await asyncio.to_thread(own_bytes), limit_bytes):
            return


def to_blame(start: HostMemory, now: HostMemory, own_bytes: int, limit_bytes: int) -> bool:
    """Return whether two of three signs hold: the driver holds more than when the box began, by more than the box may have; the box's own
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
