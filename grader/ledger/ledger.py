"""The ledger as the server uses it: every method is one transaction."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path

import sqlalchemy as sa

from grader.errors import LeaseLost
from grader.ledger import queue, records, statements, transactions
from grader.ledger.changes import Changes
from grader.ledger.database import Database
from grader.ledger.keys import Keys
from grader.ledger.queue import depths, device_demands
from grader.ledger.sqlite import SqliteDatabase
from grader.ledger.statements import ALL_SUBMISSIONS, SubmissionFilter
from grader.ledger.tables import artifacts, judgements, submissions
from grader.model import (
    DeviceDemand,
    Event,
    Failure,
    Judgement,
    Lease,
    NewSubmission,
    Problem,
    QueueDepth,
    Report,
    Submission,
    SubmissionArtifact,
    SubmissionState,
)
from grader.rules.quotas import AdmissionPolicy, Quota, QuotaUse
from sandbox.protocol import wire

ARTIFACT_BATCH = 500
PROBLEM_LIMIT = 64  # that are not read from the database again
_UNLIMITED = AdmissionPolicy()  # at any time, any number
_LOST = Failure(reason="LEASE_LOST", message="the server that graded it ended or was cut off; the submission may be the cause")


class ArtifactRecords:
    """Lists and forgets them. Reached as `ledger.artifacts`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, submission_id: str, *, made_after: datetime | None = None) -> list[SubmissionArtifact]:
        """The files of the latest attempt, by name; only those made after a time, where one is given."""
        query = (
            sa.select(artifacts)
            .join(submissions, sa.and_(submissions.c.number == artifacts.c.number, submissions.c.attempt == artifacts.c.attempt))
            .where(submissions.c.submission_id == submission_id)
            .order_by(artifacts.c.name)
        )
        if made_after is not None:
            query = query.where(artifacts.c.create_time > made_after)
        rows = await self._database.read(lambda connection: connection.execute(query).all())
        return [records.read(SubmissionArtifact, row._mapping) for row in rows]

    async def remove_made_before(self, before: datetime) -> int:
        """Forget files that were made before a time, at most ARTIFACT_BATCH of them; how many there were."""
        key = (artifacts.c.number, artifacts.c.attempt, artifacts.c.name)
        due = sa.select(*key).where(artifacts.c.create_time < before).order_by(artifacts.c.create_time).limit(ARTIFACT_BATCH)

        def work(connection: sa.Connection) -> int:
            rows = [tuple(row) for row in connection.execute(due)]
            if rows:
                connection.execute(sa.delete(artifacts).where(sa.tuple_(*key).in_(rows)))
            return len(rows)

        return await self._database.write(work)

    async def unknown(self, digests: Sequence[str]) -> set[str]:
        """Those of the digests that no file has, at most ARTIFACT_BATCH of them."""
        query = sa.select(artifacts.c.digest).where(artifacts.c.digest.in_(digests))
        return set(digests) - await self._database.read(lambda connection: set(connection.scalars(query)))


class Ledger:
    """Submissions and what happened to them. `changes` tells the tasks of this process of news."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime],
        changes: Changes | None = None,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.database, self.now = database, now  # `now`: the time, by the clock that everything here goes by
        # When the leases of this process end, by a clock that nobody sets. Stored are times that other processes go by.
        self._elapsed_s, self._lease_ends = elapsed_s, dict[transactions.LeaseKey, float]()
        self._turns = itertools.count(1)
        self._problems = dict[str, Problem]()  # some of those in the ledger, by digest: none changes
        self.changes = changes or Changes()
        self.artifacts = ArtifactRecords(database)
        self.keys = Keys(database, now)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        location: Path | str,
        now: Callable[[], datetime] | None = None,
        *,
        server_name: str = "",
        elapsed_s: Callable[[], float] | None = None,
    ) -> AsyncIterator[Ledger]:
        """Open the ledger in a file, or at a URL of PostgreSQL, making or migrating it if need be. The time is the database's; with a `now`
        of the caller's own, seconds pass by that too, unless there is an elapsed_s.
        server_name: a server's `connection_name`, by which `connected_servers` finds it, and which has the file looked at for damage;
        "": this is none."""
        changes = Changes()
        opened: AbstractAsyncContextManager[Database]
        if isinstance(location, Path):
            opened = SqliteDatabase.open(location, checked=server_name != "")
        else:
            postgres = import_module("grader.ledger.postgres")  # a fifth of what a server imports, and few need it
            opened = postgres.PostgresDatabase.open(location, changes, listener_name=server_name or postgres.LISTENER)
        async with opened as database:
            passing = time.monotonic if now is None else lambda: now().timestamp()
            yield cls(database, now or database.now, changes, elapsed_s or passing)

    async def submit(
        self,
        new_submission: NewSubmission,
        problem: Problem,
        *,
        request_id: str = "",
        queue_limit: int = 2**31,
        policy: AdmissionPolicy = _UNLIMITED,
        allow_cached: bool = False,
        share: str = "",
        batch: bool = False,
    ) -> Submission:
        """Put a submission into the queue, under this policy. A request id that came before gives the submission that it made.

        allow_cached: where this user has submitted the same before, it has ended with that result when this returns. share: whose turn in
        the queue it takes; "": the user's. batch: it lets all others go first.
        """
        submission_id = secrets.token_hex(8)
        announced = bool(new_submission.tags) or not self.changes.takes(new_submission.device_kind)  # others may follow a tag
        self.changes.make_private(submission_id)
        submission = new_submission, problem, request_id, queue_limit, policy, allow_cached, share, batch, announced
        submitted = await self.database.write(
            lambda connection: transactions.submit(connection, self.now(), submission_id, *submission, problem.digest in self._problems)
        )
        self._know(problem)
        self.changes.made(new_submission)
        return submitted

    async def get(self, submission_id: str) -> Submission:
        """Return a submission, with sources and report; SubmissionNotFound."""
        return await self.database.read_once(lambda connection: transactions.get(connection, submission_id))

    async def judgements(self, submission_id: str) -> list[Judgement]:
        """Every judgement of a submission, oldest first: the last one counts."""
        query = (
            sa.select(judgements)
            .join(submissions, submissions.c.number == judgements.c.number)
            .where(submissions.c.submission_id == submission_id)
            .order_by(judgements.c.sequence)
        )
        return await self.database.read_once(lambda connection: [records.judgement(row._mapping) for row in connection.execute(query)])

    async def problem(self, digest: str) -> Problem:
        """The problem that a submission was made to."""
        return await self.database.read_once(lambda connection: transactions.get_problem(connection, digest))

    async def page(
        self,
        *,
        size: int,
        before: int | None = None,
        problem_id: str = "",
        states: Sequence[SubmissionState] = (),
        submission_filter: SubmissionFilter = ALL_SUBMISSIONS,
    ) -> tuple[list[Submission], int | None]:
        """Submissions, newest first, without sources and with the head of the report; and `before` of the next page."""
        before = None if before is None else min(before, transactions.LARGEST)
        query = submission_filter.newest(size + 1, before, problem_id, states)

        def work(connection: sa.Connection) -> tuple[list[Submission], int | None]:
            rows = connection.execute(query).all()
            return [records.submission(row) for row in rows[:size]], rows[size - 1].number if len(rows) > size else None

        return await self.database.read_once(work)

    async def events(self, submission_id: str, *, after: int = 0, limit: int = 256) -> list[Event]:
        """Events after a sequence, in order."""
        wanted = {"by_submission": submission_id, "by_sequence": min(after, transactions.LARGEST), "by_limit": limit}
        return await self.database.read_once(
            lambda connection: [records.event(row) for row in statements.EVENTS_AFTER.run(connection, wanted)]
        )

    async def tagged(self, user: str, tag: str, *, after_number: int, limit: int) -> list[tuple[int, str]]:
        """Numbers and ids of this user's submissions with this tag, oldest first: those that follow a number; after 0, the newest."""
        return await self.database.read_once(lambda connection: statements.tagged(connection, user, tag, after_number, limit))

    async def heads(self, submission_ids: Sequence[str], *, reports: bool = False) -> list[Submission]:
        """These submissions as they are now, oldest first, as in lists; those that are not there are left out. reports: with whole ones."""
        return await self.database.read_once(lambda connection: statements.read(connection, submission_ids, reports=reports))

    async def quota_uses(self, user: str, quotas: Sequence[Quota]) -> list[QuotaUse]:
        """How many of each of these quotas a user has used."""
        return await self.database.read(lambda connection: transactions.quota_uses(connection, self.now(), user, quotas))

    async def depths(self) -> list[QueueDepth]:
        """How many wait and since when, by mode."""
        return await self.database.read(depths)

    async def device_demands(self) -> list[DeviceDemand]:
        """How many wait and run, by the device that they ask for."""
        return await self.database.read(device_demands)

    async def queue(self) -> queue.Snapshot:
        """Return who waits, in order, what runs, and what was graded recently."""
        return await self.database.read(lambda connection: queue.snapshot(connection, self.now().timestamp()))

    async def cancel(self, submission_id: str) -> Submission:
        """Cancel what waits; ask the worker to stop what runs; AlreadyFinished otherwise."""
        cancelled = await self.database.write_rows(lambda connection: transactions.cancel(connection, self.now(), submission_id))
        self.changes.notify(submission_id)
        return cancelled

    async def lease(self, worker_id: str, *, ttl_s: float, device_kinds: Sequence[str] = ()) -> Lease | None:
        """Take the next in the queue that asks for one of these devices or for any; None where there is none."""
        leased = await self.lease_some(worker_id, 1, ttl_s=ttl_s, device_kinds=device_kinds)
        return leased[0] if leased else None

    async def lease_some(
        self, worker_id: str, limit: int, *, ttl_s: float, device_kinds: Sequence[str] = (), known_kinds: Sequence[str] | None = None
    ) -> list[Lease]:
        """Take the next ones in their order, each as `lease` would. known_kinds: see `statements.choices_to_lease`."""
        now = self.now()
        expire_time = now + timedelta(seconds=ttl_s)

        def take(connection: sa.Connection) -> list[Lease]:
            counts = statements.choices_to_lease(connection, device_kinds, known_kinds)
            choices, count = tuple(counts), min(limit, sum(counts.values()))  # to look for one more takes as long as to take one
            take_next = partial(transactions.lease, connection, now, worker_id, expire_time, choices)
            leased = (take_next(next(self._turns), self._problems) for _ in range(count))
            return list(itertools.takewhile(lambda leased_one: leased_one is not None, leased))  # type: ignore[arg-type]

        leases = await self.database.write_rows(take)
        for leased_one in leases:
            self._know(leased_one.problem)
            self._lease_ends[transactions.lease_key(leased_one)] = self._elapsed_s() + ttl_s
            self.changes.notify(leased_one.submission.submission_id)
        return leases

    def _know(self, problem: Problem) -> None:
        """Read this problem no more, until PROBLEM_LIMIT others came."""
        self._problems[problem.digest] = problem
        if len(self._problems) > PROBLEM_LIMIT:
            del self._problems[next(iter(self._problems))]

    async def heartbeat(self, lease: Lease, *, ttl_s: float) -> bool:
        """Keep the lease; says whether to cancel. LeaseLost like all that follow, once another attempt may have begun."""
        expire_time = self.now() + timedelta(seconds=ttl_s)
        self._lease_ends[transactions.lease_key(lease)] = self._elapsed_s() + ttl_s  # before the write: an `expire` may be in the same one
        try:
            return await self.database.write_rows(lambda connection: transactions.heartbeat(connection, lease, expire_time))
        except LeaseLost:
            self._lease_ends.pop(transactions.lease_key(lease), None)
            raise

    async def append(self, lease: Lease, facts: Sequence[wire.Fact]) -> None:
        """Write facts of this attempt down."""
        await self.database.write_rows(lambda connection: transactions.append(connection, self.now(), lease, facts))
        self.changes.notify(lease.submission.submission_id, moved=False)

    async def settle(self, lease: Lease, report: Report, facts: Sequence[wire.Fact] = ()) -> None:
        """Record the verdict, and facts that were not written yet, and end the lease."""
        await self.database.write_rows(lambda connection: transactions.settle(connection, self.now(), lease, report, facts))
        self._lease_ends.pop(transactions.lease_key(lease), None)
        self.changes.notify(lease.submission.submission_id)

    async def amend(self, lease: Lease, report: Report, facts: Sequence[wire.Fact]) -> None:
        """Replace the report of an attempt that was settled by one with more findings, and write their facts down. Nothing else changes."""
        await self.database.write_rows(lambda connection: transactions.amend(connection, self.now(), lease, report, facts))
        self.changes.notify(lease.submission.submission_id, moved=False)

    async def release(self, lease: Lease, failure: Failure, *, counted: bool = True) -> Submission:
        """End the lease without a verdict: QUEUED again, FAILED by the last counted failure or a final one, CANCELLED where asked for."""
        released = await self.database.write_rows(lambda connection: transactions.release(connection, self.now(), lease, counted, failure))
        self._lease_ends.pop(transactions.lease_key(lease), None)
        self.changes.notify(lease.submission.submission_id)
        return released

    async def expire(self) -> list[Submission]:
        """End leases that expired; each counts as a Fault.LOST_LEASE."""
        return await self.reclaim_all(expired_only=True)

    async def reclaim_all(self, worker_prefix: str = "", *, expired_only: bool = False) -> list[Submission]:
        """End every lease of the workers whose ids begin so, as `expire` does: for the one who knows that they are gone."""
        now_s = self._elapsed_s()
        own_leases = {key: end_s < now_s for key, end_s in self._lease_ends.items()}
        ended = await self.database.write_rows(
            lambda connection: transactions.reclaim(connection, self.now(), expired_only, _LOST, worker_prefix, own_leases)
        )
        self._lease_ends = {key: end_s for key, end_s in self._lease_ends.items() if not own_leases.get(key)}
        for submission in ended:
            self.changes.notify(submission.submission_id)
        return ended
