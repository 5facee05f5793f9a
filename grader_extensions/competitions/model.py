"""Competitions, and what happens while they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from grader.model import Ranking
from sandbox.protocol import wire


class TieRule(StrEnum):
    """How entries whose intervals overlap are put."""

    SHARE = "share"
    EARLIEST = "earliest"  # they share a rank, the first to hand in is listed first


class Visibility(StrEnum):
    """Visibility of sources and reports to others."""

    PRIVATE = "private"
    AFTER_END = "after_end"


class Phase(StrEnum):
    """Where a competition is in its life."""

    UPCOMING = "upcoming"
    OPEN = "open"
    FROZEN = "frozen"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Competition:
    """Problems that users compete on in a window of time. Times have zones; end_time is exclusive."""

    competition_id: str
    title: str
    problem_ids: tuple[str, ...]
    start_time: datetime
    end_time: datetime
    device_kinds: tuple[str, ...] = ("cuda",)
    freeze_time: datetime | None = None
    mode: wire.Mode = wire.Mode.RANKED
    hourly_limit: int = 0  # 0: none but the server's
    daily_limit: int = 0
    ranking: Ranking = field(default_factory=Ranking)
    tie_rule: TieRule = TieRule.SHARE
    visibility: Visibility = Visibility.PRIVATE
    statement: str = ""
    color: str = ""  # of the band with the title; "": as the page
    logo: Path | None = None
    rules: Mapping[str, str] = field(default_factory=dict)  # what counts as right, by problem; a board has entries of this rule only
    # By problem; never shown, and in no traceback.
    secret_workloads: Mapping[str, tuple[wire.Workload, ...]] = field(default_factory=dict, repr=False)
    secret_seed: str = field(default="", repr=False)  # what sizes are drawn with, and what keys the digests of problems

    def phase(self, now: datetime) -> Phase:
        """Where it is at this time."""
        if now < self.start_time:
            return Phase.UPCOMING
        if now >= self.end_time:
            return Phase.ENDED
        return Phase.FROZEN if self.freeze_time is not None and now >= self.freeze_time else Phase.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """That a user may not take part in a competition. administrator: who did it; submission_count: how many the user has in it."""

    competition_id: str
    user: str
    reason: str
    create_time: datetime
    administrator: str
    submission_count: int = 0


class ActionKind(StrEnum):
    """Action while a competition runs."""

    WITHDRAWN = "withdrawn"
    RESTORED = "restored"
    BANNED = "banned"
    BAN_LIFTED = "ban_lifted"
    FILE_RELOADED = "file_reloaded"
    ANNOUNCED = "announced"  # in records of earlier versions only, as the next
    ANNOUNCEMENT_DELETED = "announcement_deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetitionAction:
    """Action of an organiser, or of the owner of a submission. user: who acted; subject: to which submission, user or file."""

    competition_id: str
    kind: ActionKind
    user: str
    subject: str
    reason: str
    create_time: datetime
