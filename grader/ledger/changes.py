"""Tells the tasks of this process that a submission has news, so that nobody has to poll quickly."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Changes:
    """Who waits for which submission. Used on one event loop only."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)

    @contextmanager
    def of(self, submission_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change; whoever waits clears it before reading."""
        changed = asyncio.Event()
        self._waiting[submission_id].add(changed)
        try:
            yield changed
        finally:
            self._waiting[submission_id].discard(changed)
            if not self._waiting[submission_id]:
                del self._waiting[submission_id]

    def notify(self, submission_id: str) -> None:
        """Wake all that wait for this submission."""
        for changed in self._waiting.get(submission_id, ()):
            changed.set()
