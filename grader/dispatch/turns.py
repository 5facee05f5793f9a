"""Keeps processes that meet a competition's secret workloads apart from those whose text or figures are shown.

Boxes that live at the same time can tell each other things: by pages of shared files, and by how long everything takes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Any amount of work of one kind is under way at a time, and none of the other. Use on one event loop only.

    Newcomers wait too while work of the other kind waits, so that neither kind is kept from its turn.
    """

    def __init__(self) -> None:
        self._secret, self._count = False, 0
        self._waiting: list[tuple[bool, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def take(self, *, secret: bool) -> AsyncIterator[None]:
        """Wait until no work of the other kind is under way, and hold it off until the context is left."""
        waiter = secret, asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter[1]
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._count -= 1
            self._admit()

    def _admit(self) -> None:
        if not self._waiting or (self._count and any(secret is not self._secret for secret, _ in self._waiting)):
            return
        if not self._count:
            self._secret = self._waiting[0][0]
        for waiter in [waiter for waiter in self._waiting if waiter[0] is self._secret]:
            self._waiting.remove(waiter)
            self._count += 1
            if not waiter[1].done():
                waiter[1].set_result(None)
