"""Tells the tasks of this process that a submission has news, so that nobody has to poll quickly."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from grader.ledger.news import News, NewsKind


class Changes:
    """Who waits for which submission, and who listens to other servers. Used on one event loop only."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._listeners: list[Callable[[News], None]] = []

    @contextmanager
    def of(self, submission_id: str) -> Iterator[asyncio.Event]:
        """An event that is set at every change; anybody who waits clears it before reading."""
        changed = asyncio.Event()
        self._waiting[submission_id].add(changed)
        try:
            yield changed
        finally:
            self._waiting[submission_id].discard(changed)
            if not self._waiting[submission_id]:
                del self._waiting[submission_id]

    @contextmanager
    def elsewhere(self, listener: Callable[[News], None]) -> Iterator[None]:
        """Call listener with all that other servers did."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def notify(self, submission_id: str) -> None:
        """Wake all that wait for this submission."""
        for changed in self._waiting.get(submission_id, ()):
            changed.set()

    def hear(self, news: News) -> None:
        """Pass on what another server did."""
        for submission_id in list(self._waiting) if news.kind is NewsKind.MISSED else [news.submission_id]:
            self.notify(submission_id)
        for listener in self._listeners:
            listener(news)
