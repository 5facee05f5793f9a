"""Where submissions are in the queue, for all who ask: the queue is read once for everybody, and never more than a share of the time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from grader.ledger import Ledger
from grader.ledger.queue import positions
from grader.model import Position

WATCH_S = 1.0  # how old an answer may be to those who watch
FIRST_S = 0.3  # so long a submission waits before its position is sent to watchers: most wait less
PAUSE_S = 2.0  # between two answers to one watcher
PATIENCE_S = 0.25  # what it may take to answer GetSubmission
REST_MOST_S = 10.0  # and then it is, however long reading takes
SHARE = 20.0  # so many times as long as reading the queue took, it is not read again
_NOTICED = 0.25  # by how much an estimate has to change to be sent again


class Positions:
    """Used on one event loop only. lane_count: how many submissions are graded at once here."""

    def __init__(self, ledger: Ledger, lane_count: Callable[[], int]) -> None:
        self._ledger, self._lane_count = ledger, lane_count
        self._known: Mapping[str, Position] = {}
        self._read_s, self._took_s = -1e9, 0.0
        self._reading = asyncio.Lock()

    async def of(self, submission_id: str, *, patience_s: float = 0.0) -> Position | None:
        """Where it is; None where it does not wait, or where it came after the queue was read and that is not so long ago that it may be
        read again within patience_s."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        await self._read_after(asked_s - self._rest_s)
        if submission_id not in self._known and self._read_s < asked_s and patience_s > 0:
            wait_s = self._read_s + self._rest_s - asked_s
            if wait_s <= patience_s:
                await asyncio.sleep(max(wait_s, 0.0))
                await self._read_after(asked_s)
        return self._known.get(submission_id)

    async def cached(self, submission_id: str) -> Position | None:
        """Where it was at most WATCH_S ago: for many who ask again and again."""
        await self._read_after(asyncio.get_running_loop().time() - max(self._rest_s, WATCH_S))
        return self._known.get(submission_id)

    @property
    def _rest_s(self) -> float:
        return min(SHARE * self._took_s, REST_MOST_S)

    async def _read_after(self, time_s: float) -> None:
        """Read the queue, unless it was read after this time."""
        if self._read_s > time_s:
            return
        async with self._reading:
            if self._read_s > time_s:  # somebody read it while we waited
                return
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            snapshot = await self._ledger.queue()
            self._known = positions(snapshot, max(1, self._lane_count()))
            self._read_s, self._took_s = began_s, loop.time() - began_s


class PositionNotifier:
    """Tells one watcher: when its submission's position has changed, and not too often."""

    def __init__(self, of: Positions, submission_id: str) -> None:
        self._of, self._submission_id = of, submission_id
        self._reported: Position | None = None
        self._reported_s = -1e9

    @property
    def idle_timeout_s(self) -> float:
        """How long nothing else may happen before it is worth asking."""
        return WATCH_S if self._reported else FIRST_S

    async def news(self) -> Position | None:
        """Return what there is to tell."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s < PAUSE_S:
            return None
        position = await self._of.cached(self._submission_id)
        if position is None or not differs(position, self._reported):
            return None
        self._reported, self._reported_s = position, now_s
        return position


def differs(position: Position, before: Position | None) -> bool:
    """Return whether the position differs enough from the last one that was sent."""
    if before is None or position.ahead_count != before.ahead_count:
        return True
    if position.estimated_s is None or before.estimated_s is None:
        return position.estimated_s is not before.estimated_s
    return abs(position.estimated_s - before.estimated_s) > max(_NOTICED * before.estimated_s, 1.0)
