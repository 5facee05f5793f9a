"""When, and how many, submissions a user may make.  Pure; the ledger asks in the transaction that adds one, and counts what was made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AdmissionCheck = Callable[[Any, datetime, str], None]  # of a connection to the ledger, the time, and the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """At most limit submissions of one user in every window of time; of one competition, or of all where competition_id is None."""

    limit: int
    window: timedelta
    period: str  # as an error says it
    competition_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaUse:
    """How many of a quota are used. next_time: when the oldest of them leaves the window."""

    quota: Quota
    used_count: int
    next_time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionPolicy:
    """Conditions under which a submission is stored."""

    admit: AdmissionCheck | None = None  # asked in the transaction that stores the submission; it raises what refuses it
    quotas: tuple[Quota, ...] = ()
    user_queue_limit: int | None = None  # how many of one user's may wait at a time; None: as many as of all


def shown_time(time: datetime) -> str:
    """A time as errors say it, in UTC."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def for_server(hourly_limit: int, daily_limit: int, competition_id: str | None = None) -> tuple[Quota, ...]:
    """Return what the server, or a competition, allows each user; 0 is any number."""
    limits = ((hourly_limit, HOUR, "in an hour"), (daily_limit, DAY, "in a day"))
    return tuple(
        Quota(limit=limit, window=window, period=period, competition_id=competition_id) for limit, window, period in limits if limit
    )
