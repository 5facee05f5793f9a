"""The directory that a server keeps everything in: made where it is missing, refused where nothing can be kept in it, and locked; and how a
file that is read again and again is seen to have changed.

The holder of the lock knows that no other server of the state directory lives, and may take its leases and sweep its boxes.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from grader.errors import SettingsInvalid, StateDirectoryInUse

LOCK_NAME, RETRY_S = "server.lock", 0.2


def state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's state lies by default: $GRADER_STATE_DIR, $XDG_STATE_HOME/grader, ~/.local/state/grader."""
    if path := environment.get("GRADER_STATE_DIR"):
        return Path(path)
    if xdg := environment.get("XDG_STATE_HOME"):
        return Path(xdg) / "grader"
    return Path(environment.get("HOME") or Path.home()) / ".local" / "state" / "grader"


@contextmanager
def writable_directory(directory: Path) -> Iterator[None]:
    """Make the directory, and let the context open its files there; SettingsInvalid where either can't be done."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # What an earlier server left may be open to us, and SQLite makes more next to it.
        if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(directory)) else ""
        text = f"can't keep anything in {directory}: {error.strerror}{where}"
        raise SettingsInvalid("state_dir", f"{text}; let this user write there, or name another") from None


@asynccontextmanager
async def state_lock(state_dir: Path, waiting: Callable[[str], None] | None = None) -> AsyncIterator[None]:
    """Hold the lock of a state directory. Held by another: call `waiting`, and wait for it; without `waiting`, StateDirectoryInUse.

    SettingsInvalid where there can be no lock. The system gives the lock up when the process ends, however it ends.
    """
    with writable_directory(state_dir):
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(descriptor, fcntl.LOCK_EX):
            busy = StateDirectoryInUse(str(state_dir), _process_id(descriptor))
            if waiting is None:
                raise busy
            waiting(str(busy))
            waiting = lambda _: None  # noqa: E731  # said once is enough
            os.utime(descriptor)  # a holder that can give way sees it
            await asyncio.sleep(RETRY_S)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def lock_holder(state_dir: Path) -> int | None:
    """The process that has the state directory, by its lock; None where nobody has."""
    try:
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _try_lock(descriptor, fcntl.LOCK_SH) else _process_id(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _process_id(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdigit() else None


FileStamp = tuple[int, int, int, int]


def stamp(path: Path) -> FileStamp | None:
    """Return what changes, the time first, where a file or directory is written or replaced, or a link moved; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_dev, status.st_ino
