"""Notifications between servers on one database: PostgreSQL's NOTIFY, sent by the transaction that makes the news, when it commits."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy as sa

CHANNEL = "grader"
ORIGIN = "grader_origin"  # in a connection's info: which server it is of


class NewsKind(StrEnum):
    """Event that a notification is about."""

    CHANGED = "changed"  # there is a new event
    QUEUED = "queued"  # there is something to lease
    CANCELLING = "cancelling"  # one that runs is to be stopped
    MISSED = "missed"  # nobody knows: the connection was away for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened to a submission; of MISSED, to any."""

    kind: NewsKind
    submission_id: str = ""


def tell(connection: sa.Connection, kind: NewsKind, submission_id: str) -> None:
    """Tell the other servers, if this commits. SQLite has no others."""
    if connection.dialect.name == "postgresql":
        payload = f"{connection.info.get(ORIGIN, '')} {kind} {submission_id}"
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, payload))


def heard(payload: str, own_origin: str) -> News | None:
    """Return what a payload says; None where it is this server's own, or says nothing to us."""
    origin, _, rest = payload.partition(" ")
    kind, _, submission_id = rest.partition(" ")
    if origin == own_origin or kind not in set(NewsKind):
        return None
    return News(kind=NewsKind(kind), submission_id=submission_id)
