"""The ledger as the server uses it: every method is one transaction."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from grader.ledger import transactions
from grader.ledger.changes import Changes
from grader.ledger.database import Database
from grader.model import Event, Failure, Lease, NewSubmission, Problem, Report, Submission, SubmissionState
from sandbox import wire

_LOST = Failure(reason="LEASE_LOST", message="its worker went away")


def utc_now() -> datetime:
    """The time, with its zone."""
    return datetime.now(UTC)


class Ledger:
    """Submissions and what happened to them. `changes` tells the tasks of this process of news."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now
        self.changes = Changes()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, now: Callable[[], datetime] = utc_now) -> AsyncIterator[Ledger]:
        """Open the ledger in the file path, making or migrating it if need be."""
        async with Database.open(path) as database:
            yield cls(database, now)

    async def submit(self, new: NewSubmission, problem: Problem, *, request_id: str = "", queue_limit: int = 2**31) -> Submission:
        """Take a submission into the queue. A request id that came before gives the submission that it made."""
        made = secrets.token_hex(8)
        return await self._database.write(
            lambda connection: transactions.submit(connection, self._now(), made, new, problem, request_id, queue_limit)
        )

    async def get(self, submission_id: str) -> Submission:
        """One submission, with sources and report; SubmissionNotFound."""
        return await self._database.read(lambda connection: transactions.get(connection, submission_id))

    async def problem(self, digest: str) -> Problem:
        """The problem that a submission was made to."""
        return await self._database.read(lambda connection: transactions.get_problem(connection, digest))

    async def page(
        self, *, size: int, before: int | None = None, problem_id: str = "", states: Sequence[SubmissionState] = ()
    ) -> tuple[list[Submission], int | None]:
        """Submissions, newest first, without sources and with the head of the report; and `before` of the next page."""
        return await self._database.read(lambda connection: transactions.page(connection, size, before, problem_id, states))

    async def events(self, submission_id: str, *, after: int = 0, limit: int = 256) -> list[Event]:
        """Events after a sequence, in order."""
        return await self._database.read(lambda connection: transactions.events_after(connection, submission_id, after, limit))

    async def queued_count(self) -> int:
        """How many wait."""
        return await self._database.read(transactions.queued_count)

    async def cancel(self, submission_id: str) -> Submission:
        """Cancel what waits; ask the worker to stop what runs; AlreadyFinished otherwise."""
        cancelled = await self._database.write(lambda connection: transactions.cancel(connection, self._now(), submission_id))
        self.changes.notify(submission_id)
        return cancelled

    async def lease(self, worker_id: str, *, ttl_s: float, device_kinds: Sequence[str] = ()) -> Lease | None:
        """Take the oldest in the queue that asks for one of these device kinds or for none; None where there is none."""
        now = self._now()
        leased = await self._database.write(
            lambda connection: transactions.lease(connection, now, worker_id, now + timedelta(seconds=ttl_s), device_kinds)
        )
        if leased is not None:
            self.changes.notify(leased.submission.submission_id)
        return leased

    async def heartbeat(self, lease: Lease, *, ttl_s: float) -> bool:
        """Keep the lease; says whether to cancel. LeaseLost like all that follow, once another attempt may have begun."""
        expire_time = self._now() + timedelta(seconds=ttl_s)
        return await self._database.write(lambda connection: transactions.heartbeat(connection, lease, expire_time))

    async def append(self, lease: Lease, facts: Sequence[wire.Fact]) -> None:
        """Write facts of this attempt down."""
        await self._database.write(lambda connection: transactions.append(connection, self._now(), lease, facts))
        self.changes.notify(lease.submission.submission_id)

    async def settle(self, lease: Lease, report: Report) -> Submission:
        """Record the verdict and end the lease."""
        settled = await self._database.write(lambda connection: transactions.settle(connection, self._now(), lease, report))
        self.changes.notify(lease.submission.submission_id)
        return settled

    async def release(self, lease: Lease, failure: Failure, *, counted: bool = True) -> Submission:
        """End the lease without a verdict: QUEUED again, FAILED the third counted time or finally, CANCELLED where asked for."""
        released = await self._database.write(lambda connection: transactions.release(connection, self._now(), lease, counted, failure))
        self.changes.notify(lease.submission.submission_id)
        return released

    async def expire(self) -> list[Submission]:
        """End leases that nobody kept alive, as counted releases."""
        return await self._reclaim(expired_only=True)

    async def reclaim_all(self) -> list[Submission]:
        """End every lease, as counted releases: for the one who has the state directory's lock, so that no other holds one."""
        return await self._reclaim(expired_only=False)

    async def _reclaim(self, expired_only: bool) -> list[Submission]:
        ended = await self._database.write(lambda connection: transactions.reclaim(connection, self._now(), expired_only, _LOST))
        for one in ended:
            self.changes.notify(one.submission_id)
        return ended
