"""Answers that are good for a while, made once for all who ask: anybody may ask for a board, as often as they like."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

STANDARD_S, LIMIT = 2.0, 100  # how long an answer is good; how many there are

T = TypeVar("T")


class Recent:
    """Answers by key, the oldest first. A key has nothing in it that a caller can make up. seconds: how long each is good."""

    def __init__(self, seconds: float = STANDARD_S) -> None:
        self.seconds = seconds
        self._answers: dict[tuple[object, ...], tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: tuple[object, ...], make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer for this key, made again at most once in a while, and once for all who ask meanwhile."""
        now = asyncio.get_running_loop().time()
        answer = self._answers.get(key)
        if answer is None or answer[0] <= now:
            self._answers.pop(key, None)
            self._answers = {name: saved for name, saved in list(self._answers.items())[1 - LIMIT :] if saved[0] > now}
            self._answers[key] = answer = (now + self.seconds, asyncio.ensure_future(make()))
        return await asyncio.shield(cast("asyncio.Task[T]", answer[1]))

    def clear(self) -> None:
        """Have everything made again: an organiser sees at once what a change did."""
        self._answers = {}
