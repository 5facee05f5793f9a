"""Keeps processes that meet a competition's secret workloads apart from those whose text or figures are shown.

Boxes that live at the same time can tell each other things: by pages of shared files, and by how long everything takes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

GRACE_S = 1.0  # from the end of a build to its run


class Turns:
    """Any amount of work of one kind is under way at a time, and none of the other. Use on one event loop only.

    Newcomers wait too while work of the other kind waits. But after a secret turn shown work goes first for as long as that
    turn took: a kernel chooses how long it takes, and may not keep a host from everybody else.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._secret, self._count = False, 0
        self._begin_s = self._owed_until_s = self._shown_end_s = -math.inf
        self._waiting: list[tuple[bool, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

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
                self._leave()
            self._admit()

    def _leave(self) -> None:
        self._count -= 1
        if self._count:
            return
        if self._secret:
            self._owed_until_s = 2 * self._clock() - self._begin_s
        else:
            self._shown_end_s = self._clock()

    def _admit(self) -> None:
        """Let those in whose turn it is."""
        kinds = [secret for secret, _ in self._waiting]
        owed_s = self._owed_until_s - self._clock()  # how much longer shown work goes first
        if not kinds or (self._count and (not self._secret) in kinds and (self._secret or owed_s <= 0)):
            return
        if not self._count:
            self._secret = False not in kinds if owed_s > 0 else kinds[0]
            pause_s = min(owed_s, self._shown_end_s + GRACE_S - self._clock())
            if self._secret and pause_s > 0:
                self._look_again(pause_s)
                return
            self._begin_s = self._clock()
        for waiter in [waiter for waiter in self._waiting if waiter[0] is self._secret]:
            self._waiting.remove(waiter)
            self._count += 1
            if not waiter[1].done():
                waiter[1].set_result(None)

    def _look_again(self, pause_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(pause_s, self._admit)
