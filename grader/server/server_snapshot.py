"""What a running server says of itself: a file of the state directory, written by the server and read by commands of its host."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from grader.artifacts.store import write_whole
from grader.config import Settings
from grader.observability.observer import LaneNow, LaneState
from grader.server.installed_version import installed_version
from grader.server.lock import lock_holder

SIGN_OF_LIFE_S = 10.0  # between two writes where nothing changes

log = structlog.get_logger()


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
        """What the file says; None without one, or where it makes no sense."""
        try:
            found = json.loads(path.read_bytes())
            lanes = tuple(LaneNow(name=str(one["name"]), state=LaneState(one["state"])) for one in found["lanes"])
            return cls(
                host=str(found["host"]),
                process_id=int(found["process_id"]),
                version=str(found["version"]),
                address=str(found["address"]),
                web_address=str(found["web_address"]),
                start_time=datetime.fromisoformat(found["start_time"]),
                write_time=datetime.fromisoformat(found["write_time"]),
                leaving=bool(found["leaving"]),
                lanes=lanes,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Replace the file. OSError where it can't be written."""
        found: dict[str, Any] = {
            "host": self.host,
            "process_id": self.process_id,
            "version": self.version,
            "address": self.address,
            "web_address": self.web_address,
            "start_time": self.start_time.isoformat(),
            "write_time": self.write_time.isoformat(),
            "leaving": self.leaving,
            "lanes": [{"name": one.name, "state": one.state.value} for one in self.lanes],
        }
        write_whole(path, json.dumps(found).encode())


def running_server(settings: Settings) -> ServerSnapshot | None:
    """What the server that has the state directory says; None where none has it, or where it has said nothing yet."""
    holder, found = lock_holder(settings.lock_path), ServerSnapshot.read(settings.snapshot_path)
    return found if found is not None and holder == found.process_id else None


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
