"""The seam between what works and what watches it: metrics and traces.  An observer returns at once, and sees no sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from grader.model import Failure, Lease, Report
from sandbox.protocol import wire


class LaneState(StrEnum):
    """State of a lane."""

    FREE = "free"
    TAKEN = "taken"
    CHECKING = "checking"  # its device is being checked after a job
    QUARANTINED = "quarantined"
    CORDONED = "cordoned"  # an operator lets it end what it has, and gives it nothing more


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneNow:
    """A lane as it is now. name: cuda:0, where 0 is the GPU as `nvidia-smi` counts, or emulated:0."""

    name: str
    state: LaneState


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmNow:
    """Run boxes that wait for a job, and how many jobs so far got one of those and how many a new one."""

    waiting_count: int = 0
    hit_count: int = 0
    miss_count: int = 0


class StopReason(StrEnum):
    """Why an attempt ended with neither a report nor a failure of ours."""

    CANCELLED = "cancelled"
    DRAINED = "drained"
    LEASE_LOST = "lease_lost"
    NOT_SETTLED = "not_settled"  # the ledger did not take its end: the next worker that has the lease does the work


Ended = Report | Failure | StopReason


class Observer:
    """Does nothing on any event; a subclass overrides what it watches."""

    def attempt_began(self, lease: Lease) -> str:
        """An attempt was leased. The answer is the id of its trace, for its log lines; "" where there is none."""
        return ""

    def fact_found(self, lease: Lease, fact: wire.Fact) -> None:
        """A fact of an attempt came."""

    def attempt_ended(self, lease: Lease, ended: Ended) -> None:
        """An attempt is over, once for each that began."""

    def leases_expired(self, count: int) -> None:
        """So many leases that expired were ended."""

    def box_started(self, purpose: str, duration_s: float, failed: bool) -> None:
        """A box was asked for, and is there or could not be had."""

    def call_began(self, method: str) -> None:
        """A call of the API came."""

    def call_ended(self, method: str, code: str, duration_s: float) -> None:
        """A call of the API was answered; code is a gRPC status by name."""


class Observers(Observer):
    """Passes each event on to several observers. The answer is the first that there is."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        for event in [name for name in vars(Observer) if not name.startswith("_")]:
            setattr(self, event, partial(self._tell, [getattr(observer, event) for observer in observers]))

    def _tell(self, methods: Sequence[Callable[..., str | None]], *arguments: object, **named: object) -> str:
        answers = [method(*arguments, **named) for method in methods]
        return next(filter(None, answers), "")


def attempt_key(lease: Lease) -> tuple[str, int]:
    """Return the key of an attempt among all attempts."""
    return lease.submission.submission_id, lease.attempt
