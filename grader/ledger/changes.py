"""Tells the tasks of this process, and other servers that follow it, that a submission has news, so that nobody has to poll quickly.

PostgreSQL passes news on by NOTIFY, which is written by one transaction at a time and wakes every server. So a server tells no other of
what was submitted to it, until another says that it follows that submission; nor that it is queued, where it takes it itself.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
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
SERVER = "grader_server"  # in a connection's info: the Changes of the server that it is of
PRIVATE_LIMIT = 10_000


class NewsKind(StrEnum):
    """Event that a notification is about."""

    CHANGED = "changed"  # there is a new event
    QUEUED = "queued"  # there is something to lease
    CANCELLING = "cancelling"  # one that runs is to be stopped
    FOLLOWED = "followed"  # a server wants to hear of changes
    MISSED = "missed"  # nobody knows: the connection was away for a while


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Something that happened to a submission; of MISSED, to any."""

    kind: NewsKind
    submission_id: str = ""


def tell(connection: sa.Connection, kind: NewsKind, submission_id: str) -> None:
    """Tell the other servers by PostgreSQL's NOTIFY, if this commits. SQLite has no others."""
    changes: Changes | None = connection.info.get(SERVER)
    if connection.dialect.name == "postgresql" and not (kind is NewsKind.CHANGED and changes and changes.private(submission_id)):
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (CHANNEL, f"{changes.origin if changes else ''} {kind} {submission_id}"))


class ManyChanges:
    """Collects what changed of many submissions until it is read. user, tag: which new submissions it hears of; tag "": none."""

    def __init__(self, user: str, tag: str, tell_others: Callable[[Sequence[str]], None]) -> None:
        self._user, self._tag, self._tell_others = user, tag, tell_others
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
        self._changed.update(dict.fromkeys(self.followed))
        self.maybe_new = bool(self._tag)
        self.news.set()

    def follow(self, submission_ids: Sequence[str]) -> None:
        """Collect what changes of these from now on. How they are now counts as a change."""
        self.followed.update(submission_ids)
        self._changed.update(dict.fromkeys(submission_ids))
        self._tell_others(submission_ids)

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
    """Waiters for submissions, and listeners to other servers. Used on one event loop only, but for `private`.

    takes: whether this server takes up what asks for a device, and tells others where it has no room. say: tells others, soon.
    """

    def __init__(self) -> None:
        self.origin = secrets.token_hex(8)
        self.leaving = False  # streams are to end: what is written is sent, then clients are asked to come again
        self.takes: Callable[[str], bool] = lambda device_kind: False
        self.say: Callable[[NewsKind, Sequence[str]], None] = lambda kind, submission_ids: None
        self._private: dict[str, bool] = {}  # False: no more, but a transaction that began before may not have told of it
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
        return _membership(self._many, ManyChanges(user, tag, self.follow))

    def followed(self, submission_id: str) -> bool:
        """Return whether somebody here waits for facts of a submission, or somebody at another server may."""
        return submission_id in self._waiting or not self.private(submission_id)

    def private(self, submission_id: str) -> bool:
        """Return whether a submission was made here and no other server follows it."""
        return self._private.get(submission_id, False)

    def make_private(self, submission_id: str) -> None:
        """Tell nobody of a submission that is about to be made, until somebody follows it."""
        self._private[submission_id] = True
        if len(self._private) > PRIVATE_LIMIT:
            del self._private[next(iter(self._private))]

    def miss(self) -> None:
        """News of other servers may have been lost: what they follow, too. So they look again, as all do here."""
        if any(self._private.values()):
            self.say(NewsKind.MISSED, [""])
        self._private = dict.fromkeys(self._private, False)
        self.hear(News(kind=NewsKind.MISSED))

    def leave(self) -> None:
        """Wake all that wait, so that they end."""
        self.leaving = True
        for news in [*itertools.chain.from_iterable(self._waiting.values()), *(many.news for many in self._many)]:
            news.set()

    def follow(self, submission_ids: Sequence[str]) -> None:
        """Have other servers tell of changes of these, and of one at once where there was one before they heard of it."""
        if foreign := [submission_id for submission_id in submission_ids if not self.private(submission_id)]:
            self.say(NewsKind.FOLLOWED, foreign)

    def receive(self, payload: str) -> None:
        """Hear what another server says; what this one has said itself, and what says nothing to us, is left out."""
        origin, kind, submission_id = [*payload.split(" ", 2), "", ""][:3]
        if origin != self.origin and kind in set(NewsKind):
            self.hear(News(kind=NewsKind(kind), submission_id=submission_id))

    def elsewhere(self, listener: Callable[[News], None]) -> AbstractContextManager[object]:
        """Call listener with all that other servers did."""
        return _membership(self._listeners, listener)

    def notify(self, submission_id: str, *, moved: bool = True) -> None:
        """Wake all that wait for this submission. moved: its state changed."""
        if self._private.get(submission_id) is False:
            del self._private[submission_id]
            self.say(NewsKind.CHANGED, [submission_id])
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
        if news.kind is NewsKind.FOLLOWED:
            if self.private(news.submission_id):  # what changed before this was heard is told now
                self._private[news.submission_id] = False
                self.say(NewsKind.CHANGED, [news.submission_id])
            return
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
