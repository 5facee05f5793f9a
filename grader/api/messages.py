"""Model to protobuf and back.  Pure.  What submitters must not see of hidden workloads is taken out here and nowhere else.

A field of a dataclass reaches its message by its name (`grader/api/conversion.py`); here is what is computed, renamed or withheld.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import fmean, median, quantiles
from typing import Any

from google.protobuf.duration_pb2 import Duration

from grader.api.conversion import M, duration, to_message
from grader.api.resource_names import artifact_name
from grader.api.statuses import failure_to_status
from grader.model import (
    Caller,
    Event,
    Failure,
    Position,
    Problem,
    Report,
    Scope,
    ScoreKind,
    Submission,
    SubmissionArtifact,
    SubmissionState,
)
from grader.rules.disclosure import Exposure, Redactor, omitted
from grader.rules.quotas import QuotaUse
from grader.v1 import grader_service_pb2, problem_pb2, report_pb2, submission_pb2
from grader.verdict.compiler_diagnostics import compiler_diagnostics
from grader.verdict.scores import median_interval
from grader.verdict.timing_audit import bandwidth_share, peak_share
from sandbox.protocol import wire
from sandbox.protocol.signatures import cuda_signature, without_model

# Raised by a conversion where a value has no place in the API, such as one of an older ledger.
NOT_SHOWABLE = (ArithmeticError, LookupError, TypeError, ValueError)
# Of a submission, what is not known before it ends.
_LATER = (
    *("cancel_requested", "report", "error", "end_time", "score", "score_low", "score_high", "score_kind", "score_baseline"),
    "withdrawal",
)
_OWNERS = frozenset(("tags", "parent_id", "annotations"))  # of a submission, what only its owner and administrators see


def problem_to_proto(problem: Problem) -> problem_pb2.Problem:
    """Convert a problem as submitters see it."""
    spec, compiled = problem.spec, without_model(problem.spec)
    public = [workload for workload in spec.workloads if not workload.hidden]
    return to_message(
        problem_pb2.Problem,
        problem,
        spec,
        workloads=[to_message(problem_pb2.Workload, workload) for workload in public],
        axes=compiled.axes,
        cuda_signature=cuda_signature(spec) if "cuda" in problem.languages else "",
        hidden_workload_count=len(spec.workloads) - len(public),
        inputs=_tensors(compiled.inputs),
        outputs=_tensors(spec.outputs),
        sweeps=[to_message(problem_pb2.Sweep, sweep, measure_duration=None, workloads=()) for sweep in problem.sweeps],
    )


def _tensors(tensors: Iterable[wire.TensorSpec]) -> list[problem_pb2.Tensor]:
    return [to_message(problem_pb2.Tensor, tensor, shape=[str(size) for size in tensor.shape]) for tensor in tensors]


def submission_to_proto(
    submission: Submission, redactor: Redactor, *, full: bool = False, owned: bool = False
) -> submission_pb2.Submission:
    """Convert a submission for everybody who may see it. owned: with what only its owner and administrators see."""
    ranking, scored = redactor.ranking, submission.score is not None
    report = error = None
    if submission.report is not None:
        # Of a later attempt the time in the queue is not known: the attempts before it are in the time since it was made.
        began = submission.start_time if submission.attempt_count == 1 else None
        queued = None if began is None else began - submission.create_time
        try:
            report = report_to_proto(submission.report, redactor, full=full, queued=queued)
        except NOT_SHOWABLE as problem:
            # The head of a report that can't be converted, without a value that may be secret, so that lists and streams go on.
            text = f"This report cannot be shown ({type(problem).__name__}): a value in it is out of range."
            report = report_pb2.Report(
                verdict=f"VERDICT_{submission.report.verdict.name}",
                reason=submission.report.reason,
                summary=f"{text} Submit again, or have it judged again.",
            )
    if submission.failure is not None:
        error = failure_to_status(withheld(submission.failure) if redactor.secret else submission.failure)
    sweep = None
    if (swept := redactor.swept) is not None:
        sweep = problem_pb2.Sweep(
            axis=swept.swept_axis,
            workloads=[to_message(problem_pb2.Workload, workload) for workload in swept.spec.workloads],
            measure_duration=None if swept.sweep_measure_s is None else duration(swept.sweep_measure_s * 1e9),
        )
    return to_message(
        submission_pb2.Submission,
        submission,
        submission.new,
        omit=frozenset() if owned else _OWNERS,
        cancel_requested=submission.cancel_requested and not submission.state.final,
        sweep=sweep,
        score_kind=f"SCORE_KIND_{ranking.score_kind.name}" if scored else None,
        score_baseline=ranking.baseline if scored and ranking.score_kind is ScoreKind.SPEEDUP else "",
        queue_position=None,
        report=report,
        error=error,
    )


def withheld(failure: Failure) -> Failure:
    """A failure without its message, which may quote sizes."""
    return replace(failure, message=f"the grader failed ({failure.reason}); in a competition the details are kept for its organisers")


def event_to_proto(event: Event, submission: Submission, redactor: Redactor) -> submission_pb2.SubmissionEvent:
    """Convert an event; submission is the one that it happened to, as it is now. Facts of no use to submitters stay an empty event."""
    message = submission_pb2.SubmissionEvent(
        sequence=event.sequence, event_time=redactor.event_time(event, submission), attempt=event.attempt
    )
    if event.state is None:
        with suppress(*NOT_SHOWABLE):  # a stream goes on after a fact that can't be converted
            message.MergeFrom(submission_pb2.SubmissionEvent(**_fact(event.fact, redactor)))
        return message
    current = submission_to_proto(submission, redactor)
    current.ClearField("sources")
    if not event.state.final:  # a replay: what came later is not reported early
        for later in _LATER:
            current.ClearField(later)
    if event.state is SubmissionState.QUEUED:
        current.ClearField("start_time")
    current.MergeFrom(submission_pb2.Submission(state=f"SUBMISSION_STATE_{event.state.name}"))
    current.attempt_count = event.attempt
    message.submission.CopyFrom(current)
    return message


def _fact(fact: wire.Fact | None, redactor: Redactor) -> dict[str, Any]:
    """Convert a fact to the field of an event that it has; no field where submitters have no use for it."""
    match fact:
        case wire.Build() as build:
            return {"build": _build(build)}
        case wire.Trial() | wire.Measurement() as fact if redactor.omits(fact):
            return {}
        case wire.Trial() as trial:
            return {"trial": _trial(trial, redactor)}
        case wire.Measurement() as measurement:
            return {"measurement": _measurement(measurement, redactor, full=False)}
        case wire.Progress(stage=stage, workload_id=workload_id):
            return {"progress": submission_pb2.Progress(stage=f"STAGE_{stage.name}", workload_id=redactor.name(workload_id or ""))}
        case wire.Round(index=index, count=count):
            return {"progress": submission_pb2.Progress(stage="STAGE_LOADING", process=index + 1, process_count=count)}
        case wire.Environment() as environment:
            return {"environment": _disclosed(report_pb2.Environment, environment)}
        case wire.Load() as load:
            return {"load": _disclosed(report_pb2.Load, load)}
    return {}


def _disclosed(kind: type[M], fact: object, exposure: Exposure = Exposure.PUBLIC, **values: Any) -> M:
    """Make a message of a fact or report, without what the table omits."""
    declared: type = type(fact)
    return to_message(kind, fact, omit=omitted(declared, exposure), **values)


def report_to_proto(report: Report, redactor: Redactor, *, full: bool = False, queued: timedelta | None = None) -> report_pb2.Report:
    """Convert a report as submitters see it; single samples only in full. queued: how long its submission waited, where that is known."""
    exposure = Exposure.SECRET if redactor.secret else Exposure.PUBLIC  # a competition has public runs outside of it for prints
    return _disclosed(
        report_pb2.Report,
        report,
        exposure,
        build=_build(report.build) if report.build else None,
        trials=[_trial(trial, redactor) for trial in report.trials if not redactor.omits(trial)],
        measurements=[
            _measurement(measurement, redactor, full=full, environment=report.environment)
            for measurement in report.measurements
            if not redactor.omits(measurement)
        ],
        timeline=_timeline(report.timeline, queued) if report.timeline and "timeline" not in omitted(Report, exposure) else (),
    )


def _timeline(spans: Iterable[wire.Span], queued: timedelta | None) -> list[report_pb2.Span]:
    """To a millisecond: more is noise, and would carry more of what a kernel may know. queued: put before the others; None: not known."""
    queued_ns = max(round(queued.total_seconds() * 1e9), 0) if queued is not None else 0
    first = [] if queued is None else [wire.Span(step=wire.Step.QUEUED, begin_ns=-queued_ns, duration_ns=queued_ns)]

    def whole_ms(time_ns: int) -> int:
        return round(time_ns / 1e6) * 1_000_000

    return [
        to_message(
            report_pb2.Span,
            span,
            begin=duration(whole_ms(span.begin_ns) + whole_ms(queued_ns)),
            duration=duration(whole_ms(span.duration_ns)),
        )
        for span in (*first, *spans)
    ]


def _build(build: wire.Build) -> report_pb2.Build:
    diagnostics = [to_message(report_pb2.CompilerDiagnostic, diagnostic) for diagnostic in compiler_diagnostics(build.log)]
    return _disclosed(report_pb2.Build, build, diagnostics=diagnostics)


def _trial(trial: wire.Trial, redactor: Redactor) -> report_pb2.Trial:
    exposure = redactor.exposure(trial)
    return _disclosed(
        report_pb2.Trial,
        trial,
        exposure,
        workload_id=redactor.name(trial.workload_id, exposure >= Exposure.HIDDEN),
        hidden=exposure >= Exposure.HIDDEN,
    )


def _measurement(
    measurement: wire.Measurement, redactor: Redactor, *, full: bool, environment: wire.Environment | None = None
) -> report_pb2.Measurement:
    exposure = redactor.exposure(measurement)
    omit = omitted(wire.Measurement, exposure)

    def samples(name: str) -> Any:
        value = None if name in omit else getattr(measurement, name)
        if isinstance(value, Mapping):
            return {baseline: _samples(times, full) for baseline, times in value.items()}
        return _samples(value, full) if value else None

    return _disclosed(
        report_pb2.Measurement,
        measurement,
        exposure,
        workload_id=redactor.name(measurement.workload_id, measurement.hidden),
        **{name: samples(name) for name in ("certified", "reported", "baselines", "reported_baselines")},
        **_amounts(measurement, exposure, environment.ceilings if environment else {}, redactor.dtype),
    )


def _amounts(measurement: wire.Measurement, exposure: Exposure, ceilings: Mapping[str, float], dtype: str) -> dict[str, Any]:
    """Compute what would tell a hidden workload's size: how much is moved and computed can be had from each."""
    if exposure >= Exposure.HIDDEN:
        return dict.fromkeys(("half_width", "declared_work", "bandwidth_share", "peak_share"))
    declared, half_width = measurement.moved_bytes is not None or measurement.flops is not None, measurement.half_width
    return {
        "half_width": half_width if half_width is not None and math.isfinite(half_width) else None,
        "declared_work": to_message(report_pb2.DeclaredWork, measurement, dtype=dtype) if declared else None,
        "bandwidth_share": bandwidth_share(measurement, ceilings),
        "peak_share": peak_share(measurement, ceilings, dtype),
    }


def _samples(samples: wire.Samples, full: bool) -> report_pb2.Samples:
    times = [max(0, time) for time in samples.durations_ns]  # a run that took less than the protocol seems to
    first, _, third = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (times[0],) * 3
    p20, *_, p80 = quantiles(times, n=5, method="inclusive") if len(times) > 1 else (times[0],) * 2
    interval = median_interval(times)
    return report_pb2.Samples(
        sample_count=len(times),
        median_duration=duration(median(times)),
        first_quartile_duration=duration(first),
        third_quartile_duration=duration(third),
        p20_duration=duration(p20),
        p80_duration=duration(p80),
        mean_duration=duration(fmean(times)),
        median_low_duration=duration(interval.low) if interval else None,
        median_high_duration=duration(interval.high) if interval else None,
        sample_durations_ns=times if full else (),
    )


def caller_to_proto(caller: Caller, uses: Iterable[QuotaUse] = ()) -> grader_service_pb2.Caller:
    """Convert who calls, with what of quotas is used; scopes in the order in which they are documented."""
    return to_message(
        grader_service_pb2.Caller,
        caller,
        scopes=[str(scope) for scope in Scope if scope in caller.scopes],
        quotas=[to_message(grader_service_pb2.QuotaUse, use, use.quota) for use in uses],
    )


def artifact_to_proto(
    submission_id: str, artifact: SubmissionArtifact, *, retention: timedelta | None, available: bool
) -> grader_service_pb2.Artifact:
    """Convert a file. retention: how long after it was made; None: for ever."""
    return to_message(
        grader_service_pb2.Artifact,
        artifact,
        name=artifact_name(submission_id, artifact.name),
        expire_time=None if retention is None else artifact.create_time + retention,
        available=available,
    )


def position_to_proto(position: Position) -> submission_pb2.QueuePosition:
    """Convert a place in the queue; the estimate in whole seconds, for it is no better."""
    estimate = None if position.estimated_s is None else Duration(seconds=round(position.estimated_s))
    return submission_pb2.QueuePosition(ahead_count=position.ahead_count, estimated_duration=estimate, no_worker=position.no_worker)


def placed_event(position: Position, sequence: int, submission: Submission, now: datetime) -> submission_pb2.SubmissionEvent:
    """Make the event of a watcher that waits. It is not stored, so its sequence is that of the event before: there the watch resumes."""
    return submission_pb2.SubmissionEvent(
        sequence=sequence, event_time=now, attempt=submission.attempt_count, queue_position=position_to_proto(position)
    )
