"""A fleet for the modules whose submissions are graded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from tests.local_grading import local_fleet


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def fleet() -> AsyncIterator[LocalFleet]:
    """Start one judge for all submissions of a module."""
    async with local_fleet("process") as started:
        yield started
