"""A copy of the host's toolchain in memory, which boxes see in place of the files on disk while a server serves.

Which pages and names of a disk are cached is state that a box changes by reading and the next box can measure by the clock: bits from one
box to the next. All pages of a tmpfs without swap are always there, so are its directories, and it remembers no name that it lacks.
The servers of a user share a copy, and `toolchain_keeper.py` keeps it from one server to the next.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import mmap
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
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
PARTIAL_MODE, WHOLE_MODE = 0o700, 0o711  # of a copy's directory: by it a server knows that all of the copy is there
KEEPER_SCRIPT = Path(__file__).with_name("toolchain_keeper.py")
LINGER_S = 600.0  # so long a copy stays when its last server has gone
KEEPER_START_S = 60.0
PROGRESS_S = 2.0
# Of GNU. A hole in a file would be filled by the first box that maps it.
COPIER = ("xargs", "-0", "-P8", "-n200", "cp", "-P", "--parents", "--preserve=timestamps", "--sparse=never", "-t")
CACHE = "/__pycache__/"
USE_COUNT = 3  # referenced, then active, then referenced again
ToolchainPart = tuple[str, os.stat_result]  # a file, directory or link, and its facts
# What compilers, Python, torch, Triton and CUDA read; the rest of /usr/lib is of other programs.
_LIBRARIES = re.compile(
    r"bfd-plugins|binfmt|ccache|clang.*|compat-ld|cuda.*|gcc.*|gold-ld|llvm.*|locale|nvidia.*|pkgconfig|python3.*|ssl|wsl|[a-z0-9_]+-linux-gnu.*"
)
# Of the Python that a virtual environment is made from: its tests, and its own packages, which the environment does not see.
_PYTHON = Path(sys.base_prefix).resolve() / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
_NEVER = {"/usr/share", "/usr/src", "/usr/games", "/usr/local/share", "/usr/local/src", "/usr/local/games", str(_PYTHON / "test")}
_NEVER |= {str(_PYTHON / "site-packages")} if sys.prefix != sys.base_prefix else set()
_NEVER_BELOW = ("-linux-gnu/dri", *(f"/site-packages/{package}" for package in ("playwright", "torch/test", "pip", "mypy", "ray")))
_NEVER_BELOW += ("/triton/backends/amd/lib", "/include/node", "/libexec/valgrind", "-linux-gnu/valgrind")
# Programs for containers and developers, and archives where no linker looks.
_NEEDLESS = re.compile(
    r".*/s?bin/(node|terraform|buf|ruff|ctr|runc|(docker|containerd)[\w-]*|[\w-]+-lto-dump-\d+)|.*/torch/bin/test_\w+"
    r"|.*/(triton/backends|llvm-\d+|config-3\.[^/]+)/.*\.a"
)


class MemoryToolchainUnavailable(IsolationBroken):
    """The toolchain can't be kept in memory here; the message says why and what to do."""


@asynccontextmanager
async def memory_toolchain(
    settings: BoxSettings, *, wanted: bool | None, place: Path = PLACE, limit_bytes: int | None = None, linger_s: float = LINGER_S
) -> AsyncIterator[Path | None]:
    """The directory of the copy, made unless there is one of the toolchain as it is now; None without a copy.

    wanted: None makes a copy where there is room, and warns where there is none; True raises MemoryToolchainUnavailable there.
    limit_bytes: the memory that this process may use.
    """
    directory, lock = None, -1
    try:
        if wanted is False:
            raise MemoryToolchainUnavailable("--no-resident-toolchain")
        if settings.image is not None:
            raise MemoryToolchainUnavailable("a box root 'image:NAME' has its own toolchain; leave --resident-toolchain out")
        directory, lock = await asyncio.to_thread(_hold, settings, place, limit_bytes)
    except MemoryToolchainUnavailable as error:
        if wanted:
            raise
        log.warning("toolchain_on_disk", reason="box_root is an image" if settings.image else str(error))
    try:
        if directory is not None:
            await asyncio.to_thread(_start_keeper, directory, linger_s)
        yield directory
    finally:
        if directory is not None:
            os.utime(lock)  # its keeper counts from here
            os.close(lock)


def _start_keeper(directory: Path, linger_s: float) -> None:
    keeper = (sys.executable, "-I", "-S", "-B", str(KEEPER_SCRIPT), str(directory), str(linger_s))
    try:
        subprocess.run(keeper, stdin=subprocess.DEVNULL, cwd="/", env={}, check=True, timeout=KEEPER_START_S)
    except (OSError, subprocess.SubprocessError) as error:  # the next server's sweep removes the copy
        log.warning("toolchain_keeper_failed", error=str(error))


def sweep(place: Path = PLACE, sparing: Path | None = None) -> int:
    """Remove the copies of this user that no server holds by a lock, but for `sparing` where it is whole. Returns how many were removed."""
    count = 0
    for directory in sorted(place.glob(f"{PREFIX}*")):
        with suppress(OSError):
            descriptor = _open(directory)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_there(descriptor, directory) and not (directory == sparing and is_whole(descriptor)):
                    os.fchmod(descriptor, PARTIAL_MODE)
                    remove_tree(directory)
                    count += 1
            finally:
                os.close(descriptor)
    return count


def why_not(size_bytes: int, place: Path = PLACE, limit_bytes: int | None = None) -> str | None:
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
    available = min(available, limit_bytes or available)  # a tmpfs counts in the cgroup of who writes it
    if free < size_bytes * 1.1:
        return f"{place} has {free >> 20} MiB free and the copy takes {size_bytes >> 20} MiB; enlarge it with mount -o remount,size="
    if available < FREE_FACTOR * size_bytes:
        return f"{available >> 20} MiB of memory are available, and {FREE_FACTOR} times the copy's {size_bytes >> 20} MiB are asked for"
    return None


def size_of(parts: list[ToolchainPart]) -> int:
    """How many bytes a copy takes."""
    return sum(facts.st_size for _, facts in parts if stat.S_ISREG(facts.st_mode))


def _digest(parts: list[ToolchainPart]) -> str:
    """Name a toolchain by its paths and what changes with a file. Python rewrites its cache at any time, and checks it against sources."""
    digest = hashlib.sha256()
    for path, facts in parts:
        if CACHE not in f"{path}/":
            changes = () if stat.S_ISDIR(facts.st_mode) else (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            digest.update(repr((path, facts.st_mode, *changes)).encode())
    return digest.hexdigest()[:16]


def _open(directory: Path) -> int:
    """Open a copy's directory, which any user may have made; OSError where it is not ours."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if os.fstat(descriptor).st_uid == os.geteuid():
        return descriptor
    os.close(descriptor)
    raise PermissionError(f"{directory} belongs to somebody else; remove it")


def _hold(settings: BoxSettings, place: Path, limit_bytes: int | None) -> tuple[Path, int]:
    """Return the copy's directory, and the descriptor whose lock keeps it."""
    parts = parts_of(host_toolchain(settings.runtime_dir / "etc", settings.hidden_paths))
    directory, size_bytes = place / f"{PREFIX}{os.geteuid()}-{_digest(parts)}", size_of(parts)
    sweep(place, sparing=directory)
    while True:  # until nobody removes it between two looks
        if (reason := why_not(0 if directory.exists() else size_bytes, place, limit_bytes)) is not None:
            raise MemoryToolchainUnavailable(f"the toolchain is not kept in memory: {reason}")
        log.info("toolchain_wanted", directory=str(directory), file_count=len(parts), size_mib=size_bytes >> 20)
        try:
            if (lock := take(directory, parts)) is not None:
                log.info("toolchain_in_memory", directory=str(directory))
                return directory, lock
        except (OSError, IsolationBroken) as error:
            raise MemoryToolchainUnavailable(f"the toolchain could not be copied to {directory}: {error}") from error


def take(directory: Path, parts: list[ToolchainPart]) -> int | None:
    """Lock a copy, made unless it is there; None where it has been removed meanwhile. Another server that makes it is waited for.

    Only who has the lock of the directory that is there alone may remove or fill it.
    """
    with suppress(FileExistsError):
        directory.mkdir(mode=PARTIAL_MODE)
    with ExitStack() as opened:
        lock = _open(directory)
        opened.callback(os.close, lock)
        if _lock_alone(lock) and is_there(lock, directory) and not is_whole(lock):
            try:
                copy(parts, directory, lock)
                os.fchmod(lock, WHOLE_MODE)
            except BaseException:
                remove_tree(directory)
                raise
        fcntl.flock(lock, fcntl.LOCK_SH)  # others may have had it in between
        if not (is_there(lock, directory) and is_whole(lock)):
            return None
        opened.pop_all()
        return lock


def _lock_alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # of a server that has it, or makes it
        return False
    return True


def is_there(lock: int, directory: Path) -> bool:
    """Return whether the open directory is still the one at this path."""
    return directory.exists() and os.path.samestat(os.fstat(lock), directory.lstat())


def is_whole(lock: int) -> bool:
    """Return whether all of the copy was made."""
    return stat.S_IMODE(os.fstat(lock).st_mode) == WHOLE_MODE


def copy(parts: list[ToolchainPart], directory: Path, *descriptors: int) -> None:
    """Copy all parts to below `directory`, at their own paths there; IsolationBroken where one is not copied whole.

    descriptors: inherited by the copier, which then has their locks too as long as it lives.
    """
    directories = [(mirrored(directory, Path(source)), facts) for source, facts in parts if stat.S_ISDIR(facts.st_mode)]
    files = [(source, facts) for source, facts in parts if not stat.S_ISDIR(facts.st_mode)]
    for target, _ in directories:
        target.mkdir(parents=True, exist_ok=True, mode=0o755)
    with tempfile.TemporaryFile() as sources:
        sources.write(b"\0".join(os.fsencode(source).lstrip(b"/") for source, _ in files))
        sources.seek(0)
        words, silent = [*COPIER, str(directory)], subprocess.DEVNULL
        with subprocess.Popen(words, stdin=sources, stderr=silent, cwd="/", umask=0o022, pass_fds=descriptors) as copier:
            while copier.returncode is None:
                log.info("toolchain_copying", free_mib=shutil.disk_usage(directory).free >> 20)
                with suppress(subprocess.TimeoutExpired):
                    copier.wait(PROGRESS_S)
    for source, facts in files:  # whatever the copier says
        path = f"{directory}{source}"
        try:
            copied = os.lstat(path)
        except FileNotFoundError:
            if CACHE in source or not os.access(source, os.R_OK):
                continue  # boxes have no more rights than we
            raise
        if CACHE in source and copied.st_size != facts.st_size:
            Path(path).unlink()
        elif CACHE not in source and (copied.st_size, copied.st_mtime_ns) != (facts.st_size, facts.st_mtime_ns):
            raise IsolationBroken(f"{source} was not copied whole; wait until no packages are installed, or free memory")
        elif facts.st_size and stat.S_ISREG(facts.st_mode):
            settle(path)
    for above in {parent for target, _ in directories for parent in (target, *target.parents) if directory in parent.parents}:
        above.chmod(0o755)  # whatever the server's umask is
    for target, facts in reversed(directories):  # a directory's time counts for Python's finders
        os.utime(target, ns=(facts.st_mtime_ns, facts.st_mtime_ns))


def settle(path: str) -> None:
    """Use every page until the kernel marks it active and referenced, where use changes nothing: `smaps` tells a box of these marks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(USE_COUNT):
            mmap.mmap(descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ).close()
    finally:
        os.close(descriptor)


def parts_of(toolchain: Toolchain) -> list[ToolchainPart]:
    """Return what is copied: everything that the binds show, once, less what `left_out` names and what boxes must not see."""
    hidden, parts = frozenset(toolchain.hidden_sources), list[ToolchainPart]()
    roots: list[str] = []
    for source in sorted({str(bind.source) for bind in toolchain.binds if bind.shared}):
        if not any(source.startswith(f"{root}/") for root in roots):
            roots.append(source)
            _add_below(parts, source, hidden)
    for source in sorted(str(bind.source) for bind in toolchain.library):  # may lie in what is hidden
        if not any(source.startswith(f"{root}/") for root in roots) or any(source.startswith(f"{directory}/") for directory in hidden):
            _add_below(parts, source, frozenset())
    return parts


def _add_below(parts: list[ToolchainPart], path: str, hidden: frozenset[str]) -> None:
    parts.append((path, os.lstat(path)))
    waiting = [path] if stat.S_ISDIR(parts[-1][1].st_mode) else []
    while waiting:
        directory = waiting.pop()
        if directory in hidden or left_out(directory):
            continue  # of what is left out there is an empty directory
        with suppress(PermissionError), os.scandir(directory) as listing:
            for entry in sorted(listing, key=lambda entry: entry.name):
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(facts.st_mode):
                    waiting.append(entry.path)
                elif not (stat.S_ISREG(facts.st_mode) or stat.S_ISLNK(facts.st_mode)) or _NEEDLESS.fullmatch(entry.path):
                    continue
                parts.append((entry.path, facts))


def left_out(path: str) -> bool:
    """Return whether a directory stays empty in the copy: no box needs it."""
    parent, _, name = path.rpartition("/")
    if parent == "/usr/lib":
        return _LIBRARIES.fullmatch(name) is None
    return path in _NEVER or path.endswith(_NEVER_BELOW)
