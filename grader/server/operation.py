"""Telemetry of a server for its operators: metrics, traces, readiness, and the health of each lane.

Health of the lane cuda:0 is asked for as the service `grader.v1.lane/cuda:0`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import Any

import structlog
from grpc_health.v1 import health_pb2
from sqlalchemy.exc import SQLAlchemyError

from grader.artifacts.files import SubmissionFiles
from grader.config import Settings
from grader.errors import GraderError, GraderFault
from grader.extensions import SubmitPolicy
from grader.ledger import Ledger
from grader.model import DeviceDemand, QueueDepth
from grader.observability.observer import LaneState, Observer, Observers
from grader.observability.tracing import tracing
from grader.server.connections import web_limits
from grader.server.grading import Grading
from grader.server.installed_version import installed_version
from grader.server.server_state import EVERY_LANE, Cordons, SnapshotWriter

log = structlog.get_logger()

LANE_SERVICE = "grader.v1.lane/"
LOOK_S = 1.0  # how late a lane's health is known
WAITS_S = 1.0  # so long what the ledger said of what waits in it is good: anybody may ask, as often as they like
PROOF_S, FAILED_PROOF_S = 5.0, 1.0  # the same, of whether it can be written
LEDGER_S = 3.0
OUT_OF_SERVICE = (LaneState.QUARANTINED, LaneState.CORDONED)

_Queue = tuple[list[QueueDepth], list[DeviceDemand]]

STARTING, LEAVING = "the server is starting", "the server is shutting down"


class ServerTelemetry:
    """Watches one server. Made before it grades, so that nothing is missed from the first attempt on."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tracing = tracing(settings.trace)
        # Nobody could read metrics without the port; prometheus-client is imported only with it.
        self._metrics = import_module("grader.observability.metrics").Metrics(version=installed_version()) if settings.web else None
        self.observer: Observer = Observers([observer for observer in (self._metrics, self._tracing) if observer is not None])
        self.web_address = ""
        self._not_serving = STARTING
        self._health: Any = None
        self._well: dict[str, bool] = {}
        self._waits: tuple[float, _Queue] | None = None
        self._asking = asyncio.Lock()
        self._services: Sequence[str] = ()
        self._reasons: Sequence[str] | None = None  # why it is not ready, as was last said
        self._proof = (-PROOF_S, "")  # when the ledger was last written to see whether it can be, and why it could not be
        self._proving = asyncio.Lock()
        self._cordons = Cordons(settings.cordons_path)
        self._snapshots = SnapshotWriter(settings.snapshot_path)

    @asynccontextmanager
    async def watching(
        self,
        ledger: Ledger,
        grading: Grading,
        *,
        policy: SubmitPolicy,
        routes: Callable[[], Iterable[Any]] = tuple,
    ) -> AsyncIterator[None]:
        """Open the web port, look at the lanes and remove what is kept for a time only, until the context is left.

        routes: of pages, asked for where there is a port.
        """
        self._ledger, self._grading = ledger, grading
        grading.observe(self.observer)
        self._follow_cordons()
        async with AsyncExitStack() as stack:
            if self._tracing is not None:
                stack.push_async_callback(asyncio.to_thread, self._tracing.close)
            if self._settings.web:
                web = import_module("grader.server.web_port")  # only now: it takes half a second
                app = web.application(scrape=self.scrape, unready=self.unready, routes=routes())
                self.web_address = await stack.enter_async_context(
                    web.web_serving(self._settings.web, app, limits=web_limits(self._settings))
                )
            settings = self._settings
            days = (settings.retain_sources_days, settings.retain_events_days, settings.retain_artifacts_days)
            files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
            for work in (self._look(), retain(ledger, Periods.from_days(*days), policy, files=files)):
                stack.push_async_callback(_ended, asyncio.create_task(work))
            yield

    async def serves(self, health: Any, address: str, services: Sequence[str]) -> None:
        """Calls are answered at this address from now on; health is the server's, gets the lanes',
        and of these services readiness."""
        self._health, self._not_serving, self._services = health, "", services
        self._snapshots.begin(address, self.web_address)
        await self._look_once()

    @property
    def paused(self) -> bool:
        """Return whether an administrator lets the queue stand still: what runs ends, and nothing begins."""
        return EVERY_LANE in self._cordons.names

    def leaves(self) -> None:
        """No more calls should come."""
        self._not_serving = LEAVING
        self._snapshots.leave()

    async def unready(self) -> Sequence[str]:
        """Why a submission could not be taken, built, run and settled now; calls should go to
        another server."""
        reasons = [self._not_serving] if self._not_serving else []
        if fault := self._grading.fault():
            reasons.append(f"nothing can be graded: {fault}")
        lanes = self._grading.lanes()
        if lanes and all(lane.state in OUT_OF_SERVICE for lane in lanes):
            reasons.append("every lane is quarantined or cordoned; see the server's log")
        if fault := await self._ledger_fault():
            reasons.append(fault)
        return reasons

    async def _ledger_fault(self) -> str:
        """Why the ledger can't be written. It is tried every few seconds at most, once for all who
        ask."""
        async with self._proving:
            proof_s, fault = self._proof
            if time.monotonic() - proof_s > (FAILED_PROOF_S if fault else PROOF_S):
                try:
                    async with asyncio.timeout(LEDGER_S):
                        await self._ledger.database.prove()
                    fault = ""
                except (TimeoutError, GraderError, SQLAlchemyError) as error:
                    fault = str(error) or f"the ledger was not written within {LEDGER_S:g} s"
                self._proof = (time.monotonic(), fault)
            return fault

    async def scrape(self) -> bytes:
        """The metrics now. Where the ledger does not answer, its figures are the last known, and the rest is there."""
        assert self._metrics is not None
        try:
            depths, demands = await self._queue()
            self._metrics.set_queue(depths, self._ledger.now())
            self._metrics.set_device_demand(demands, self._grading.device_kinds())
        except (TimeoutError, GraderError) as error:
            log.warning("queue_not_read", error=str(error))
        self._metrics.set_written(self._ledger.database.written)
        self._metrics.set_lanes(self._grading.lanes())
        self._metrics.set_warm(self._grading.warm())
        exposed: bytes = self._metrics.exposed()
        return exposed

    async def _queue(self) -> _Queue:
        """Share one read of the queue among all who ask meanwhile: a slow ledger gets no more reads."""
        async with asyncio.timeout(LEDGER_S), self._asking:
            if self._waits is None or time.monotonic() - self._waits[0] > WAITS_S:
                ledger = self._ledger
                queue = await ledger.depths(), await ledger.device_demands()
                self._waits = (time.monotonic(), queue)
            return self._waits[1]

    async def _look(self) -> None:
        """Keep each lane's health, and cordon what an operator has named."""
        while True:
            await asyncio.sleep(LOOK_S)
            self._follow_cordons()
            if self._health is not None:
                await self._look_once()

    def _follow_cordons(self) -> None:
        if self._cordons.look():
            log.info("cordoned", names=sorted(self._cordons.names))
            self._grading.cordon(self._cordons.names)

    async def _look_once(self) -> None:
        reasons = await self.unready()
        if reasons != self._reasons:
            self._reasons = reasons
            if reasons:
                log.warning("not_ready", reasons=reasons)
            else:
                log.info("ready")
        serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            await self._health.set(service, not_serving if reasons else serving)
        lanes = self._grading.lanes()
        self._snapshots.update(lanes)
        for lane in lanes:
            well = lane.state not in OUT_OF_SERVICE
            if self._well.get(lane.name) is not well:
                self._well[lane.name] = well
                await self._health.set(LANE_SERVICE + lane.name, serving if well else not_serving)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    if isinstance(ended, Exception):
        log.error("background_work_broke", exc_info=ended)


# Retention, once a day; `grader/ledger/retention.py` says what stays. Several servers on one ledger may all run it.

RETENTION_DELAY_S = 60.0  # after the start, when whatever waited is under way
RETENTION_INTERVAL_S = 24 * 3600.0
BATCH_PAUSE_S = 0.05  # between batches, for others that want to write


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """Retention periods; None: for ever."""

    sources: timedelta | None = None
    events: timedelta | None = None
    artifacts: timedelta | None = None

    @classmethod
    def from_days(cls, sources_days: int, events_days: int, artifacts_days: int = 0) -> Periods:
        """Return the periods of settings, where 0 is for ever."""
        days = (sources_days, events_days, artifacts_days)
        sources, events, artifacts = (timedelta(days=count) if count else None for count in days)
        return cls(sources=sources, events=events, artifacts=artifacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedCounts:
    """Counts of what retention removed."""

    sources: int = 0
    events: int = 0
    artifacts: int = 0


async def retain(
    ledger: Ledger,
    periods: Periods,
    policy: SubmitPolicy,
    *,
    first_s: float = RETENTION_DELAY_S,
    files: SubmissionFiles | None = None,
) -> None:
    """Remove what is due every day, until cancelled; returns at once where nothing ever is. files: where those of submissions lie."""
    if periods == Periods():
        return
    await asyncio.sleep(first_s)
    while True:
        try:
            removed = await remove_due(ledger, periods, policy, files)
            log.info(
                "retention_done",
                sources_removed_count=removed.sources,
                events_removed_count=removed.events,
                artifacts_removed_count=removed.artifacts,
            )
        except GraderFault as error:  # a busy ledger; what is left is removed the next time
            log.warning("retention_failed", reason=error.reason, detail=error.detail)
        await asyncio.sleep(RETENTION_INTERVAL_S)


async def remove_due(ledger: Ledger, periods: Periods, policy: SubmitPolicy, files: SubmissionFiles | None = None) -> RemovedCounts:
    """Remove what is due now."""
    now, counts = ledger.now(), []
    for period, remove in ((periods.sources, ledger.retention.remove_sources), (periods.events, ledger.retention.remove_events)):
        if period is None:
            counts.append(0)
            continue
        before = now - period
        # As long after a competition's end as after a submission's own: its final may run them again. One that is not known may go on.
        over = policy.ended(before)
        total, after, last = 0, -1, 0
        while last > after:
            after = last
            last, count = await remove(before, over, after=after)
            total += count
            await asyncio.sleep(BATCH_PAUSE_S if last > after else 0)
        counts.append(total)
    artifacts = 0
    while periods.artifacts is not None and (count := await ledger.artifacts.remove_made_before(now - periods.artifacts)):
        artifacts += count
        await asyncio.sleep(BATCH_PAUSE_S)
    if files is not None:
        await files.remove_unknown(ledger.artifacts.unknown)
    return RemovedCounts(sources=counts[0], events=counts[1], artifacts=artifacts)
