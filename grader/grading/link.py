"""The link between a judge and the runner in a box, as the server keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from grader.isolation import Box


@asynccontextmanager
async def closed_link(box: Box, link: Path) -> AsyncIterator[None]:
    """While inside, tell the judge when the box has ended, so that it does not wait for a runner that never comes."""
    closed = link.with_name(f"{link.name}.closed")
    closed.unlink(missing_ok=True)  # of the box before

    async def watch() -> None:
        await box.wait()
        closed.touch()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
