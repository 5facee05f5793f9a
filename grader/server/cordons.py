"""Which lanes and workers an operator has cordoned: a file of the state directory, written by a command and read by a running server.

It outlives both. A name is a lane's as /metrics has it, such as cuda:0 or gpu-1/cuda:0, or a worker's, such as gpu-1.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import structlog

from grader.artifacts.store import make_private, write_whole

EVERY_LANE = "all"  # of a server whose queue is paused
NAME = re.compile(r"[a-z0-9][a-z0-9.:/-]{0,199}")
_LIMIT_BYTES = 1 << 20

log = structlog.get_logger()


class Cordons:
    """The file. names: those of the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None  # of the file that was read last
        self.names: frozenset[str] = frozenset()

    def look(self) -> bool:
        """Read the file if it is another one than before; whether the names have changed. One that makes no sense changes nothing."""
        try:
            known = self._path.stat()
            seen = (known.st_ino, known.st_mtime_ns)
            if seen == self._seen:
                return False
            self._seen, found = seen, _names(self._path)
        except FileNotFoundError:
            self._seen, found = None, frozenset[str]()
        except (OSError, ValueError) as error:
            log.error("cordons_not_read", file=str(self._path), error=str(error))
            return False
        changed, self.names = found != self.names, found
        return changed

    def add(self, name: str) -> None:
        """Cordon this lane or worker."""
        self._write(_present(self._path) | {name})

    def remove(self, name: str) -> bool:
        """Let it work again; whether it was cordoned."""
        found = _present(self._path)
        if name not in found:
            return False
        self._write(found - {name})
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
    found = json.loads(path.read_bytes())
    if not isinstance(found, list) or not all(isinstance(name, str) and NAME.fullmatch(name) for name in found):
        raise ValueError("it is not a list of names")
    return frozenset(found)
