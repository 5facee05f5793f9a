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
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import structlog
from pydantic import TypeAdapter

from grader.artifacts import make_private, write_whole
from grader.errors import StateDirectoryInUse
from grader.observability.observer import LaneNow
from grader.state_dir import writable_directory

log = structlog.get_logger()

RETRY_S = 0.2
LOCK_NAME, CORDONS_NAME, SNAPSHOT_NAME = "server.lock", "cordoned.json", "server.json"


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


def worker_prefix(state_dir: Path) -> str:
    """Return what the ids of all workers of this state directory begin with, those of earlier servers too. The host is part of it: two may
    have a directory of the same name."""
    return hashlib.sha256(f"{socket.gethostname()}\0{state_dir.resolve()}".encode()).hexdigest()[:16] + "-"


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


# Cordons: written by a command, read by a running server, and outlives both. A name is that of a lane as in /metrics, such as cuda:0 or
# gpu-1/cuda:0, or that of a worker, such as gpu-1.

EVERY_LANE = "all"  # of a server whose queue is paused
NAME = re.compile(r"[a-z0-9][a-z0-9.:/-]{0,199}")
_LIMIT_BYTES = 1 << 20


class Cordons:
    """The file in a state directory. names: those of the last look."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / CORDONS_NAME
        self._fault = ""  # that was logged last
        self.names: frozenset[str] = frozenset()

    def look(self) -> bool:
        """Read the file; whether the names have changed. One that makes no sense changes nothing."""
        before, fault = self.names, ""
        try:
            self.names = self._read()
        except (OSError, ValueError) as error:
            fault = str(error)
        if fault and fault != self._fault:
            log.error("cordons_not_read", file=str(self._path), error=fault)
        self._fault = fault
        return self.names != before

    def add(self, name: str) -> None:
        """Cordon this lane or worker."""
        self._write(self._read() | {name})

    def remove(self, name: str) -> bool:
        """Let it work again; whether it was cordoned."""
        names = self._read()
        if name not in names:
            return False
        self._write(names - {name})
        return True

    def _write(self, names: frozenset[str]) -> None:
        make_private(self._path.parent, "state_dir")
        write_whole(self._path, json.dumps(sorted(names)).encode())

    def _read(self) -> frozenset[str]:
        try:
            if self._path.stat().st_size > _LIMIT_BYTES:
                raise ValueError("it is too large")
            names = json.loads(self._path.read_bytes())
            if not isinstance(names, list) or not all(isinstance(name, str) and NAME.fullmatch(name) for name in names):
                raise ValueError("it is not a list of names")
        except FileNotFoundError:
            return frozenset()
        except ValueError as error:
            raise ValueError(f"{self._path} can't be used: {error}") from None
        return frozenset(names)


# The snapshot: written by a running server, read by commands of its host.

_LANES = TypeAdapter(tuple[LaneNow, ...])


def write_lanes(state_dir: Path, lanes: Sequence[LaneNow]) -> None:
    """Replace the snapshot of this server. OSError where it can't be written."""
    snapshot = {"process_id": os.getpid(), "lanes": [asdict(lane) for lane in lanes]}
    write_whole(state_dir / SNAPSHOT_NAME, json.dumps(snapshot).encode())


def running_lanes(state_dir: Path) -> tuple[LaneNow, ...] | None:
    """The lanes of the server that has the state directory; None where none has it, or where it has said nothing yet that makes sense."""
    holder = lock_holder(state_dir)
    try:
        snapshot = json.loads((state_dir / SNAPSHOT_NAME).read_bytes())
        return _LANES.validate_python(snapshot["lanes"]) if holder is not None and snapshot["process_id"] == holder else None
    except (OSError, ValueError, LookupError, TypeError):
        return None
