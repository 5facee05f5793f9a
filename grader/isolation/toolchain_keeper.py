"""Makes a copy of the toolchain in memory, keeps it from one server to the next, and removes it some minutes after the last one has gone.

Standard library only, run by path with `python -I -S`: the process holds a few megabytes for days.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PARTIAL_MODE, WHOLE_MODE = 0o700, 0o711  # of a copy's directory: by it a server knows that all of the copy is there
KEEPER_NAME = "keeper"  # in a copy's directory: the keeper's process id on a line, then why there is no copy
NICENESS = 19  # servers answer meanwhile
# Of GNU. A hole in a file would be filled by the first box that maps it.
COPIER = ("xargs", "-0", "-P8", "-n200", "cp", "-P", "--parents", "--preserve=timestamps", "--sparse=never", "-t")
CACHE = "/__pycache__/"
USE_COUNT = 3  # referenced, then active, then referenced again
Facts = tuple[int, int, int]  # mode, size and time of change in nanoseconds


def main() -> None:
    """Run `toolchain_keeper DIRECTORY SECONDS`: leave a process behind, unless this copy has one. stdin: its parts, as JSON."""
    directory, linger_s = sys.argv[1], float(sys.argv[2])
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    alone = os.open(KEEPER_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=opened)
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    os.ftruncate(alone, 0)
    if os.fork():
        return
    os.setsid()
    os.write(alone, f"{os.getpid()}\n".encode())
    silent = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):  # the server's
        os.dup2(silent, descriptor)
    if not is_whole(opened):
        fcntl.flock(opened, fcntl.LOCK_SH)  # so that no server sweeps it
        if not (copier := os.fork()):
            _make(directory, opened, alone)
        if os.waitpid(copier, 0)[1]:
            os.write(alone, b"the process that copies was killed")
        linger_s = linger_s if is_whole(opened) else 0.0
    os.dup2(silent, 0)
    _keep(directory, opened, linger_s)


def is_there(opened: int, directory: Path) -> bool:
    """Return whether the open directory is still the one at this path."""
    return directory.exists() and os.path.samestat(os.fstat(opened), directory.lstat())


def is_whole(opened: int) -> bool:
    """Return whether all of the copy was made."""
    return stat.S_IMODE(os.fstat(opened).st_mode) == WHOLE_MODE


def _make(directory: str, opened: int, report: int) -> None:
    try:
        os.nice(NICENESS)
        copy(json.load(sys.stdin.buffer), directory)
        os.fchmod(opened, WHOLE_MODE)
    except Exception as error:  # noqa: BLE001  whatever it is, servers wait for it
        os.write(report, f"{type(error).__name__}: {error}".encode(errors="replace"))
    finally:
        os._exit(0)


def _keep(directory: str, opened: int, linger_s: float) -> None:
    while True:
        fcntl.flock(opened, fcntl.LOCK_EX)  # every server holds a shared lock
        changed_ns = os.fstat(opened).st_mtime_ns
        fcntl.flock(opened, fcntl.LOCK_UN)
        time.sleep(linger_s)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        if not is_there(opened, Path(directory)):  # somebody removed it, and may have made another at the same path
            return
        if os.fstat(opened).st_mtime_ns == changed_ns:  # no server has gone meanwhile
            os.fchmod(opened, PARTIAL_MODE)  # from here on it is not whole, and no server takes it
            shutil.rmtree(directory, ignore_errors=True)
            return


def copy(parts: Sequence[tuple[str, Facts]], directory: str) -> None:
    """Copy all parts to below `directory`, at their own paths there; OSError where one is not copied whole."""
    directories = [(f"{directory}{source}", changed_ns) for source, (mode, _, changed_ns) in parts if stat.S_ISDIR(mode)]
    files = [(source, facts) for source, facts in parts if not stat.S_ISDIR(facts[0])]
    os.umask(0o022)  # whatever the server's is
    for target, _ in directories:
        Path(target).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as sources:
        sources.write(b"\0".join(os.fsencode(source).lstrip(b"/") for source, _ in files))
        sources.seek(0)
        subprocess.run([*COPIER, directory], stdin=sources, stderr=subprocess.DEVNULL, cwd="/", check=False)
    for source, (mode, size, changed_ns) in files:  # whatever the copier says
        path = f"{directory}{source}"
        try:
            copied = os.lstat(path)
        except FileNotFoundError:
            if CACHE in source or (Path(source).exists() and not os.access(source, os.R_OK)):
                continue  # boxes have no more rights than we
            raise
        if CACHE in source and copied.st_size != size:
            Path(path).unlink()
        elif CACHE not in source and any((file.st_size, file.st_mtime_ns) != (size, changed_ns) for file in (copied, os.lstat(source))):
            raise OSError(f"{source} was not copied whole; wait until no packages are installed, or free memory")
        elif size and stat.S_ISREG(mode):
            settle(path)
    for target, changed_ns in reversed(directories):  # a directory's time counts for Python's finders
        os.utime(target, ns=(changed_ns, changed_ns))


def settle(path: str) -> None:
    """Use every page until the kernel marks it active and referenced, where use changes nothing: `smaps` tells a box of these marks."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(USE_COUNT):
            mmap.mmap(descriptor, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ).close()
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main()
