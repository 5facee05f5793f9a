"""Finishes what must not be left half done, and only then lets a cancellation through."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def finish_despite_cancel(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end even if this task is cancelled meanwhile; then raise the cancellation."""
    return await settled(asyncio.ensure_future(work))


async def settled(task: asyncio.Task[Result]) -> Result:
    """Wait until `task` has ended, whatever happens to us meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as forgotten
        raise cancelled
    return task.result()
