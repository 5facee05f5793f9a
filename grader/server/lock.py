"""One server per state directory: the lock's holder knows that no other lives, and may take its leases and sweep its boxes."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from grader.errors import StateDirectoryInUse
from grader.state_dir import writable_directory

RETRY_S = 0.2


@asynccontextmanager
async def state_lock(path: Path, waiting: Callable[[str], None] | None = None) -> AsyncIterator[None]:
    """Hold the lock. Held by another: call `waiting`, and wait for it; without `waiting`, StateDirectoryInUse.

    SettingsInvalid where there can be no lock. The system gives the lock up when the process ends, however it ends.
    """
    with writable_directory(path.parent):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor):
            busy = StateDirectoryInUse(str(path.parent), _holder(path))
            if waiting is None:
                raise busy
            waiting(str(busy))
            waiting = _silent
            await asyncio.sleep(RETRY_S)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def worker_prefix(state_dir: Path) -> str:
    """What the ids of all workers of this state directory begin with, those of earlier servers too. The host is part of it: two may
    have a directory of the same name."""
    return hashlib.sha256(f"{socket.gethostname()}\0{state_dir.resolve()}".encode()).hexdigest()[:16] + "-"


def lock_holder(path: Path) -> int | None:
    """The process that has the state directory, by its lock; None where nobody has."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> int | None:
    text = path.read_text().strip()
    return int(text) if text.isdigit() else None


def _silent(_: str) -> None:
    """Said once is enough."""
