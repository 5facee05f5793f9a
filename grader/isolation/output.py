"""What comes out of a box: its bounded output stream, and the size-capped directory in which a build leaves its artifact."""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.isolation.removal import remove_tree

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
ARRIVAL_GRAIN_NS = 1_000_000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_NOSYMFOLLOW = 2, 4, 8, 256
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8


class OutputReader:
    """Reads a descriptor that untrusted code writes to: keeps the head, counts the rest, and calls `on_full` at the cap.

    Plain reads: descriptors that the box tries to pass along a socket are dropped by the kernel.
    """

    def __init__(self, descriptor: int, *, cap_bytes: int, on_full: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._cap_bytes = cap_bytes
        self._on_full = on_full
        self._head = bytearray()
        self._count = 0
        self.arrivals: list[tuple[int, int]] = []  # for `BoxExit`, a millisecond apart at least
        self.ended = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read_once)

    @property
    def head(self) -> bytes:
        """The first 64 KiB."""
        return bytes(self._head)

    def drain(self) -> None:
        """Take what is already there, for a box that has ended; bounded by the cap."""
        while not self.ended.is_set() and self._read_once():
            pass

    def close(self) -> None:
        """Stop reading; once. Afterwards the descriptor may be closed, and its number may be another's."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._descriptor)
            self.ended.set()

    def _read_once(self) -> bool:
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        now_ns = time.monotonic_ns()
        if not self.arrivals or now_ns - self.arrivals[-1][1] > ARRIVAL_GRAIN_NS:
            self.arrivals.append((len(self._head), now_ns))
        self._head += chunk[: HEAD_BYTES - len(self._head)]
        self._count += len(chunk)
        if self._count >= self._cap_bytes:
            self.close()
            self._on_full()
        return True


@contextmanager
def output_directory(parent: Path, *, limit_bytes: int, inode_count: int = 4096, executable: bool = False) -> Iterator[Path]:
    """Make an empty directory for a box's {out} and remove it after.

    Where we may mount, it is a tmpfs that cannot outgrow `limit_bytes`, follows no symlink, and is unmounted, not deleted by name.
    """
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory = parent / f"out-{secrets.token_hex(8)}"
    directory.mkdir(mode=0o700)
    mounted = _mount_scratch(directory, limit_bytes, inode_count, executable)
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


def _mount_scratch(directory: Path, limit_bytes: int, inode_count: int, executable: bool) -> bool:
    if os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={limit_bytes},nr_inodes={inode_count},mode=0700".encode()
    common = MS_NOSUID | MS_NODEV | (0 if executable else MS_NOEXEC)
    attempts = (common | MS_NOSYMFOLLOW, common)  # nosymfollow: Linux 5.10
    return any(libc.mount(b"grader-out", bytes(directory), b"tmpfs", flags, options) == 0 for flags in attempts)


def _unmount(directory: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(bytes(directory), MNT_DETACH | UMOUNT_NOFOLLOW) != 0:
        raise OSError(ctypes.get_errno(), "cannot unmount a box's output directory", str(directory))


def sweep_outputs(parent: Path) -> None:
    """Remove the output directories that an earlier server left under `parent`."""
    for directory in sorted(parent.glob("out-*")):
        if directory.is_mount():
            _unmount(directory)
        remove_tree(directory)
