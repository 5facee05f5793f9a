"""Prometheus metrics of a server.  Every label has a bounded set of values: no users, no submissions, no problems, no sources.

A problem's name is no label either, for anybody who runs a server may have hundreds of them; its figures are in the ledger.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import assert_never

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from grader import devices
from grader.model import DeviceDemand, Failure, Lease, QueueDepth, Report, WriteTotals
from grader.observability.observer import Ended, LaneNow, LaneState, Observer, StopReason, WarmNow, attempt_key
from sandbox.protocol import wire

REASON_LIMIT, REASON_CHARS = 64, 48  # reasons come from judges and builders: what is more, or looks otherwise, is OTHER
OTHER = "OTHER"
DEVICE_LIMIT = 64  # models of GPU come from workers; what is more is devices.OTHER
WAITING = "waiting"  # for a device, or for its judge to start

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_WAIT_SECONDS = (0.05, 0.25, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_CALL_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


@dataclass
class _Timing:
    stage: str
    since: float
    spent: dict[str, float] = field(default_factory=dict)


class Metrics(Observer):
    """Counts and measures what a server does, in a registry of its own."""

    def __init__(self, *, version: str = "unknown", clock: Callable[[], float] = time.monotonic) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._timings: dict[tuple[str, int], _Timing] = {}
        self._reasons = {OTHER, ""}
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self._depth = gauge("grader_queue_depth", "Submissions that wait in the ledger, of all servers on it.", ("mode",))
        self._oldest = gauge("grader_queue_oldest_seconds", "How long the oldest of them has waited.", ("mode",))
        self._wait = histogram("grader_queue_wait_seconds", "From creation to the first lease.", ("mode",), buckets=_WAIT_SECONDS)
        text = "Submissions that are queued or running, of all servers on the ledger, by the device that they ask for."
        self._demand = gauge("grader_device_submissions", text, ("device", "state"))
        self._written = WriteTotals()
        self._commits = counter("grader_ledger_commits", "Commits of this server's ledger writer; several transactions may share one.")
        self._transactions = counter("grader_ledger_transactions", "Transactions of this server's ledger writer.")
        self._writing = counter("grader_ledger_busy_seconds", "How long the ledger's writer was busy; at 1 a second it is the limit.")
        self._running = gauge("grader_attempts_running", "Attempts that this server holds.")
        self._attempts = counter("grader_attempts", "Attempts, by how they ended.", ("mode", "end"))
        self._verdicts = counter("grader_verdicts", "Verdicts recorded by this server.", ("verdict", "reason"))
        self._failures = counter("grader_failures", "Attempts that the grader failed at.", ("reason",))
        self._stages = histogram("grader_stage_seconds", "An attempt's time in a stage, all of its rounds.", ("stage",), buckets=_SECONDS)
        self._facts = counter("grader_facts", "Facts of attempts that this server received.")
        self._lost = counter("grader_lease_losses", "Leases that this server lost, or found that expired.", ("by",))
        self._artifacts = counter("grader_artifacts", "Artifacts found in the cache, or built.", ("found",))
        self._lanes = gauge("grader_lane_state", "1 for the state that a lane is in.", ("lane", "state"))
        self._warm_waiting = gauge("grader_warm_boxes", "Run boxes that wait for a job.")
        self._run_boxes = counter("grader_run_boxes", "Run boxes that jobs were given: one that waited, or a new one.", ("box",))
        self._warm_before = WarmNow()
        self._boxes = histogram("grader_box_start_seconds", "From asking for a box to having it.", ("purpose",), buckets=_SECONDS)
        self._no_boxes = counter("grader_box_failures", "Boxes that could not be started.", ("purpose",))
        self._calls = counter("grader_calls", "Calls of the API that were answered.", ("method", "code"))
        text = "How long they took; a watch as what it watches."
        self._call_times = histogram("grader_call_seconds", text, ("method",), buckets=_CALL_SECONDS)
        self._open = gauge("grader_calls_open", "Calls that are being answered; WatchSubmission: open watches.", ("method",))
        ProcessCollector(registry=self.registry)
        build = gauge("grader_build_info", "1, with the version that runs.", ("version", "python"))
        build.labels(version, platform.python_version()).set(1)

    def set_queue(self, depths: Iterable[QueueDepth], now: datetime) -> None:
        """Set the submissions that wait now."""
        waiting = {queue.mode: queue for queue in depths}
        for mode in wire.Mode:
            depth = waiting.get(mode)
            self._depth.labels(mode).set(depth.count if depth else 0)
            self._oldest.labels(mode).set(max(0.0, (now - depth.oldest_time).total_seconds()) if depth else 0)

    def set_device_demand(self, demands: Iterable[DeviceDemand], device_kinds: Sequence[str]) -> None:
        """Set what waits and runs now for each of these kinds of device; nothing that a user wrote becomes a label."""
        models = [kind for kind in device_kinds if devices.counted_as(kind, device_kinds) == kind][:DEVICE_LIMIT]
        counts = {device: [0, 0] for device in (devices.ANY, *models, devices.OTHER)}
        for demand in demands:
            count = counts.setdefault(devices.counted_as(demand.device_kind, models), [0, 0])
            count[0] += demand.queued_count
            count[1] += demand.running_count
        self._demand.clear()
        for device, (queued, running) in counts.items():
            self._demand.labels(device, "queued").set(queued)
            self._demand.labels(device, "running").set(running)

    def set_written(self, totals: WriteTotals) -> None:
        """Count the work of the ledger's writer since the last time."""
        before, self._written = self._written, totals
        self._commits.inc(totals.commit_count - before.commit_count)
        self._transactions.inc(totals.transaction_count - before.transaction_count)
        self._writing.inc(totals.busy_s - before.busy_s)

    def set_lanes(self, lanes: Sequence[LaneNow]) -> None:
        """Set what the lanes do now; those that have gone are gone here too."""
        self._lanes.clear()
        for lane in lanes:
            for state in LaneState:
                self._lanes.labels(lane.name, state).set(lane.state is state)

    def set_warm(self, now: WarmNow) -> None:
        """Set the boxes that wait now, and count those that were given out since the last time."""
        before, self._warm_before = self._warm_before, now
        self._warm_waiting.set(now.waiting_count)
        self._run_boxes.labels("warm").inc(now.hit_count - before.hit_count)
        self._run_boxes.labels("new").inc(now.miss_count - before.miss_count)

    def exposed(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self.registry)

    def attempt_began(self, lease: Lease) -> str:
        """Count it, and how long it waited, where that is no longer than this server knows of."""
        submission = lease.submission
        self._running.inc()
        self._timings[attempt_key(lease)] = _Timing(WAITING, self._clock())
        if lease.attempt == 1 and submission.start_time is not None:
            self._wait.labels(submission.new.mode).observe((submission.start_time - submission.create_time).total_seconds())
        return ""

    def fact_found(self, lease: Lease, fact: wire.Fact) -> None:
        self._facts.inc()
        if isinstance(fact, wire.Progress):
            self._turn(lease, fact.stage)
        elif isinstance(fact, wire.Build):
            self._turn(lease, WAITING)
            self._artifacts.labels("cache" if fact.cached else "build").inc()

    def attempt_ended(self, lease: Lease, ended: Ended) -> None:
        self._running.dec()
        self._turn(lease, WAITING)
        for stage, duration_s in self._timings.pop(attempt_key(lease)).spent.items():
            self._stages.labels(stage).observe(duration_s)
        match ended:
            case Report():
                self._verdicts.labels(ended.verdict, self._bounded(ended.reason)).inc()
                end = "settled"
            case Failure():
                self._failures.labels(self._bounded(ended.reason)).inc()
                end = "failed"
            case StopReason():
                if ended in (StopReason.LEASE_LOST, StopReason.NOT_SETTLED):
                    self._lost.labels("own").inc()
                end = ended
            case _:
                assert_never(ended)
        self._attempts.labels(lease.submission.new.mode, end).inc()

    def leases_expired(self, count: int) -> None:
        self._lost.labels("expired").inc(count)

    def box_started(self, purpose: str, duration_s: float, failed: bool) -> None:
        if failed:
            self._no_boxes.labels(purpose).inc()
        else:
            self._boxes.labels(purpose).observe(duration_s)

    def call_began(self, method: str) -> None:
        self._open.labels(method).inc()

    def call_ended(self, method: str, code: str, duration_s: float) -> None:
        self._open.labels(method).dec()
        self._calls.labels(method, code).inc()
        self._call_times.labels(method).observe(duration_s)

    def _turn(self, lease: Lease, stage: str) -> None:
        timing, now = self._timings[attempt_key(lease)], self._clock()
        if timing.stage != stage:
            timing.spent[timing.stage] = timing.spent.get(timing.stage, 0.0) + now - timing.since
            timing.stage, timing.since = stage, now

    def _bounded(self, reason: str) -> str:
        looks_right = len(reason) <= REASON_CHARS and reason.isascii() and reason.replace("_", "").isalnum() and reason.isupper()
        if looks_right and len(self._reasons) < REASON_LIMIT:
            self._reasons.add(reason)
        return reason if reason in self._reasons else OTHER
