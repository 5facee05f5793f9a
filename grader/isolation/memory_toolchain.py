"""A copy of the host's toolchain in memory, which boxes see in place of the files on disk while a server serves.

Which pages and names of a disk are cached is state that a box changes by reading and the next box can measure by the clock: bits from one
box to the next. All pages of a tmpfs without swap are always there, so are its directories, and it remembers no name that it lacks.
The servers of a user share a copy, and `toolchain_keeper.py` keeps it from one server to the next.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import structlog

from grader.isolation import IsolationBroken, toolchain_keeper
from grader.isolation.directories import remove_tree
from grader.isolation.processes import read_host_memory
from grader.isolation.select import ClosableIsolation
from grader.isolation.settings import BoxSettings
from grader.isolation.toolchain import Toolchain, host_toolchain
from grader.isolation.toolchain_keeper import CACHE, KEEPER_NAME, PARTIAL_MODE, is_there, is_whole

log = structlog.get_logger()

PLACE, PREFIX = Path("/dev/shm"), "grader-toolchain-"
TMPFS_MAGIC = "tmpfs"
FREE_FACTOR = 3  # so many times the copy's size has to be available
LINGER_S = 600.0  # so long a copy stays when its last server has gone
COPY_COUNT = 3  # times that a copy is tried: packages are installed meanwhile, or its keeper is killed
RETRY_S = 60.0  # from the begin of one that failed to that of the next
KEEPER_START_S = 60.0
PROGRESS_S = 1.0
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


class MemoryToolchainUnavailable(Exception):
    """The toolchain can't be kept in memory here; the message says why and what to do."""


class MemoryToolchain:
    """The copy of a server, which is made while that serves.

    wanted: None makes a copy where there is room, and warns where there is none; True makes `ready` raise MemoryToolchainUnavailable there.
    isolation: of all boxes. on_adoption: is called once they see the copy. limit_bytes: the memory that this process may use.
    """

    def __init__(
        self,
        settings: BoxSettings,
        isolation: ClosableIsolation,
        *,
        wanted: bool | None,
        on_adoption: Callable[[], None],
        place: Path = PLACE,
        limit_bytes: int | None = None,
        linger_s: float = LINGER_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._isolation, self._wanted, self._on_adoption, self._linger_s, self._retry_s = isolation, wanted, on_adoption, linger_s, retry_s
        self.find_place = partial(find_place, settings, place, limit_bytes)
        self._begun: asyncio.Task[None] | None = None
        self._begin_s = 0.0
        self._lock = -1

    def begin(self) -> asyncio.Task[None]:
        """Begin to make it, unless that has begun; again where it failed a while ago."""
        now_s = asyncio.get_running_loop().time()
        failed = self._begun is not None and self._begun.done() and self._begun.exception() is not None
        if self._begun is None or (failed and now_s >= self._begin_s + self._retry_s):
            self._begun, self._begin_s = asyncio.create_task(self._make()), now_s
        return self._begun

    async def ready(self) -> None:
        """Wait until boxes see it, or where it is not wanted can't."""
        await asyncio.shield(self.begin())

    async def close(self) -> None:
        """Leave it to its keeper; no box may be live."""
        if self._begun is not None:
            self._begun.cancel()
            await asyncio.gather(self._begun, return_exceptions=True)
        self._release()

    def _release(self) -> None:
        if self._lock >= 0:
            os.utime(self._lock)  # its keeper counts from here
            os.close(self._lock)
            self._lock = -1

    async def _make(self) -> None:
        try:
            if self._wanted is False:
                raise MemoryToolchainUnavailable("--no-resident-toolchain")
            await self._copy()
        except MemoryToolchainUnavailable as error:
            if self._wanted:
                log.error("toolchain_on_disk", reason=str(error), until="a later try, when secret workloads wait for it")
                raise
            log.warning("toolchain_on_disk", reason=str(error), until="the server is restarted")

    async def _copy(self) -> None:
        for tries_left in reversed(range(COPY_COUNT)):
            try:  # the files that are looked for may be gone, too
                self._release()  # of a copy that was not adopted
                fingerprint = await self._isolation.fingerprint(fresh=True)
                parts, directory = await asyncio.to_thread(self.find_place)
                log.info("toolchain_wanted", directory=str(directory), file_count=len(parts), size_mib=size_of(parts) >> 20)
                self._lock = await hold(directory, parts, self._linger_s)
                if await self._isolation.fingerprint(fresh=True) != fingerprint:
                    raise OSError("packages were installed meanwhile; wait until no more are")
                await self._isolation.adopt(directory, fingerprint)
                break
            except (OSError, subprocess.SubprocessError, IsolationBroken) as error:
                text = f"the toolchain could not be copied to memory: {error}"
                if not tries_left:
                    raise MemoryToolchainUnavailable(text) from error
                log.warning("toolchain_not_copied", reason=text, tries_left=tries_left)
        self._on_adoption()
        log.info("toolchain_in_memory", directory=str(directory))


def find_place(settings: BoxSettings, place: Path = PLACE, limit_bytes: int | None = None) -> tuple[list[ToolchainPart], Path]:
    """Return what is copied and to where; MemoryToolchainUnavailable where there is no room."""
    if settings.image is not None:
        raise MemoryToolchainUnavailable("a box root 'image:NAME' has its own toolchain; leave --resident-toolchain out")
    parts = parts_of(host_toolchain(settings.runtime_dir / "etc", settings.hidden_paths))
    directory, size_bytes = place / f"{PREFIX}{os.geteuid()}-{_digest(parts)}", size_of(parts)
    sweep(place, sparing=directory)
    if (reason := why_not(0 if directory.exists() else size_bytes, place, limit_bytes)) is not None:
        raise MemoryToolchainUnavailable(f"the toolchain is not kept in memory: {reason}")
    return parts, directory


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


async def hold(directory: Path, parts: list[ToolchainPart], linger_s: float = LINGER_S) -> int:
    """Wait until a copy is whole, and return the descriptor whose lock keeps it; OSError where it can't be made. Its keeper makes it,
    whichever server has started that, and goes on where this server ends."""
    with ExitStack() as opened:
        lock = await asyncio.to_thread(_claim, directory, parts, linger_s)
        opened.callback(os.close, lock)
        while True:
            keeper, _, failure = (directory / KEEPER_NAME).read_text("utf-8", "replace").partition("\n")
            alive = Path(f"/proc/{keeper}").exists()
            if is_whole(lock):
                opened.pop_all()
                return lock
            if failure or not alive:
                raise OSError(failure or "the process that makes the copy was ended")
            log.info("toolchain_copying", free_mib=shutil.disk_usage(directory).free >> 20)
            await asyncio.sleep(PROGRESS_S)


def _claim(directory: Path, parts: list[ToolchainPart], linger_s: float) -> int:
    """Lock a copy's directory against its removal, and start its keeper, unless it has one."""
    command = (sys.executable, "-I", "-S", "-B", toolchain_keeper.__file__, str(directory), str(linger_s))
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    while True:  # until nobody removes it between two looks
        with suppress(FileExistsError):
            directory.mkdir(mode=PARTIAL_MODE)
        with ExitStack() as opened, suppress(FileNotFoundError):
            lock = _open(directory)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if not is_there(lock, directory):
                continue
            named = [(path, (facts.st_mode, facts.st_size, facts.st_mtime_ns)) for path, facts in parts]
            text = b"" if is_whole(lock) else json.dumps(named).encode()
            subprocess.run(command, input=text, cwd="/", env=environment, check=True, timeout=KEEPER_START_S)
            opened.pop_all()
            return lock


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
