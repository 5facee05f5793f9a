"""OpenTelemetry traces, where its packages are installed and an address is set: one trace an attempt, a span a stage.

Spans name the submission, the problem and the verdict; no sources, no users, no workloads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import structlog

from grader.model import Failure, Lease, Report
from grader.observability.observer import Ended, Observer, attempt_key
from sandbox.protocol import wire

log = structlog.get_logger()

SEND_S = 5  # a collector that is away holds nobody up for longer, at the end either
_PACKAGES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.grpc")
_HINT = "pip install '.[trace]' in a clone, or unset OTEL_EXPORTER_OTLP_ENDPOINT"


@dataclass
class _Trace:
    """An attempt's span, and the one of the stage that it is in."""

    root: Any
    stage: Any = None
    stage_name: str = ""


class Tracing(Observer):
    """Makes spans with a tracer provider. The packages have no types that mypy could read where they are not installed."""

    def __init__(self, provider: Any) -> None:
        self._provider, self._api = provider, import_module("opentelemetry.trace")
        self._tracer = provider.get_tracer("grader")
        self._traces: dict[tuple[str, int], _Trace] = {}

    def attempt_began(self, lease: Lease) -> str:
        """The trace begins when the submission was made, so that the wait is seen."""
        submission = lease.submission
        begun = submission.create_time if lease.attempt == 1 else submission.start_time or submission.create_time
        attributes = {
            "grader.submission": submission.submission_id,
            "grader.attempt": lease.attempt,
            "grader.problem": submission.new.problem_id,
            "grader.mode": submission.new.mode,
            "grader.language": submission.new.language,
        }
        # A context of its own: an attempt belongs to no call.
        root = self._tracer.start_span("attempt", context=self._api.Context(), start_time=_ns(begun), attributes=attributes)
        trace = self._traces[attempt_key(lease)] = _Trace(root)
        if lease.attempt == 1:
            leased = submission.start_time or begun
            self._tracer.start_span("queued", context=self._within(trace), start_time=_ns(begun)).end(end_time=_ns(leased))
        return f"{root.get_span_context().trace_id:032x}"

    def fact_found(self, lease: Lease, fact: wire.Fact) -> None:
        """Stages end where others begin; what is between a build and the device is the wait for it."""
        if isinstance(fact, wire.Progress):
            self._turn(self._traces[attempt_key(lease)], fact.stage)
        elif isinstance(fact, wire.Build):
            trace = self._traces[attempt_key(lease)]
            if trace.stage is not None:
                trace.stage.set_attribute("grader.cached", fact.cached)
            self._turn(trace, "waiting")

    def attempt_ended(self, lease: Lease, ended: Ended) -> None:
        """Say how it ended; only our own failures are errors."""
        trace = self._traces.pop(attempt_key(lease))
        self._turn(trace, "")
        match ended:
            case Report():
                trace.root.set_attributes({"grader.verdict.fold": ended.verdict, "grader.reason": ended.reason})
            case Failure():
                trace.root.set_status(self._api.Status(self._api.StatusCode.ERROR, ended.reason))
            case stopped:
                trace.root.set_attribute("grader.stopped", stopped)
        trace.root.end()

    def close(self) -> None:
        self._provider.shutdown()

    def _turn(self, trace: _Trace, name: str) -> None:
        if trace.stage_name == name:
            return
        if trace.stage is not None:
            trace.stage.end()
        trace.stage = self._tracer.start_span(name, context=self._within(trace)) if name else None
        trace.stage_name = name

    def _within(self, trace: _Trace) -> Any:
        return self._api.set_span_in_context(trace.root, self._api.Context())


def tracing(endpoint: str, packages: Iterable[str] = _PACKAGES) -> Tracing | None:
    """Traces that are sent to endpoint; None where that is "" or where the packages are not installed, which is then said once."""
    if not endpoint:
        return None
    missing = missing_packages(packages)
    if missing:
        log.warning("tracing_is_off", missing=missing, remedy=_HINT)
        return None
    trace, export, otlp, resources = (
        import_module(f"opentelemetry.{name}")
        for name in ("sdk.trace", "sdk.trace.export", "exporter.otlp.proto.grpc.trace_exporter", "sdk.resources")
    )
    provider = trace.TracerProvider(resource=resources.Resource.create({"service.name": "grader-server"}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint=endpoint, timeout=SEND_S)))
    return Tracing(provider)


def missing_packages(packages: Iterable[str] = _PACKAGES) -> list[str]:
    """Return the packages that traces need and that are not installed."""
    return [name for name in packages if not has_module(name)]


def has_module(name: str) -> bool:
    """Return whether a module is installed, without an import of it."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _ns(time: datetime) -> int:
    return int((time - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1e9)
