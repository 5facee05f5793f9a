"""A copy of the host's toolchain in memory, which boxes see in place of the files on disk while a server serves.

Which pages of a file on disk are cached is state that a box changes by reading and the next box can measure by the clock: bits from one box
to the next. All pages of a tmpfs without swap are always there, and so are its directories.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import structlog

from grader.isolation import IsolationBroken
from grader.isolation.directories import remove_tree
from grader.isolation.processes import read_host_memory
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import Toolchain, host_toolchain, mirrored

log = structlog.get_logger()

PLACE, PREFIX = Path("/dev/shm"), "grader-toolchain-"
TMPFS_MAGIC = "tmpfs"
FREE_FACTOR = 3  # so many times the copy's size has to be available
COPIER_COUNT = 4
ToolchainPart = tuple[str, os.stat_result]  # a file, directory or link, and its facts
# What compilers, Python, torch, Triton and CUDA read; the rest of /usr/lib is of other programs.
_LIBRARIES = re.compile(
    r"bfd-plugins|binfmt|ccache|clang.*|compat-ld|cuda.*|gcc.*|gold-ld|llvm.*|locale|nvidia.*|pkgconfig|python3.*|ssl|wsl|[a-z0-9_]+-linux-gnu.*"
)
_NEVER = frozenset({"/usr/share", "/usr/src", "/usr/games", "/usr/local/share", "/usr/local/src", "/usr/local/games"})
_IN_SITE_PACKAGES = ("playwright", "torch/test", "pip", "mypy")


class MemoryToolchainUnavailable(IsolationBroken):
    """The toolchain can't be kept in memory here; the message says why and what to do."""


@asynccontextmanager
async def memory_toolchain(settings: BoxSettings, *, wanted: bool | None, place: Path = PLACE) -> AsyncIterator[Path | None]:
    """The directory of this server's copy, removed at the end; None without one.

    wanted: None makes a copy where there is room, and warns where there is none; True raises MemoryToolchainUnavailable there.
    """
    await asyncio.to_thread(sweep, place)
    directory, lock = place / f"{PREFIX}{settings.state_id}-{settings.run_id}", None
    try:
        if wanted is False:
            raise MemoryToolchainUnavailable("--no-resident-toolchain")
        if settings.image is not None:
            raise MemoryToolchainUnavailable("a box root 'image:NAME' has its own toolchain; leave --resident-toolchain out")
        lock = await asyncio.to_thread(_make_copy, settings, directory)
    except MemoryToolchainUnavailable as error:
        if wanted:
            raise
        log.warning("toolchain_on_disk", reason="box_root is an image" if settings.image else str(error))
    try:
        yield None if lock is None else directory
    finally:
        if lock is not None:
            await asyncio.to_thread(remove_tree, directory)
            os.close(lock)


def sweep(place: Path = PLACE) -> int:
    """Remove the copies whose servers are gone: a live one holds a lock on its directory. Returns how many were removed."""
    count = 0
    for directory in sorted(place.glob(f"{PREFIX}*")):
        with suppress(OSError):
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(directory)
                count += 1
            finally:
                os.close(descriptor)
    return count


def why_not(size_bytes: int, place: Path = PLACE) -> str | None:
    """Why a copy of this size can't be kept in `place`; None where it can."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    kinds = [kind for _, target, kind, *_ in mounts if target == str(place)]  # the last is on top
    if not place.is_dir() or kinds[-1:] != [TMPFS_MAGIC]:
        return f"{place} is not a tmpfs; mount one there"
    if os.statvfs(place).f_flag & os.ST_NOEXEC:
        return f"{place} is mounted noexec; remount it with exec"
    if Path("/proc/swaps").read_text().count("\n") > 1:
        return "this host has swap, to which the copy's pages could go; turn it off with swapoff -a"
    free, available = shutil.disk_usage(place).free, read_host_memory().available_bytes
    if free < size_bytes * 1.1:
        return f"{place} has {free >> 20} MiB free and the copy takes {size_bytes >> 20} MiB; enlarge it with mount -o remount,size="
    if available < FREE_FACTOR * size_bytes:
        return f"{available >> 20} MiB of memory are available, and {FREE_FACTOR} times the copy's {size_bytes >> 20} MiB are asked for"
    return None


def size_of(toolchain: Toolchain) -> int:
    """How many bytes a copy takes."""
    return _size_bytes(_parts(toolchain))


def _size_bytes(parts: Iterable[ToolchainPart]) -> int:
    return sum(facts.st_size for _, facts in parts if stat.S_ISREG(facts.st_mode))


def _make_copy(settings: BoxSettings, directory: Path) -> int:
    """Make the copy; returns the descriptor whose lock says that its server lives."""
    toolchain = host_toolchain(settings.runtime_dir / "etc", settings.hidden_paths)
    parts = list(_parts(toolchain))
    size_bytes = _size_bytes(parts)
    if (reason := why_not(size_bytes, directory.parent)) is not None:
        raise MemoryToolchainUnavailable(f"the toolchain is not kept in memory: {reason}")
    directory.mkdir(mode=0o711)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # `sweep` asks for it alone
        copy(parts, directory)
    except (OSError, IsolationBroken) as error:
        remove_tree(directory)
        os.close(lock)
        raise MemoryToolchainUnavailable(f"the toolchain could not be copied to {directory}: {error}") from error
    log.info("toolchain_in_memory", directory=str(directory), file_count=len(parts), size_mib=size_bytes >> 20)
    return lock


def copy(parts: list[ToolchainPart], directory: Path) -> None:
    """Copy all parts to below `directory`, at their own paths there; OSError where one can't be copied whole."""
    files, directories = [], []
    for source, facts in parts:
        target = mirrored(directory, Path(source))
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if stat.S_ISDIR(facts.st_mode):
            target.mkdir(exist_ok=True, mode=0o755)
            directories.append((target, facts))
        elif stat.S_ISLNK(facts.st_mode):
            target.symlink_to(os.readlink(source))  # noqa: PTH115  as it is, not resolved
        else:
            files.append((source, target))
    with ThreadPoolExecutor(COPIER_COUNT, thread_name_prefix="toolchain") as pool:
        for _ in pool.map(lambda file: _copy_file(*file), files):
            pass
    for target, facts in reversed(directories):  # a directory's time counts for Python's finders
        os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))


def _copy_file(source: str, target: Path) -> None:
    try:
        facts = os.lstat(source)
        shutil.copyfile(source, target)
    except PermissionError:
        return  # boxes have no more rights than we
    except FileNotFoundError:
        if "__pycache__" in source:
            return  # Python replaces these at any time
        raise
    if (size := target.stat().st_size) != facts.st_size:
        raise OSError(f"{source} has {facts.st_size} bytes, and {size} were copied")
    target.chmod(stat.S_IMODE(facts.st_mode) & 0o755)  # nothing is setuid in a box
    os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))


def _parts(toolchain: Toolchain) -> Iterator[ToolchainPart]:
    """Yield what is copied: everything that the binds show, once, less what `left_out` names and what boxes must not see."""
    hidden = frozenset(toolchain.hidden_sources)
    roots: list[str] = []
    for source in sorted({str(bind.source) for bind in toolchain.binds if bind.shared}):
        if not any(source.startswith(f"{root}/") for root in roots):
            roots.append(source)
            yield from _below(source, hidden)
    for source in sorted(str(bind.source) for bind in toolchain.library):  # may lie in what is hidden
        if not any(source.startswith(f"{root}/") for root in roots) or any(source.startswith(f"{directory}/") for directory in hidden):
            yield from _below(source, frozenset())


def _below(path: str, hidden: frozenset[str]) -> Iterator[ToolchainPart]:
    facts = os.lstat(path)
    yield path, facts
    if not stat.S_ISDIR(facts.st_mode) or path in hidden or left_out(path):
        return  # of what is left out there is an empty directory
    try:
        with os.scandir(path) as listing:
            names = sorted(entry.name for entry in listing)
    except PermissionError:
        return
    for name in names:
        below = f"{path}/{name}"
        with suppress(FileNotFoundError):
            mode = os.lstat(below).st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield from _below(below, hidden)


def left_out(path: str) -> bool:
    """Return whether a directory stays empty in the copy: no box needs it."""
    # Of the Python that a virtual environment is made from: its tests, and its own packages, which the environment does not see.
    library = Path(sys.base_prefix).resolve() / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if path in _NEVER or path == str(library / "test") or (path == str(library / "site-packages") and sys.prefix != sys.base_prefix):
        return True
    parent, _, name = path.rpartition("/")
    if parent == "/usr/lib":
        return _LIBRARIES.fullmatch(name) is None
    return "/site-packages/" in path and path.endswith(tuple(f"/site-packages/{package}" for package in _IN_SITE_PACKAGES))
