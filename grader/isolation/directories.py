"""The slots of live boxes, with their uids, and their directories: bounded in size where we may mount, and removed after untrusted code."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.isolation import BoxSpec, IsolationBroken, Purpose
from grader.isolation.settings import BoxSettings

FIRST_UID = 61000
SLOT_COUNT = 256


def slot_uid(slot: int, purpose: Purpose) -> int:
    """Return the uid of a box in this slot.  A build and the run after it differ, so that neither can signal the other."""
    if not 0 <= slot < SLOT_COUNT:
        raise ValueError(f"slot {slot} is not in 0..{SLOT_COUNT - 1}")
    return FIRST_UID + 2 * slot + (purpose is not Purpose.BUILD)


def shared_slot_directory() -> Path:
    """Return where the slots of this host are locked: one place for all servers of root, else one for each user."""
    return Path("/run/grader-slots") if os.geteuid() == 0 else Path(f"/tmp/grader-slots-{os.geteuid()}")


@contextmanager
def hold_slot(directory: Path) -> Iterator[int]:
    """Hold the lowest free slot.  The lock is the kernel's, so a server that dies gives its slots back."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    facts = directory.lstat()
    if facts.st_uid != os.geteuid() or directory.is_symlink():
        raise IsolationBroken(f"{directory} belongs to someone else; remove it")
    for slot in range(SLOT_COUNT):
        descriptor = os.open(directory / f"{slot}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield slot
            return
        finally:
            os.close(descriptor)
    raise IsolationBroken(f"all {SLOT_COUNT} slots of this host are in use; run fewer boxes at once")


HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOSYMFOLLOW = 2, 4, 8, 256
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8


def run_directory(settings: BoxSettings) -> Path:
    """Return, and make, the directory of this run of the server.  Searchable, not listable: its names are not guessable."""
    directory = settings.runtime_dir / f"run-{settings.run_id}"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)
    return directory


@contextmanager
def link_directory(settings: BoxSettings, spec: BoxSpec) -> Iterator[Path]:
    """Return the box's {link}: the caller's, or one of our own that is removed after."""
    if spec.link_dir is not None:
        spec.link_dir.chmod(0o755)  # the box's uid must get to the sockets in it
        yield spec.link_dir
        return
    directory = run_directory(settings) / f"link-{secrets.token_hex(8)}"
    directory.mkdir()
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def sweep_runtime(settings: BoxSettings) -> None:
    """Remove what earlier runs of the server left; their boxes must be gone."""
    for directory in sorted(settings.runtime_dir.glob("run-*")):
        if directory.name != f"run-{settings.run_id}":
            for output in sorted(directory.glob("out-*")):
                if output.is_mount():
                    _unmount(output)
                remove_tree(output)
            remove_tree(directory)


def leave_runtime(settings: BoxSettings) -> None:
    """Remove what a server has made here when it ends; what holds something that could not be cleared stays for the next to sweep."""
    with suppress(OSError):
        (settings.runtime_dir / f"run-{settings.run_id}").rmdir()
    if not any(settings.runtime_dir.glob("run-*")):
        shutil.rmtree(settings.runtime_dir / "etc", ignore_errors=True)
        with suppress(OSError):
            settings.runtime_dir.rmdir()


@contextmanager
def box_output(settings: BoxSettings, *, limit_bytes: int, inode_count: int = 4096, executable: bool = False) -> Iterator[Path]:
    """Make an empty directory for a box's {out} and remove it after.

    Where we may mount, it is a tmpfs that cannot outgrow `limit_bytes`, follows no symlink, and is unmounted, not deleted by name.
    """
    directory = run_directory(settings) / f"out-{secrets.token_hex(8)}"
    directory.mkdir(mode=0o700)
    mounted = False
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        options = f"size={limit_bytes},nr_inodes={inode_count},mode=0700".encode()
        common = MS_NOSUID | MS_NODEV | (0 if executable else MS_NOEXEC)
        attempts = (common | MS_NOSYMFOLLOW, common)  # nosymfollow: Linux 5.10
        mounted = any(libc.mount(b"grader-out", bytes(directory), b"tmpfs", flags, options) == 0 for flags in attempts)
    # The parent keeps others out; inside, the box's uid is not ours, and a remapping engine's is not even the one we asked for.
    directory.chmod(0o777)
    try:
        yield directory
    finally:
        if mounted:
            _unmount(directory)
            directory.rmdir()
        else:
            remove_tree(directory)


def _unmount(directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(bytes(directory), MNT_DETACH | UMOUNT_NOFOLLOW) != 0:
        raise OSError(ctypes.get_errno(), "cannot unmount a box's output directory", str(directory))


def remove_tree(directory: Path) -> None:
    """Remove a directory, however deep; what may not be removed stays.  No symlink is followed.

    `shutil.rmtree` calls itself for each level before Python 3.13: a thousand of them end it with a RecursionError.
    """
    with contextlib.suppress(OSError):
        top = os.open(directory, HOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        directory.rmdir()


def _empty(top: int) -> None:
    """Empty a directory. What lies deeper than one level is moved up first, so that no path grows long and two descriptors are enough."""
    waiting = _remove_files(top)
    mark, count = secrets.token_hex(8), 0
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            below = os.open(name, HOW, dir_fd=top)
            try:
                for inner in _remove_files(below):
                    with contextlib.suppress(OSError):
                        os.rename(inner, f"{mark}-{count}", src_dir_fd=below, dst_dir_fd=top)
                        waiting.append(f"{mark}-{count}")
                        count += 1
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)


def _remove_files(descriptor: int) -> list[str]:
    """Remove what is not a directory; open to us, and name, what is one."""
    directories = []
    with os.scandir(descriptor) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        with contextlib.suppress(OSError):
            if is_directory:
                directories.append(name)
                os.chmod(name, 0o700, dir_fd=descriptor)  # it may be closed to its owner; nobody is left to swap it
            else:
                os.unlink(name, dir_fd=descriptor)
    return directories
