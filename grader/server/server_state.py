"""Files of the state directory by which servers and commands of one host know of each other: lock, cordons and snapshot.

The holder of the lock knows that no other server of the state directory lives, and may take its leases and sweep its boxes.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import TypeAdapter

from grader.artifacts.store import make_private, write_whole
from grader.config import Settings
from grader.errors import StateDirectoryInUse
from grader.observability.observer import LaneNow
from grader.server.installed_version import installed_version
from grader.state_dir import writable_directory

log = structlog.get_logger()

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
            text = path.read_text().strip()
            busy = StateDirectoryInUse(str(path.parent), int(text) if text.isdigit() else None)
            if waiting is None:
                raise busy
            waiting(str(busy))
            waiting = lambda _: None  # noqa: E731  # said once is enough
            await asyncio.sleep(RETRY_S)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def worker_prefix(state_dir: Path) -> str:
    """Return what the ids of all workers of this state directory begin with, those of earlier servers too. The host is part of it: two may
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


# Cordons: written by a command, read by a running server, and outlives both. A name is that of a lane as in /metrics, such as cuda:0 or
# gpu-1/cuda:0, or that of a worker, such as gpu-1.

EVERY_LANE = "all"  # of a server whose queue is paused
NAME = re.compile(r"[a-z0-9][a-z0-9.:/-]{0,199}")
_LIMIT_BYTES = 1 << 20


class Cordons:
    """The file. names: those of the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None  # of the file that was read last
        self.names: frozenset[str] = frozenset()

    def look(self) -> bool:
        """Read the file if it is another one than before; whether the names have changed. One that makes no sense changes nothing."""
        try:
            status = self._path.stat()
            stamp = (status.st_ino, status.st_mtime_ns)
            if stamp == self._seen:
                return False
            self._seen, names = stamp, _names(self._path)
        except FileNotFoundError:
            self._seen, names = None, frozenset[str]()
        except (OSError, ValueError) as error:
            log.error("cordons_not_read", file=str(self._path), error=str(error))
            return False
        changed, self.names = names != self.names, names
        return changed

    def add(self, name: str) -> None:
        """Cordon this lane or worker."""
        self._write(_present(self._path) | {name})

    def remove(self, name: str) -> bool:
        """Let it work again; whether it was cordoned."""
        names = _present(self._path)
        if name not in names:
            return False
        self._write(names - {name})
        return True

    def _write(self, names: frozenset[str]) -> None:
        make_private(self._path.parent, "state_dir")
        write_whole(self._path, json.dumps(sorted(names)).encode())


def _present(path: Path) -> frozenset[str]:
    try:
        return _names(path)
    except FileNotFoundError:
        return frozenset()


def _names(path: Path) -> frozenset[str]:
    if path.stat().st_size > _LIMIT_BYTES:
        raise ValueError("it is too large")
    names = json.loads(path.read_bytes())
    if not isinstance(names, list) or not all(isinstance(name, str) and NAME.fullmatch(name) for name in names):
        raise ValueError("it is not a list of names")
    return frozenset(names)


# The snapshot: written by a running server, read by commands of its host.

SIGN_OF_LIFE_S = 10.0  # between two writes where nothing changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSnapshot:
    """A server as it was when it wrote this. address: of the API; web_address: "" without pages. leaving: it drains."""

    host: str
    process_id: int
    version: str
    address: str
    web_address: str
    start_time: datetime
    write_time: datetime
    leaving: bool = False
    lanes: tuple[LaneNow, ...] = ()

    @classmethod
    def read(cls, path: Path) -> ServerSnapshot | None:
        """Return what the file says; None without one, or where it makes no sense."""
        try:
            return _SNAPSHOT.validate_json(path.read_bytes())
        except (OSError, ValueError):
            return None

    def write(self, path: Path) -> None:
        """Replace the file. OSError where it can't be written."""
        write_whole(path, json.dumps(asdict(self), default=datetime.isoformat).encode())


_SNAPSHOT = TypeAdapter(ServerSnapshot)


def running_server(settings: Settings) -> ServerSnapshot | None:
    """Return what the server that has the state directory says; None where none has it, or where it has said nothing yet."""
    holder, snapshot = lock_holder(settings.lock_path), ServerSnapshot.read(settings.snapshot_path)
    return snapshot if snapshot is not None and holder == snapshot.process_id else None


class SnapshotWriter:
    """Keeps the file of one server up to date. A file that can't be written is logged, and nothing else depends on it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._now: ServerSnapshot | None = None
        self._written_s = 0.0

    def begin(self, address: str, web_address: str) -> None:
        """The server answers at these addresses."""
        now = datetime.now(UTC)
        self._now = ServerSnapshot(
            host=socket.gethostname(),
            process_id=os.getpid(),
            version=installed_version(),
            address=address,
            web_address=web_address,
            start_time=now,
            write_time=now,
        )
        self._write()

    def update(self, lanes: Sequence[LaneNow]) -> None:
        """The lanes are these now; written where something has changed, or as a sign of life."""
        if self._now is None:
            return
        changed = tuple(lanes) != self._now.lanes
        if changed or time.monotonic() - self._written_s >= SIGN_OF_LIFE_S:
            self._now = replace(self._now, lanes=tuple(lanes))
            self._write()

    def leave(self) -> None:
        """The server drains."""
        if self._now is not None:
            self._now = replace(self._now, leaving=True)
            self._write()

    def _write(self) -> None:
        assert self._now is not None
        self._written_s, self._now = time.monotonic(), replace(self._now, write_time=datetime.now(UTC))
        try:
            self._now.write(self._path)
        except OSError as error:
            log.warning("snapshot_not_written", file=str(self._path), error=str(error))
