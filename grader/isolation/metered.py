"""An isolation that tells an observer how long its boxes took to start."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from grader.isolation import Availability, Box, BoxSpec, Isolation
from grader.observability.observer import Observer


class ObservedIsolation:
    """Another isolation, watched."""

    def __init__(self, isolation: Isolation) -> None:
        self.NAME, self.SAFE = isolation.NAME, isolation.SAFE
        self._observer, self._isolation = Observer(), isolation

    def observe(self, observer: Observer) -> None:
        """Tell this observer from now on."""
        self._observer = observer

    async def check(self) -> Availability:
        """As the isolation does."""
        return await self._isolation.check()

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        """As the isolation does; a box that nobody waits for any more while it starts is not counted."""
        begun, counted = time.monotonic(), False
        try:
            async with self._isolation.start(spec) as box:
                counted = True
                self._observer.box_started(spec.purpose, time.monotonic() - begun, failed=False)
                yield box
        except Exception:
            if not counted:
                self._observer.box_started(spec.purpose, time.monotonic() - begun, failed=True)
            raise

    async def fingerprint(self) -> str:
        """As the isolation does."""
        return await self._isolation.fingerprint()

    async def sweep(self) -> int:
        """As the isolation does."""
        return await self._isolation.sweep()
