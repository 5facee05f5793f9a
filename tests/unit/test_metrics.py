"""Metrics of attempts, calls, boxes and lanes, and the small number of their labels."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grader.model import DeviceDemand, Failure, QueueDepth
from grader.observability.metrics import DEVICE_LIMIT, OTHER, REASON_LIMIT, Metrics
from grader.observability.observer import StopReason
from sandbox.protocol import wire
from tests import fakes
from tests.clock import Seconds
from tests.unit import pipeline_fleets

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def clock():
    return Seconds()


@pytest.fixture
def metrics(clock):
    return Metrics(version="1.2.3", clock=clock)


def lease():
    attempt = pipeline_fleets.lease(user="mallory", mode=wire.Mode.RANKED)
    return replace(attempt, submission=replace(attempt.submission, create_time=CREATED, start_time=CREATED + timedelta(seconds=7)))


def value(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_an_attempts_time_is_told_apart_by_stage(metrics, clock):
    """Build, the wait for a device, and every round of verifying and measuring, each as the dispatcher saw it."""
    attempt_lease = lease()
    metrics.attempt_began(attempt_lease)
    built = wire.Build(outcome=wire.BuildOutcome.BUILT, duration_ns=1, artifact_digest="e" * 64)
    stages = [wire.Progress(stage=stage) for stage in (*wire.Stage, wire.Stage.VERIFYING)]
    for fact, after_s in zip([*stages[:2], built, *stages[2:]], (512, 1, 2, 1024, 128, 4, 256, 8, 16, 64, 32), strict=True):
        metrics.fact_found(attempt_lease, fact)
        clock.now_s += after_s
    metrics.attempt_ended(attempt_lease, fakes.report())
    stage_seconds = {stage: value(metrics, "grader_stage_seconds_sum", stage=stage) for stage in wire.Stage}
    waited = {"waiting": 2 + 128}  # from the end of the build, or from when it is said
    assert stage_seconds == {
        "screening": 512,
        "building": 1,
        "preparing": 1024,
        **waited,
        "loading": 4,
        "baseline": 256,
        "verifying": 8 + 32,
        "measuring": 16,
        "profiling": 64,
    }


@pytest.mark.parametrize(
    ("ended", "end", "counter", "labels"),
    [
        (fakes.report(), "settled", "grader_verdicts_total", {"verdict": "ACCEPTED", "reason": ""}),
        (Failure(reason="SANDBOX_BROKEN", message="no"), "failed", "grader_failures_total", {"reason": "SANDBOX_BROKEN"}),
        (StopReason.LEASE_LOST, "lease_lost", "grader_lease_losses_total", {"by": "own"}),
        (StopReason.NOT_SETTLED, "not_settled", "grader_lease_losses_total", {"by": "own"}),
        (StopReason.CANCELLED, "cancelled", None, {}),
    ],
)
def test_an_attempts_end_is_counted_by_its_kind(metrics, ended, end, counter, labels):
    """Verdicts, failures of ours and lost leases are different counters; nothing runs afterwards."""
    metrics.attempt_began(lease())
    assert value(metrics, "grader_attempts_running") == 1
    metrics.attempt_ended(lease(), ended)
    assert value(metrics, "grader_attempts_running") == 0
    assert value(metrics, "grader_attempts_total", mode="ranked", end=end) == 1
    assert counter is None or value(metrics, counter, **labels) == 1


def test_a_built_artifact_and_a_found_one_are_told_apart(metrics):
    metrics.attempt_began(lease())
    for cached in (True, True, False):
        fact = wire.Build(outcome=wire.BuildOutcome.BUILT, duration_ns=1, artifact_digest="e" * 64, cached=cached)
        metrics.fact_found(lease(), fact)
    assert [value(metrics, "grader_artifacts_total", found=source) for source in ("cache", "build")] == [2, 1]


def test_boxes_and_calls_and_expired_leases_are_counted(metrics):
    """A box that could not be had is no start; a call is open until it is answered."""
    metrics.box_started("run", 0.2, failed=False)
    metrics.box_started("run", 9.0, failed=True)
    metrics.leases_expired(2)
    metrics.call_began("Submit")
    assert value(metrics, "grader_calls_open", method="Submit") == 1
    metrics.call_ended("Submit", "UNAVAILABLE", 0.5)
    assert value(metrics, "grader_calls_open", method="Submit") == 0
    assert value(metrics, "grader_calls_total", method="Submit", code="UNAVAILABLE") == 1
    assert value(metrics, "grader_box_start_seconds_count", purpose="run") == 1
    assert value(metrics, "grader_box_failures_total", purpose="run") == 1
    assert value(metrics, "grader_lease_losses_total", by="expired") == 2


def test_a_queue_that_empties_is_told_as_empty(metrics):
    now = CREATED + timedelta(seconds=30)
    metrics.set_queue([QueueDepth(mode=wire.Mode.TEST, count=3, oldest_time=CREATED)], now)
    assert value(metrics, "grader_queue_depth", mode="test") == 3
    assert value(metrics, "grader_queue_oldest_seconds", mode="test") == 30
    metrics.set_queue([], now)
    assert value(metrics, "grader_queue_depth", mode="test") == 0
    assert value(metrics, "grader_queue_oldest_seconds", mode="test") == 0


def test_devices_stay_few_whatever_workers_say(metrics):
    kinds = [f"cuda:model {index:04}" for index in range(1000)]
    metrics.set_device_demand([DeviceDemand(device_kind=kind, queued_count=1, running_count=0) for kind in kinds], kinds)
    (family,) = [metric for metric in metrics.registry.collect() if metric.name == "grader_device_submissions"]
    assert len({sample.labels["device"] for sample in family.samples}) == DEVICE_LIMIT + 2
    states = ("queued", "running")
    assert [value(metrics, family.name, device="other", state=state) for state in states] == [1000 - DEVICE_LIMIT, 0]


def test_reasons_stay_few_whatever_is_sent(metrics):
    """Reasons that a judge makes up do not make Prometheus' memory grow; honest reasons come through."""
    made_up = [*(f"R{index}" for index in range(1000)), "a sentence", "Ä", "X" * 60]
    for reason in ["UNWRITTEN_OUTPUT", *made_up]:
        metrics.attempt_began(lease())
        metrics.attempt_ended(lease(), replace(fakes.report(), reason=reason))
    samples = (sample for metric in metrics.registry.collect() for sample in metric.samples)
    reasons = {sample.labels["reason"] for sample in samples if sample.name == "grader_verdicts_total"}
    assert len(reasons) <= REASON_LIMIT and {"UNWRITTEN_OUTPUT", OTHER} <= reasons
    assert not reasons & {"a sentence", "Ä", "X" * 60}


def test_no_user_problem_submission_or_source_is_told(metrics):
    attempt_lease = lease()
    metrics.attempt_began(attempt_lease)
    metrics.fact_found(attempt_lease, fakes.ENVIRONMENT)
    metrics.fact_found(attempt_lease, wire.Progress(stage=wire.Stage.VERIFYING, workload_id="secret33"))
    metrics.attempt_ended(attempt_lease, fakes.report())
    labels = {label for metric in metrics.registry.collect() for sample in metric.samples for label in sample.labels.values()}
    assert {"ACCEPTED", "1.2.3", "verifying"} <= labels
    assert not labels & {"mallory", attempt_lease.problem.problem_id, "s1", "secret33", "w"}
    assert "solve" not in metrics.exposed().decode()
