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
        self._answers: dict[tuple[object, ...], asyncio.Task[tuple[Any, float]]] = {}

    async def get(self, key: tuple[object, ...], make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the answer for this key, made again at most once in a while, and once for all who ask meanwhile, who share a failure."""

        async def timed() -> tuple[T, float]:
            return await make(), asyncio.get_running_loop().time()

        answer = self._answers.get(key)
        if answer is None or self._over(answer):
            self._answers.pop(key, None)
            self._answers = {name: saved for name, saved in list(self._answers.items())[1 - LIMIT :] if not self._over(saved)}
            self._answers[key] = answer = asyncio.create_task(timed())
        return cast("tuple[T, float]", await asyncio.shield(answer))[0]

    def _over(self, answer: asyncio.Task[tuple[Any, float]]) -> bool:
        if not answer.done():
            return False
        failed = answer.cancelled() or answer.exception() is not None
        return failed or asyncio.get_running_loop().time() - answer.result()[1] >= self.seconds

    def clear(self) -> None:
        """Have everything made again: an organiser sees at once what a change did."""
        self._answers = {}
