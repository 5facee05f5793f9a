"""Removes, once a day, what a server keeps for a time only; see `grader/ledger/retention.py` for what stays.

Several servers on one ledger may all do it: what one has removed the next finds gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

import structlog

from grader.artifacts.files import SubmissionFiles
from grader.errors import GraderFault
from grader.ledger import Ledger
from grader.model import Competition

log = structlog.get_logger()

FIRST_S = 60.0  # after the start, when whatever waited is under way
EVERY_S = 24 * 3600.0
PAUSE_S = 0.05  # between batches, for others that want to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """How long what is kept; None: for ever."""

    sources: timedelta | None = None
    events: timedelta | None = None
    artifacts: timedelta | None = None

    @classmethod
    def of_days(cls, sources_days: int, events_days: int, artifacts_days: int = 0) -> Periods:
        """From settings, where 0 is for ever."""
        days = (sources_days, events_days, artifacts_days)
        sources, events, artifacts = (timedelta(days=count) if count else None for count in days)
        return cls(sources=sources, events=events, artifacts=artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Of how many submissions sources, and facts, were removed, and how many files that submissions left."""

    sources: int = 0
    events: int = 0
    artifacts: int = 0


async def retain(
    ledger: Ledger,
    periods: Periods,
    competitions: Callable[[], Iterable[Competition]],
    *,
    first_s: float = FIRST_S,
    files: SubmissionFiles | None = None,
) -> None:
    """Remove what is due every day, until cancelled; returns at once where nothing ever is. files: where those of submissions lie."""
    if periods == Periods():
        return
    await asyncio.sleep(first_s)
    while True:
        try:
            removed = await remove_due(ledger, periods, competitions(), files)
            log.info(
                "retention_done",
                sources_removed_count=removed.sources,
                events_removed_count=removed.events,
                artifacts_removed_count=removed.artifacts,
            )
        except GraderFault as error:  # a busy ledger; what is left is removed the next time
            log.warning("retention_failed", reason=error.reason, detail=error.detail)
        await asyncio.sleep(EVERY_S)


async def remove_due(
    ledger: Ledger, periods: Periods, competitions: Iterable[Competition], files: SubmissionFiles | None = None
) -> Removed:
    """Remove what is due now."""
    now, all_competitions = ledger.now(), tuple(competitions)
    counts = []
    for period, remove in ((periods.sources, ledger.retention.remove_sources), (periods.events, ledger.retention.remove_events)):
        if period is None:
            counts.append(0)
            continue
        before = now - period
        # As long after a competition's end as after a submission's own: its final may run them again. One that is not known may go on.
        over = tuple(competition.competition_id for competition in all_competitions if competition.end_time < before)
        counts.append(await _in_batches(partial(remove, before, over)))
    artifacts = await _remove_artifacts(ledger, now - periods.artifacts) if periods.artifacts is not None else 0
    if files is not None:
        await files.remove_unknown(ledger.artifacts.unknown)
    return Removed(sources=counts[0], events=counts[1], artifacts=artifacts)


async def _remove_artifacts(ledger: Ledger, before: datetime) -> int:
    total = 0
    while count := await ledger.artifacts.remove_made_before(before):
        total += count
        await asyncio.sleep(PAUSE_S)
    return total


class _Remove(Protocol):
    """Removes one batch; see `Retention`."""

    async def __call__(self, *, after: int) -> tuple[int, int]:
        """The last number of it, and how many submissions were changed."""


async def _in_batches(remove: _Remove) -> int:
    total, after, last = 0, -1, 0
    while last > after:
        after = last
        last, count = await remove(after=after)
        total += count
        await asyncio.sleep(PAUSE_S if last > after else 0)
    return total
