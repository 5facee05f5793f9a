"""Files of the state directory by which servers and commands of one host know of each other: cordons and snapshot."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import structlog
from pydantic import TypeAdapter

from grader.artifacts import make_private, write_whole
from grader.observability.observer import LaneNow
from grader.state_dir import lock_holder

log = structlog.get_logger()

CORDONS_NAME, SNAPSHOT_NAME = "cordoned.json", "server.json"


def worker_prefix(state_dir: Path) -> str:
    """Return what the ids of all workers of this state directory begin with, those of earlier servers too. The host is part of it: two may
    have a directory of the same name."""
    return hashlib.sha256(f"{socket.gethostname()}\0{state_dir.resolve()}".encode()).hexdigest()[:16] + "-"


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
