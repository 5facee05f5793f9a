"""Which quarantined lanes an operator wants to be looked at now: a file of the state directory, written by a command, read by a server."""

from __future__ import annotations

import json
import time
from pathlib import Path

import structlog

from grader.artifacts.store import make_private, write_whole

KEPT_NS = 3600 * 10**9  # how long a request stays in the file, for a server whose host is busy
_LIMIT_BYTES = 1 << 20

log = structlog.get_logger()


class RecheckRequests:
    """The file: names of lanes and workers, and when each was named last. What is in it at the start is of earlier servers."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = self._read()

    def new(self) -> frozenset[str]:
        """The names that were added since the last call. None where the file makes no sense."""
        found = self._read()
        names = frozenset(name for name, time_ns in found.items() if self._known.get(name) != time_ns)
        self._known = found
        return names

    def add(self, name: str) -> None:
        """Ask for a look at this lane, or at all quarantined lanes of this worker. OSError where it can't be written."""
        now_ns = time.time_ns()
        kept = {one: time_ns for one, time_ns in self._read().items() if now_ns - time_ns < KEPT_NS}
        make_private(self._path.parent, "state_dir")
        write_whole(self._path, json.dumps(kept | {name: now_ns}).encode())

    def _read(self) -> dict[str, int]:
        try:
            if self._path.stat().st_size > _LIMIT_BYTES:
                raise ValueError("it is too large")
            found = json.loads(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            log.error("rechecks_not_read", file=str(self._path), error=str(error))
            return {}
        if not isinstance(found, dict):
            return {}
        return {name: time_ns for name, time_ns in found.items() if isinstance(time_ns, int)}
