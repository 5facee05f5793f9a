"""Waits for what other tasks, threads and processes do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

LIMIT_S = 300.0  # of a busy machine


async def until(look: Callable[[], Any]) -> Any:
    """Call this again and again, and return what it returns, awaited, once that is true."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            seen = look()
            if inspect.isawaitable(seen):
                seen = await seen
            if seen:
                return seen
            await asyncio.sleep(0.01)
