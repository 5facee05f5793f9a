"""Takes submissions out of the ledger, has them graded, and records what became of them.

Holds at most `capacity()` leases, and as many of attempts that wait for their host to be prepared, of submissions to `device_kinds()` or
to what none of `known_kinds()` is, which the fleet refuses. What a kernel does wrong comes as facts and ends in a verdict; what `grade`
raises is our fault and gives the lease back. All that counts is in the ledger: a dispatcher may die at any moment.
"""

from __future__ import annotations

import asyncio
import secrets
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, assert_never, cast

import structlog

from grader import devices, extensions
from grader.errors import CallRefused, DeviceQuarantined, GraderFault, HostBroken, LeaseLost, WorkerLost
from grader.ledger import Ledger
from grader.ledger.changes import News, NewsKind
from grader.model import Failure, Lease, Ranking, Report
from grader.observability.observer import Ended, Observer, StopReason
from grader.verdict.fold import fold
from sandbox.protocol import wire

log = structlog.get_logger()

MAX_BATCH_SIZE = 8  # leases in one transaction
WAITING_FACT_LIMIT = 64  # of an attempt; one with more waits for the disk
FOLLOWED_S, ALONE_S = 0.1, 1.0  # how long facts wait for more of them where somebody follows the submission, and where nobody does
POLL_S = 1.0  # a submission of another process is noticed so late; those of this one wake us
QUARANTINE_S = 30.0  # how long a submission keeps its place at a device that is quarantined before it is queued again
# The pipeline's own limits are far below; these are for what it forgot. So long may no fact come; after the build the attempt waits for a
# lane, where several may be before it, each ranked in ten processes of up to a quarter of an hour.
SILENCE_LIMIT_S = 3600.0
LANE_LIMIT_S = 12 * 3600.0
FINDINGS = (wire.KernelProfile, wire.ArtifactFile)  # that a report gets after its verdict
UNCOUNTED = frozenset({DeviceQuarantined.reason, HostBroken.reason, WorkerLost.reason})


# Grades one attempt: facts as they are found, to the end. With the first AttemptTimeline the verdict is known, and what follows counts only
# as FINDINGS. Raises where we are at fault. May be stopped at any await.
Grade = Callable[[Lease], AsyncIterator[wire.Fact]]


@dataclass(eq=False)
class _LeaseAttempt:
    """An attempt that is going on. check: done where it is to be looked at before the next heartbeat; stop, once set, is not changed.
    report: done once the verdict is known; settled: set once the ledger has it. prepares: it waits for its host, and uses no device."""

    lease: Lease
    check: asyncio.Future[None] = field(default_factory=asyncio.Future)
    grading: asyncio.Task[Failure | None] | None = None
    stop: StopReason | None = None
    report: asyncio.Future[Report] = field(default_factory=asyncio.Future)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    prepares: bool = False
    unwritten: Sequence[wire.Fact] = ()  # the last facts, which are written with the verdict

    def look(self) -> None:
        """Send a heartbeat now."""
        if not self.check.done():
            self.check.set_result(None)

    def end(self, why: StopReason) -> None:
        """Stop the grading, even before it begins; the first reason wins."""
        if self.stop is None:
            self.stop = why
            if self.grading is not None:
                self.grading.cancel()


class Recorder:
    """Facts in their order. Use as an async context; left without an exception, all is on disk. pause_s: how long the first of some facts
    waits for others now; those that still wait at the end are for `drain`."""

    def __init__(self, append: Callable[[Sequence[wire.Fact]], Coroutine[Any, Any, None]], pause_s: Callable[[], float]) -> None:
        self._append, self._pause_s = append, pause_s
        self._waiting: list[wire.Fact] = []
        self._pause: asyncio.TimerHandle | None = None  # a task that waited would take longer than all facts of a short attempt
        self._writing: asyncio.Task[None] | None = None
        self._kept = False

    async def __aenter__(self) -> Recorder:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.flush()  # after a fault of ours too: what was found out before it stays readable
        finally:
            self._waiting.clear()
            self._end_pause()
            if (writing := self._writing) is not None:
                await asyncio.wait([writing])
                if not writing.cancelled():
                    writing.exception()  # seen: anyone who has to know it has been notified, or is being stopped

    async def add(self, fact: wire.Fact) -> None:
        """Take a fact; raises what the writing of an earlier one raised."""
        if self._writing is not None and self._writing.done():
            self._writing.result()
        self._waiting.append(fact)
        self._begin_pause()
        if len(self._waiting) >= WAITING_FACT_LIMIT:
            await self.flush()

    async def flush(self) -> None:
        """Return when all of it is on disk; raises what the writing raised."""
        await self._written()
        if self._waiting:
            self._write()
        await self._written()  # what a pause that ended meanwhile began, too

    async def drain(self) -> Sequence[wire.Fact]:
        """The last facts, which the caller writes down itself; nothing is added after this. Raises what the writing raised."""
        self._kept = True
        self._end_pause()
        await self._written()
        drain, self._waiting = self._waiting, []
        return drain

    def _begin_pause(self) -> None:
        if self._waiting and not self._kept and self._pause is None and self._writing is None:
            self._pause = asyncio.get_running_loop().call_later(self._pause_s(), self._write)

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _write(self) -> None:
        self._end_pause()
        batch, self._waiting = self._waiting, []
        self._writing = asyncio.create_task(self._append(batch))
        self._writing.add_done_callback(self._wrote)

    def _wrote(self, writing: asyncio.Task[None]) -> None:
        if not writing.cancelled() and writing.exception() is None:
            self._writing = None
            self._begin_pause()

    async def _written(self) -> None:
        if (writing := self._writing) is not None:
            await asyncio.wait([writing])
            writing.result()


class Dispatcher:
    """Runs attempts until drained."""

    def __init__(
        self,
        ledger: Ledger,
        grade: Grade,
        *,
        capacity: Callable[[], int],
        device_kinds: Callable[[], tuple[str, ...]] = tuple,
        known_kinds: Callable[[], tuple[str, ...]] | None = None,
        lease_s: float = 30.0,
        poll_s: float = POLL_S,
        quarantine_s: float = QUARANTINE_S,
        fold: Callable[[Iterable[wire.Fact], Ranking | None], Report] = fold,
        observer: Observer | None = None,
        worker_prefix: str = "",
    ) -> None:
        self.worker_id = worker_prefix + secrets.token_hex(8)
        self._ledger, self._grade, self._fold = ledger, grade, fold
        self._device_kinds, self._lease_s, self._poll_s = device_kinds, lease_s, poll_s
        self._known_kinds = known_kinds
        self._quarantine_s = quarantine_s
        self._observer = observer or Observer()
        self._capacity = capacity
        self._attempts: set[_LeaseAttempt] = set()
        self._news = asyncio.Event()
        self._submitted = False  # something may be in the queue of which no other server was told
        self._idle_kinds: tuple[str, ...] | None = None  # devices for which nothing waited at the last look; None: something may
        self._draining = asyncio.Event()
        self._patience_s = 0.0
        self._expired_s = -1e9

    def wake(self) -> None:
        """Look at the queue now; and tell other servers, where there is no room here."""
        self._submitted = True
        self._news.set()

    def _takes(self, device_kind: str) -> bool:
        return not self._draining.is_set() and (not device_kind or devices.is_offered(device_kind, self._device_kinds()))

    def check(self, submission_id: str) -> None:
        """This submission may be cancelled: look now and not at the next heartbeat."""
        for attempt in self._attempts:
            if attempt.lease.submission.submission_id == submission_id:
                attempt.look()

    def _on_notification(self, news: News) -> None:
        if news.kind in (NewsKind.QUEUED, NewsKind.MISSED):
            self._news.set()
        for attempt in self._attempts if news.kind is NewsKind.MISSED else ():
            attempt.look()
        if news.kind is NewsKind.CANCELLING:
            self.check(news.submission_id)

    async def run(self) -> None:
        """Work until `drain` is called and nothing is running any more."""
        self._ledger.changes.takes = self._takes
        with self._ledger.changes.elsewhere(self._on_notification):
            async with asyncio.TaskGroup() as group:
                await self._take(group)
                try:
                    async with asyncio.timeout(self._patience_s):
                        while self._attempts:
                            self._news.clear()
                            await self._news.wait()
                except TimeoutError:
                    self.abandon()

    def drain(self, patience_s: float) -> None:
        """Take nothing more; let what runs go on for patience_s, then give it back to the queue, uncounted."""
        self._patience_s = patience_s
        self._draining.set()
        self._news.set()

    def abandon(self) -> None:
        """Give back now what still runs."""
        for attempt in self._attempts:
            attempt.end(StopReason.DRAINED)

    async def _take(self, group: asyncio.TaskGroup) -> None:
        while not self._draining.is_set():
            self._news.clear()
            submitted, self._submitted = self._submitted, False
            try:
                # Take back leases that expired: by every round, but no more often than without news.
                now_s = asyncio.get_running_loop().time()
                if now_s - self._expired_s >= self._poll_s:
                    self._expired_s = now_s
                    self._observer.leases_expired(len(await self._ledger.expire()))
                while await self._take_some(group):
                    pass
                if submitted and self._capacity() <= len(self._attempts):
                    self._ledger.changes.say(NewsKind.QUEUED, [""])
            except GraderFault as error:  # a busy ledger; the next round tries again
                self._submitted |= submitted
                log.warning("lease_failed", reason=error.reason, detail=error.detail)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_s):
                    await self._news.wait()

    async def _take_some(self, group: asyncio.TaskGroup) -> bool:
        """Take what there is room for, a few in one transaction; whether there may be more."""
        capacity, kinds, self._idle_kinds = self._capacity(), self._device_kinds(), None
        room = capacity - len(self._attempts) + min(capacity, sum(attempt.prepares for attempt in self._attempts))
        if self._draining.is_set() or room <= 0:
            return False
        limit = min(room, MAX_BATCH_SIZE)
        known_kinds = (self._known_kinds() or None) if self._known_kinds is not None else None
        leases = await self._ledger.lease_some(self.worker_id, limit, ttl_s=self._lease_s, device_kinds=kinds, known_kinds=known_kinds)
        for lease in leases:
            attempt = _LeaseAttempt(lease)
            self._attempts.add(attempt)
            group.create_task(self._attempt(attempt))
        self._idle_kinds = kinds if len(leases) < limit else None
        return len(leases) == limit

    async def _attempt(self, attempt: _LeaseAttempt) -> None:
        lease = attempt.lease
        ended: Ended = StopReason.NOT_SETTLED
        trace_id = self._observer.attempt_began(lease)
        fields = {"submission": lease.submission.submission_id, "attempt": lease.attempt} | ({"trace_id": trace_id} if trace_id else {})
        with structlog.contextvars.bound_contextvars(**fields):
            log.info("attempt_began", problem=lease.problem.problem_id, language=lease.submission.new.language)
            try:
                async with asyncio.TaskGroup() as group:  # left when nothing more can be found after the verdict
                    attempt.grading = grading = group.create_task(self._graded(attempt))
                    ends: list[asyncio.Future[Any]] = [grading, attempt.report]
                    try:
                        if attempt.stop is not None:
                            grading.cancel()
                        await self._hold(attempt, ends)
                        outcome = attempt.report.result() if attempt.report.done() else None if grading.cancelled() else grading.result()
                        await self._settle(attempt, outcome)
                        attempt.settled.set()
                        ended = outcome or attempt.stop or StopReason.LEASE_LOST
                    except (LeaseLost, GraderFault) as error:  # the ledger's last word: the next worker that has the lease does the work
                        log.warning("attempt_not_settled", error=str(error))
                        grading.cancel()
                    finally:
                        self._observer.attempt_ended(lease, ended)
            finally:
                self._attempts.discard(attempt)
                # Nothing waits for the room that there is now, unless its device was away, or it is queued again.
                if self._draining.is_set() or not isinstance(ended, Report) or self._device_kinds() != self._idle_kinds:
                    self._news.set()

    async def _graded(self, attempt: _LeaseAttempt) -> Failure | None:
        """Set the report, then add what is found later. Return a Failure where we are at fault, which counts unless there is a report."""
        lease, facts = attempt.lease, list[wire.Fact]()
        submission_id, changes = lease.submission.submission_id, self._ledger.changes
        try:
            async with (
                asyncio.timeout(SILENCE_LIMIT_S) as silence,
                Recorder(
                    partial(self._ledger.append, lease), lambda: FOLLOWED_S if changes.followed(submission_id) else ALONE_S
                ) as recorder,
                aclosing(cast(AsyncGenerator[wire.Fact, None], self._grade(lease))) as stream,
            ):
                async for fact in stream:
                    facts.append(fact)
                    stage = fact.stage if isinstance(fact, wire.Progress) else None
                    attempt.prepares = stage is wire.Stage.PREPARING
                    limit_s = asyncio.get_running_loop().time() + (LANE_LIMIT_S if stage is wire.Stage.WAITING else SILENCE_LIMIT_S)
                    if abs(limit_s - (silence.when() or 0.0)) > 1.0:  # not at each of many facts: to set a timer takes long
                        silence.reschedule(limit_s)
                    self._observer.fact_found(lease, fact)
                    await recorder.add(fact)
                    if isinstance(fact, wire.AttemptTimeline) and not lease.submission.rejudge_id:  # which takes the whole report
                        break
                attempt.unwritten = await recorder.drain()
                mode = extensions.mode_of(lease.submission.new.mode)
                fold = (lambda facts: self._fold(facts, lease.ranking)) if mode is None else mode.fold
                report = fold(facts)
                attempt.report.set_result(report)
                try:
                    findings = [fact async for fact in stream if isinstance(fact, FINDINGS)]
                    if findings:
                        await attempt.settled.wait()
                        amended = fold((*facts, *findings))
                        await self._ledger.amend(lease, replace(report, summary=amended.summary, profile=amended.profile), findings)
                except Exception as error:  # noqa: BLE001  the verdict stands
                    log.warning("findings_lost", detail=_loggable(lease, error))
            return None
        except LeaseLost:
            return None
        except (DeviceQuarantined, HostBroken) as error:
            log.error("attempt_waits_for_its_host", reason=error.reason, detail=_loggable(lease, error))
            await asyncio.sleep(self._quarantine_s if isinstance(error, DeviceQuarantined) else self._poll_s)
            return Failure(reason=error.reason, message=str(error))
        except (GraderFault, CallRefused) as error:
            log.error("attempt_failed", reason=error.reason, detail=_loggable(lease, error))
            return Failure(reason=error.reason, message=str(error), final=isinstance(error, GraderFault) and error.final)
        except Exception as error:
            # Whatever it is, it is ours: kernels fail by facts. The queue goes on, and the traceback is in the log.
            where = traceback.extract_tb(error.__traceback__)[-1]
            secret = lease.problem.competition_id != ""
            log.error("attempt_broke", kind=type(error).__name__, at=f"{where.filename}:{where.lineno}", exc_info=not secret)
            return Failure(reason="INTERNAL", message=f"{type(error).__name__}; the server's log has more")

    async def _hold(self, attempt: _LeaseAttempt, ends: Sequence[asyncio.Future[Any]]) -> None:
        """Keep the lease until one of ends is done; stop the grading where it is lost or a cancellation was asked for."""
        while True:
            await asyncio.wait((*ends, attempt.check), timeout=self._lease_s / 3, return_when=asyncio.FIRST_COMPLETED)
            if any(end.done() for end in ends):
                return
            attempt.check = asyncio.get_running_loop().create_future()
            try:
                if await self._ledger.heartbeat(attempt.lease, ttl_s=self._lease_s):
                    attempt.end(StopReason.CANCELLED)
            except LeaseLost:
                attempt.end(StopReason.LEASE_LOST)
            except GraderFault as error:  # there are two more beats before the lease is over
                log.warning("heartbeat_failed", reason=error.reason)

    async def _settle(self, attempt: _LeaseAttempt, outcome: Report | Failure | None) -> None:
        lease = attempt.lease
        match outcome:
            case Report():
                await self._ledger.settle(lease, outcome, attempt.unwritten)
                log.info("attempt_settled", verdict=outcome.verdict, reason=outcome.reason)
            case Failure():
                # A device, a host or a worker that is away is nobody's attempt: counted, it would burn the whole queue within a moment.
                settled = await self._ledger.release(lease, outcome, counted=outcome.reason not in UNCOUNTED)
                log.info("attempt_released", state=settled.state)
            case None if attempt.stop in (StopReason.CANCELLED, StopReason.DRAINED):
                # Not counted: the attempt was not at fault. The ledger knows whether a cancellation was asked for.
                settled = await self._ledger.release(lease, Failure(reason=attempt.stop.name, message="stopped"), counted=False)
                log.info("attempt_stopped", why=attempt.stop.name, state=settled.state)
            case None:
                log.warning("lease_lost")
            case _:
                assert_never(outcome)


def _loggable(lease: Lease, error: Exception) -> str:
    """Return the text of an error for the log: of a competition's problem it may quote a secret size, and the ledger has it."""
    return "not logged for a competition; the ledger has it" if lease.problem.competition_id else str(error)
