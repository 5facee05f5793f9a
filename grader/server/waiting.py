"""Waiting for the first of several events."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def first_of(*events: asyncio.Event, timeout_s: float) -> None:
    """Wait until one of them is set, or for timeout_s."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s), asyncio.TaskGroup() as group:
            waits = [group.create_task(event.wait()) for event in events]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
