"""A thread that writes.  Transactions that wait at the same time reach the disk by one commit; each still succeeds or fails by itself.

Work may be run more than once, and is on disk once. A commit waits for the disk, some milliseconds; what a
transaction does takes a tenth of that (docs/decisions/0004).
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import sqlalchemy as sa

from grader.model import WriteTotals

MAX_BATCH_SIZE = 64

T = TypeVar("T")
Work = Callable[[sa.Connection], Any]
Answer = tuple[asyncio.Future[Any], Any, Exception | None]


class GroupCommit:
    """Runs functions on a connection, in the order of the calls."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        self._engine = engine
        self._waiting: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._closed = False
        self.totals = WriteTotals()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[sa.Connection], T]) -> asyncio.Future[T]:
        """Run work in a transaction; the future is done when that is on disk, or when work raised and left nothing behind.

        Called on an event loop, on which the future is done. One that is cancelled before its turn is not run.
        """
        if self._closed:
            raise RuntimeError("closed")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.put((work, future))
        return future

    def close(self) -> None:
        """Return when all that was submitted is done."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < MAX_BATCH_SIZE and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    self._waiting.put(None)  # the end, once this batch is done
                    break
                batch.append(following)
            begun_s, before = time.perf_counter(), self.totals
            self._commit([(work, future) for work, future in batch if not future.cancelled()])
            self.totals = WriteTotals(
                commit_count=before.commit_count + 1,
                transaction_count=before.transaction_count + len(batch),
                busy_s=before.busy_s + time.perf_counter() - begun_s,
            )

    def _commit(self, batch: list[tuple[Work, asyncio.Future[Any]]]) -> None:
        """All in one transaction. Where one of them raises, all are run again, each in a savepoint: those take as long as the work."""
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[Answer]] = defaultdict(list)
        for answer in self._together(batch) or self._each(batch):
            by_loop[answer[0].get_loop()].append(answer)
        for loop, answers in by_loop.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_tell, answers)  # together: waking a loop takes longer than telling one more

    def _together(self, batch: list[tuple[Work, asyncio.Future[Any]]]) -> list[Answer]:
        """Their answers; none where several are there and one raised. A commit that failed is not tried again: it may be on disk."""
        answers: list[Answer] = []
        try:
            with self._engine.begin() as connection:
                answers = [(future, work(connection), None) for work, future in batch]
        except Exception as error:  # noqa: BLE001  anybody who waits for it gets it
            return [(future, None, error) for _, future in batch] if answers or len(batch) == 1 else []
        return answers

    def _each(self, batch: list[tuple[Work, asyncio.Future[Any]]]) -> list[Answer]:
        answers: list[Answer] = []
        try:
            with self._engine.begin() as connection:
                for work, future in batch:
                    try:
                        with connection.begin_nested():
                            answer = work(connection)
                        answers.append((future, answer, None))
                    except Exception as error:  # noqa: BLE001  as above
                        answers.append((future, None, error))
        except Exception as error:  # noqa: BLE001  as above: nothing of it is on disk
            return [(future, None, error) for _, future in batch]
        return answers


def _tell(answers: list[Answer]) -> None:
    for future, answer, failure in answers:
        if future.done():  # cancelled meanwhile
            continue
        if failure is None:
            future.set_result(answer)
        else:
            future.set_exception(failure)
