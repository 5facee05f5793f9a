"""Telemetry of a server for its operators: metrics, traces, readiness, and the health of each lane.

Health of the lane cuda:0 is asked for as the service `grader.v1.lane/cuda:0`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from importlib import import_module
from typing import Any

import structlog
from grpc_health.v1 import health_pb2
from sqlalchemy.exc import SQLAlchemyError

from grader.artifacts import SubmissionFiles
from grader.config import Settings
from grader.errors import GraderError, GraderFault
from grader.ledger import Ledger
from grader.model import DeviceDemand, QueueDepth
from grader.observability.observer import LaneNow, LaneState, Observer, Observers
from grader.observability.tracing import tracing
from grader.server import installed_version
from grader.server.connections import web_limits
from grader.server.server_state import EVERY_LANE, Cordons, write_lanes
from grader.server.wiring import Grading

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
        self._cordons = Cordons(settings.state_dir)
        self._written_lanes: tuple[LaneNow, ...] | None = None
        self._snapshot_fault = ""  # as was last logged

    @asynccontextmanager
    async def watching(self, ledger: Ledger, grading: Grading, *, routes: Callable[[], Iterable[Any]] = tuple) -> AsyncIterator[None]:
        """Open the web port, look at the lanes and remove old files of profiles, until the context is left.

        routes: of pages, asked for where there is a port.
        """
        self._ledger, self._grading, settings = ledger, grading, self._settings
        grading.observe(self.observer)
        self._follow_cordons()
        async with AsyncExitStack() as stack:
            if self._tracing is not None:
                stack.push_async_callback(asyncio.to_thread, self._tracing.close)
            if settings.web:
                web = import_module("grader.server.web_port")  # only now: it takes half a second
                app = web.application(scrape=self.scrape, unready=self.unready, routes=routes())
                self.web_address = await stack.enter_async_context(web.web_serving(settings.web, app, limits=web_limits(settings)))
            files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
            for work in (self._look(), remove_old_files_daily(ledger, settings.retain_artifacts_days, files)):
                stack.push_async_callback(_ended, asyncio.create_task(work))
            yield

    async def serves(self, health: Any, services: Sequence[str]) -> None:
        """Calls are answered from now on; health is the server's, gets the lanes', and of these services readiness."""
        self._health, self._not_serving, self._services = health, "", services
        await self._look_once()

    @property
    def paused(self) -> bool:
        """Return whether an administrator lets the queue stand still: what runs ends, and nothing begins."""
        return EVERY_LANE in self._cordons.names

    def leaves(self) -> None:
        """No more calls should come."""
        self._not_serving = LEAVING

    async def unready(self) -> Sequence[str]:
        """Why a submission could not be taken, built, run and settled now; calls should go to another server."""
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
        """Why the ledger can't be written. It is tried every few seconds at most, once for all who ask."""
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
                queue = await self._ledger.depths(), await self._ledger.device_demands()
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
        if tuple(lanes) != self._written_lanes:
            try:
                write_lanes(self._settings.state_dir, lanes)
                self._written_lanes, self._snapshot_fault = tuple(lanes), ""
            except OSError as error:  # nothing else depends on it
                if str(error) != self._snapshot_fault:
                    log.warning("snapshot_not_written", error=str(error))
                self._snapshot_fault = str(error)
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


FILES_DELAY_S = 60.0  # after the start, when whatever waited is under way
FILES_INTERVAL_S = 24 * 3600.0
BATCH_PAUSE_S = 0.05  # between batches, for others that want to write


async def remove_old_files_daily(ledger: Ledger, days: int, files: SubmissionFiles) -> None:
    """Remove files of profiles every day, until cancelled; return at once where they stay for ever. Servers on one ledger may all do it."""
    if not days:
        return
    await asyncio.sleep(FILES_DELAY_S)
    while True:
        try:
            log.info("artifacts_removed", count=await remove_old_files(ledger, days, files))
        except GraderFault as error:  # a busy ledger; what is left is removed the next time
            log.warning("artifacts_not_removed", reason=error.reason, detail=error.detail)
        await asyncio.sleep(FILES_INTERVAL_S)


async def remove_old_files(ledger: Ledger, days: int, files: SubmissionFiles) -> int:
    """Remove files that were made so long ago, and return how many the ledger knew."""
    oldest, total = ledger.now() - timedelta(days=days), 0
    while count := await ledger.artifacts.remove_made_before(oldest):
        total += count
        await asyncio.sleep(BATCH_PAUSE_S)
    await files.remove_unknown(ledger.artifacts.unknown)
    return total
