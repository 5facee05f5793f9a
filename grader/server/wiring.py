"""Puts together what grades: an isolation on this host and a fleet on it, or the workers of others."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from grader import devices, extensions
from grader.artifacts import ArtifactCache, SubmissionFiles
from grader.config import Settings
from grader.dispatch.dispatcher import Grade
from grader.dispatch.gpus import Gpu, discover, why_unusable
from grader.dispatch.host_breaker import HostBreaker, grade_own
from grader.dispatch.lanes import JudgeMaker, JudgeProcess
from grader.dispatch.local_fleet import LocalFleet
from grader.errors import HostBroken, SettingsInvalid
from grader.isolation import IsolationBroken
from grader.isolation.cgroups import read_text
from grader.isolation.directories import leave_runtime
from grader.isolation.memory_toolchain import MemoryToolchain, MemoryToolchainUnavailable, find_place
from grader.isolation.processes import read_host_memory
from grader.isolation.select import ObservedIsolation, choose
from grader.isolation.settings import BoxSettings
from grader.observability.observer import LaneNow, Observer, WarmNow
from sandbox.protocol import box_modules, wire

WARM_MORE = 2  # boxes that wait, next to one for each lane: a queue has several languages
TOOLCHAIN_PAUSE_S = 10.0  # before it is said that there is no copy: the submission is taken again at once, with a box and a build

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """Grading by this host or by others. capacity: how many attempts may be under way, builds and runs together. device_kinds: what a
    submission may ask for. Both may change where workers come and go."""

    grade: Grade
    capacity: Callable[[], int]
    device_kinds: Callable[[], tuple[str, ...]]
    ready_kinds: Callable[[], tuple[str, ...]] | None = None  # those of them that can be graded now; None: all
    isolation: str
    safe: bool  # whether strangers' kernels may be run
    lanes: Callable[[], Sequence[LaneNow]] = tuple
    cordon: Callable[[Collection[str]], None] = lambda _: None  # which lanes, and which workers, get nothing more from now on
    fault: Callable[[], str] = str  # why nothing can be graded now; "" where it can
    proved: Callable[[], Awaitable[str]] | None = None  # the same, once the host has tried to grade a kernel of its own; None: it does not
    observe: Callable[[Observer], None] = lambda _: None  # tell it of boxes from now on
    warm: Callable[[], WarmNow] = WarmNow
    prepare: Callable[[Sequence[wire.ProblemSpec]], None] = lambda _: None  # have baselines of these problems ready, in the background


Wiring = extensions.Fleet


def wired(settings: Settings, *, proving: bool = True, make_judge: JudgeMaker = JudgeProcess) -> AbstractAsyncContextManager[Grading]:
    """Return what grades, as the settings ask: this host's isolation and devices, or the fleet of an installed package.
    proving: see `local`."""
    if settings.fleet == "local":
        return local(settings, proving=proving, make_judge=make_judge, trusted=trusts_callers(settings))
    fleet: Wiring | None = extensions.part(extensions.FLEETS, settings.fleet)
    if fleet is None:
        raise SettingsInvalid("fleet", f"no installed package has the fleet {settings.fleet!r}; {extensions.HOW_TO_INSTALL}")
    return fleet(settings)


def trusts_callers(settings: Settings) -> bool:
    """Return whether callers are this host's own, and no competition keeps anything from them."""
    return settings.loopback and not settings.asks_keys and not settings.competitions


@asynccontextmanager
async def local(
    settings: Settings, *, proving: bool = True, make_judge: JudgeMaker = JudgeProcess, trusted: bool = False
) -> AsyncIterator[Grading]:
    """This host's isolation and devices; boxes of an earlier server are swept on the way in.
    proving: nothing is taken before every lane has graded a kernel of the grader's own. trusted: the toolchain is copied to memory when a
    submission first meets a competition's secrets."""
    gpus = chosen_gpus(settings.device)
    boxes = replace(box_settings(settings), yields_cores=bool(gpus))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, leave_runtime, boxes)
        # A process shares the host's files anyhow: only of boxes anything is claimed.
        wanted = False if settings.sandbox == "process" else settings.resident_toolchain
        cores, memory_bytes = build_resources()
        try:
            if wanted:
                await asyncio.to_thread(find_place, boxes, limit_bytes=memory_bytes)
        except MemoryToolchainUnavailable as error:
            raise SettingsInvalid("resident_toolchain", str(error)) from error
        except OSError as error:
            remedy = "when no packages are being installed, or without --resident-toolchain"
            raise IsolationBroken(f"the toolchain can't be kept in memory: {error}; start again {remedy}") from error
        cache = ArtifactCache(settings.cache_path, settings.cache_bytes) if settings.cache_bytes else None
        isolation, availability = await choose(settings.sandbox, boxes)
        observed = ObservedIsolation(isolation)
        resident = MemoryToolchain(
            boxes,
            isolation,
            wanted=wanted,
            on_adoption=lambda: fleet.end_waiting(),  # noqa: PLW0108  there is no fleet yet
            limit_bytes=memory_bytes,
        )
        stack.push_async_callback(resident.close)
        stack.push_async_callback(isolation.close)
        log.info("isolation_chosen", isolation=isolation.NAME, detail=availability.detail, warnings=availability.warnings)
        emulated_count = settings.lanes if box_modules.has_emulated() else 0
        log.info("devices_found", gpus=[f"{gpu.index}: {gpu.name}" for gpu in gpus], emulated_count=emulated_count)
        if not gpus and not emulated_count:
            raise SettingsInvalid("device", f"no GPU is used here, and {box_modules.MISSING}")
        count = settings.builders or builder_count(cores, memory_bytes, gpu_count=len(gpus), emulated_count=emulated_count)
        log.info("builders_chosen", count=count, computed=settings.builders is None, cores=cores, memory_bytes=memory_bytes)
        warm_count = emulated_count + len(gpus) + WARM_MORE if settings.warm_boxes is None else settings.warm_boxes
        fleet = LocalFleet(
            isolation=observed,
            settings=boxes,
            gpus=gpus,
            default=None if settings.device == "auto" else settings.device,
            lane_count=emulated_count,
            builder_count=count,
            warm_count=warm_count,
            cache=cache,
            files=SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes),
            make_judge=make_judge,
            before_secret=partial(await_toolchain, resident),
        )
        if wanted is not None or not trusted:
            resident.begin()
        async with fleet, host_breaker(fleet, proving=proving) as breaker:
            yield Grading(
                grade=breaker.grade,
                capacity=lambda: 0 if breaker.fault else fleet.capacity,
                device_kinds=fleet.device_kinds,
                ready_kinds=lambda: () if breaker.fault else fleet.ready_kinds(),
                isolation=isolation.NAME,
                safe=isolation.SAFE,
                lanes=fleet.lanes,
                cordon=fleet.cordon,
                fault=lambda: breaker.fault,
                proved=breaker.proved if proving else None,
                observe=observed.observe,
                warm=fleet.warm,
                prepare=fleet.prepare,
            )


async def await_toolchain(resident: MemoryToolchain) -> None:
    """Wait until boxes see the copy; HostBroken, which is not counted, where it is asked for and can't be made, or was not adopted."""
    try:
        await resident.ready()
    except Exception as error:  # whatever it is, no submission is at fault
        log.error("toolchain_not_ready", reason=f"{type(error).__name__}: {error}")
        await asyncio.sleep(TOOLCHAIN_PAUSE_S)
        raise HostBroken(f"secret workloads wait for a copy of the toolchain in memory: {error}") from error


def host_breaker(fleet: LocalFleet, *, proving: bool) -> HostBreaker:
    """Return what stops a host's fleet from taking submissions while it can't grade."""

    async def check() -> str:
        availability = await fleet.isolation.check()
        return "" if availability.usable else f"boxes do not work: {availability.detail}"

    return HostBreaker(fleet.grade, check, partial(grade_own, fleet) if proving else None)


def box_settings(settings: Settings) -> BoxSettings:
    """Where this server's boxes live: the same place after a restart, so that strays are found."""
    state_id = hashlib.sha256(str(settings.state_dir.resolve()).encode()).hexdigest()[:12]
    # Not below the state directory: a box's uid must get here, and a home directory is closed to it.
    runtime_dir = Path(tempfile.gettempdir()) / f"grader-{os.geteuid()}-{state_id}"
    runtime_dir.mkdir(mode=0o711, exist_ok=True)
    if runtime_dir.is_symlink() or runtime_dir.stat().st_uid != os.geteuid():
        raise SettingsInvalid("state_dir", f"{runtime_dir} belongs to somebody else; remove it, or set TMPDIR to a directory of your own")
    competitions = (path if path.is_dir() else path.parent for path in settings.competitions)  # what is covered is a directory
    hidden_paths = (*settings.problems, *competitions, settings.imported_path, settings.cache_path, settings.submission_files_path)
    engine = os.environ.get("DOCKER_HOST")
    return BoxSettings(
        state_id=state_id, runtime_dir=runtime_dir, docker_host=engine, box_root=settings.box_root, hidden_paths=hidden_paths
    )


def chosen_gpus(
    choice: str, find: Callable[[], tuple[Gpu, ...]] = discover, why_not: Callable[[], str | None] = why_unusable
) -> tuple[Gpu, ...]:
    """The GPUs that a server with this `device` setting grades on; SettingsInvalid where it asks for one and there is none."""
    if choice == devices.EMULATED:
        return ()
    gpus = find()
    reason = why_not() if gpus else None
    if choice == "auto":
        if reason is not None:
            log.warning("gpus_not_used", count=len(gpus), reason=reason)
        return () if reason is not None else gpus
    if reason is not None:
        raise SettingsInvalid("device", f"{choice!r} can't be used: {reason}")
    fitting = tuple(gpu for gpu in gpus if devices.fits(choice, gpu.index, gpu.name))
    if not fitting:
        here = ", ".join(devices.offered(((gpu.index, gpu.name) for gpu in gpus), emulated=box_modules.has_emulated()))
        hint = "" if gpus else " (no GPU was found: the NVIDIA driver or the package nvidia-ml-py may be missing)"
        raise SettingsInvalid("device", f"{choice!r} is not here{hint}; take one of: auto, {here}")
    return fitting


# The number of builds that a host does at once, where `--builders` does not set it.

GPU_LANE_CORES = 2  # the judge's and the kernel's, each of which has a core of its own while something is timed
GPU_HOST_BUILD_CORES = 2  # nvcc compiles for the device and for the host side by side
FEWEST, MOST = 2, 16  # two hide each other's waiting; a GPU host may have one
BUILD_BYTES = 4 << 30  # half of what a build box may take: few builds take more, and not at the same time


def builder_count(cores: int, memory_bytes: int, *, gpu_count: int, emulated_count: int) -> int:
    """How many builds leave each GPU lane its cores, and each emulated lane one."""
    cores -= GPU_LANE_CORES * gpu_count + emulated_count
    wanted = max(1, cores // GPU_HOST_BUILD_CORES) if gpu_count else max(FEWEST, cores)
    return min(wanted, MOST, max(1, memory_bytes // BUILD_BYTES))


def build_resources(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> tuple[int, int]:
    """The cores, and the bytes of memory, that this process may use, by its affinity and the limits of its cgroup and those above it."""
    cores, memory_bytes = float(len(os.sched_getaffinity(0))), read_host_memory(proc).total_bytes
    for directory in _cgroup_directories(proc, cgroups):
        quota, _, period = read_text(directory / "cpu.max").strip().partition(" ")  # v2: "150000 100000", or "max 100000"
        quota = quota or read_text(directory / "cpu.cfs_quota_us").strip()  # v1: -1 for none
        period = period or read_text(directory / "cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period):
            cores = min(cores, int(quota) / int(period))
        for name in ("memory.max", "memory.limit_in_bytes"):
            if (limit := read_text(directory / name).strip()).isdigit():
                memory_bytes = min(memory_bytes, int(limit))
    return max(1, int(cores)), memory_bytes


def _cgroup_directories(proc: Path, cgroups: Path) -> Iterator[Path]:
    """The process's cgroups and all above them, v1 and v2. In a container the paths may be those of the host; then only the top exists."""
    for line in read_text(proc / "self" / "cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        top = cgroups / controllers if controllers else cgroups
        directory = top / path.lstrip("/")
        yield from (ancestor for ancestor in (directory, *directory.parents) if ancestor.is_relative_to(top) and ".." not in ancestor.parts)
