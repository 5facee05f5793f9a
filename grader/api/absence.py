"""How long a call waits for a server that is away, such as during a restart."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

PAUSE_FIRST_S, PAUSE_MOST_S, PAUSE_GROWTH = 0.5, 5.0, 1.5
UNREPORTED_S = 1.0  # a shorter absence is not worth a line


class ServerAbsence:
    """What one call has seen of a server that is away. report: gets a sentence where that lasts, and where it is over."""

    def __init__(self, address: str, report: Callable[[str], None]) -> None:
        self._address, self._report = address, report
        self._since_s: float | None = None
        self._pause_s, self._reported = PAUSE_FIRST_S, False

    def end(self) -> None:
        """The server has answered."""
        if self._reported:
            self._report(f"{self._address} answers again")
        self._since_s, self._pause_s, self._reported = None, PAUSE_FIRST_S, False

    async def wait(self, limit_s: float, began_s: float | None = None) -> bool:
        """Pause before another try; False, at once, where the server has been away for limit_s. began_s: when it was first missed."""
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now_s if began_s is None else began_s
        away_s = now_s - self._since_s
        if away_s >= limit_s:
            return False
        if away_s >= UNREPORTED_S and not self._reported:
            self._reported = True
            self._report(f"no answer from {self._address}; waiting until it is back, for up to {_length(limit_s)}")
        await asyncio.sleep(self._pause_s * random.uniform(1.0, 1.2))  # not all clients at the same time
        self._pause_s = min(self._pause_s * PAUSE_GROWTH, PAUSE_MOST_S)
        return True


def _length(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"
