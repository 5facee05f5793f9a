"""Waits for what other tasks, threads and processes do."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from grader.ledger import Ledger
from grader.model import Submission, SubmissionState

LIMIT_S = 300.0  # of a busy machine


async def until(look: Callable[[], Any]) -> Any:
    """Call this again and again, and return what it returns, awaited, once that is true."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            value = look()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.01)


async def until_event(ledger: Ledger, submission: Submission, wanted: SubmissionState | str) -> Submission:
    """Wait, by news alone, for a state of a submission, or for a fact whose class has this name."""
    with ledger.changes.of(submission.submission_id) as changed:
        while True:
            changed.clear()
            for event in await ledger.events(submission.submission_id):
                if event.state is wanted or type(event.fact).__name__ == wanted:
                    return await ledger.get(submission.submission_id)
            await changed.wait()
