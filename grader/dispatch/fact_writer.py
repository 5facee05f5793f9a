"""Writes an attempt's facts down while the next ones come: what comes during one transaction goes into the next, together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from sandbox.protocol import wire

MOST_WAITING = 64  # facts; an attempt with more waits for the disk


class Recorder:
    """Facts in their order. Made by `recording`."""

    def __init__(self, append: Callable[[Sequence[wire.Fact]], Awaitable[None]]) -> None:
        self._append = append
        self._waiting: list[wire.Fact] = []
        self._writing: asyncio.Task[None] | None = None
        self._kept = False

    async def add(self, fact: wire.Fact) -> None:
        """Take a fact; raises what the writing of an earlier one raised."""
        if self._writing is not None and self._writing.done():
            self._writing.result()
            self._writing = None
        self._waiting.append(fact)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        if len(self._waiting) >= MOST_WAITING:
            await asyncio.wait([self._writing])

    async def flush(self) -> None:
        """Return when all of it is on disk; raises what the writing raised."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.result()

    async def drain(self) -> Sequence[wire.Fact]:
        """The last facts, which the caller writes down itself; nothing is added after this. Raises what the writing raised."""
        self._kept = True
        await self.flush()
        drain, self._waiting = self._waiting, []
        return drain

    async def settle(self) -> None:
        """Return when nothing is being written any more, however that went."""
        self._waiting.clear()
        if self._writing is not None:
            await asyncio.wait([self._writing])
            if not self._writing.cancelled():
                self._writing.exception()  # seen: anyone who has to know it has been notified, or is being stopped

    async def _write(self) -> None:
        while self._waiting and not self._kept:
            batch, self._waiting = self._waiting, []
            await self._append(batch)


@asynccontextmanager
async def recording(append: Callable[[Sequence[wire.Fact]], Awaitable[None]]) -> AsyncIterator[Recorder]:
    """A recorder; left without an exception, all is on disk."""
    recorder = Recorder(append)
    try:
        try:
            yield recorder
        finally:
            await recorder.flush()  # after a fault of ours too: what was found out before it stays readable
    finally:
        await recorder.settle()
