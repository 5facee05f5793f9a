"""Makes the users of a try, each with a key, in the ledger that the servers will open."""

from __future__ import annotations

import asyncio
from pathlib import Path

from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Scope

SCOPES = frozenset({Scope.SUBMIT, Scope.READ})


def make_keys(count: int, state_dir: Path, database: str) -> dict[str, str]:
    """The text of each user's key."""
    return asyncio.run(_make(count, Settings(state_dir=state_dir, database=database)))


async def _make(count: int, settings: Settings) -> dict[str, str]:
    async with Ledger.open(settings.ledger) as ledger:
        return {user: (await ledger.keys.create(user, SCOPES))[1] for user in (f"user{index}" for index in range(count))}
