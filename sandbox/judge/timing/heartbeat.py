"""Signs of life: a judge that says nothing for too long is taken for dead (`grader/dispatch/judge_process.py`, SILENCE_S)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sandbox.protocol import wire

SIGN_S = 20.0


class Heartbeat:
    """Says once more what is being done where nothing was said for SIGN_S; made when something was."""

    def __init__(self, stage: wire.Stage, workload_id: str | None = None) -> None:
        self._fact, self._said = wire.Progress(stage=stage, workload_id=workload_id), time.monotonic()

    def emit_if_due(self) -> Iterator[wire.Progress]:
        """Emit it, if it is time."""
        if time.monotonic() - self._said >= SIGN_S:
            self._said = time.monotonic()
            yield self._fact
