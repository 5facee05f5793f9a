"""Tells the tasks of this process that a submission has news, so that nobody has to poll quickly."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import sqlalchemy as sa

from grader.model import NewSubmission

T = TypeVar("T")

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
    """Tell the other servers by PostgreSQL's NOTIFY, if this commits. SQLite has no others."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, f"{connection.info.get(ORIGIN, '')} {kind} {submission_id}"))


def heard(payload: str, own_origin: str) -> News | None:
    """Return what a payload says; None where it is this server's own, or says nothing to us."""
    origin, _, rest = payload.partition(" ")
    kind, _, submission_id = rest.partition(" ")
    if origin == own_origin or kind not in set(NewsKind):
        return None
    return News(kind=NewsKind(kind), submission_id=submission_id)


class ManyChanges:
    """Collects what changed of many submissions until it is read. user, tag: which new submissions it hears of; tag "": none."""

    def __init__(self, user: str, tag: str) -> None:
        self._user, self._tag = user, tag
        self.followed: set[str] = set()
        self._changed: dict[str, None] = {}  # in the order in which it came
        self.maybe_new = bool(tag)  # there may be submissions with the tag that are not followed yet
        self.news = asyncio.Event()

    def hear(self, submission_id: str) -> None:
        """The state of a submission changed."""
        if submission_id in self.followed:
            self._changed[submission_id] = None
            self.news.set()

    def hear_new(self, new_submission: NewSubmission | None) -> None:
        """There is a new submission; None: on another server."""
        if self._tag and (new_submission is None or (new_submission.user == self._user and self._tag in new_submission.tags)):
            self.maybe_new = True
            self.news.set()

    def hear_all(self) -> None:
        """Anything may have happened."""
        self.follow(list(self.followed))
        self.maybe_new = bool(self._tag)
        self.news.set()

    def follow(self, submission_ids: Sequence[str]) -> None:
        """Collect what changes of these from now on. How they are now counts as a change."""
        self.followed.update(submission_ids)
        self._changed.update(dict.fromkeys(submission_ids))

    def take(self, limit: int) -> list[str]:
        """Return what changed, to be looked at now."""
        numbers = list(itertools.islice(self._changed, limit))
        for submission_id in numbers:
            del self._changed[submission_id]
        return numbers

    def finish(self, submission_id: str) -> None:
        """Nothing can happen to it any more."""
        self.followed.discard(submission_id)
        self._changed.pop(submission_id, None)

    @property
    def pending(self) -> bool:
        """Return whether there is something to look at."""
        return bool(self._changed) or self.maybe_new


@contextmanager
def _membership(group: set[T], member: T) -> Iterator[T]:
    """Have a member in a group for a while."""
    group.add(member)
    try:
        yield member
    finally:
        group.discard(member)


class Changes:
    """Waiters for submissions, and listeners to other servers. Used on one event loop only."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._listeners: set[Callable[[News], None]] = set()
        self._many: set[ManyChanges] = set()

    @contextmanager
    def of(self, submission_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change; anybody who waits clears it before reading."""
        try:
            with _membership(self._waiting[submission_id], asyncio.Event()) as changed:
                yield changed
        finally:
            if not self._waiting[submission_id]:
                del self._waiting[submission_id]

    def of_many(self, user: str, tag: str) -> AbstractContextManager[ManyChanges]:
        """Yield what changes of many submissions: not that facts were appended to one."""
        return _membership(self._many, ManyChanges(user, tag))

    def elsewhere(self, listener: Callable[[News], None]) -> AbstractContextManager[object]:
        """Call listener with all that other servers did."""
        return _membership(self._listeners, listener)

    def notify(self, submission_id: str, *, moved: bool = True) -> None:
        """Wake all that wait for this submission. moved: its state changed."""
        for changed in self._waiting.get(submission_id, ()):
            changed.set()
        for many in self._many if moved else ():
            many.hear(submission_id)

    def made(self, new_submission: NewSubmission) -> None:
        """Tell of a new submission."""
        for many in self._many:
            many.hear_new(new_submission)

    def hear(self, news: News) -> None:
        """Pass on what another server did."""
        missed = news.kind is NewsKind.MISSED
        for submission_id in list(self._waiting) if missed else [news.submission_id]:
            self.notify(submission_id)
        for many in self._many:
            if missed:
                many.hear_all()
            elif news.kind is NewsKind.QUEUED:
                many.hear_new(None)
        for listener in list(self._listeners):
            listener(news)
