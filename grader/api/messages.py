"""Model to protobuf and back.  Pure.  What submitters must not see of hidden workloads is taken out here and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from statistics import fmean, median, quantiles
from typing import cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from grader.api.profiles import profile_to_proto
from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, SUBMISSIONS, full_name
from grader.api.statuses import failure_to_status
from grader.model import (
    Caller,
    Event,
    Failure,
    Judgement,
    Problem,
    Report,
    Scope,
    ScoreKind,
    Submission,
    SubmissionState,
    Verdict,
    Withdrawal,
)
from grader.rules.disclosure import Exposure, Redactor, Treatment, redact, treatment
from grader.rules.quotas import QuotaUse
from grader.v1 import grader_service_pb2, problem_pb2, rejudge_pb2, report_pb2, submission_pb2
from grader.verdict.compiler_diagnostics import compiler_diagnostics
from grader.verdict.median_interval import median_interval
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


def problem_to_proto(problem: Problem) -> problem_pb2.Problem:
    """A problem as submitters see it."""
    spec, compiled = problem.spec, without_model(problem.spec)
    shown = [workload for workload in spec.workloads if not workload.hidden]
    return problem_pb2.Problem(
        name=full_name(PROBLEMS, problem.problem_id),
        title=problem.title,
        format=spec.format,
        languages=problem.languages,
        workloads=[_workload(one) for one in shown],
        digest=problem.digest,
        entry=spec.entry,
        axes=compiled.axes,
        cuda_signature=cuda_signature(spec) if "cuda" in problem.languages else "",
        statement=problem.statement,
        hidden_workload_count=len(spec.workloads) - len(shown),
        inputs=[_tensor(one) for one in compiled.inputs],
        outputs=[_tensor(one) for one in spec.outputs],
        tolerance=_tolerance(spec.tolerance),
        sweeps=[problem_pb2.Sweep(**{name: value for name, value in asdict(one).items() if value is not None}) for one in problem.sweeps],
    )


def sweep_to_proto(problem: Problem) -> problem_pb2.Sweep:
    """The sizes of the problem that was made for a sweep."""
    message = problem_pb2.Sweep(axis=problem.swept_axis, workloads=[_workload(one) for one in problem.spec.workloads])
    if problem.sweep_measure_s is not None:
        message.measure_duration.CopyFrom(_duration(round(problem.sweep_measure_s * 1e9)))
    return message


def _workload(workload: wire.Workload) -> problem_pb2.Workload:
    return problem_pb2.Workload(
        workload_id=workload.workload_id,
        axes=workload.axes,
        device_kind=workload.device_kind,
        moved_bytes=workload.moved_bytes,
        flops=workload.flops,
        tolerance=_tolerance(workload.tolerance) if workload.tolerance else None,
    )


def _tolerance(tolerance: wire.Tolerance) -> problem_pb2.Tolerance:
    return problem_pb2.Tolerance(
        atol=tolerance.atol,
        rtol=tolerance.rtol,
        budget_factor=tolerance.budget_factor,
        allow_lower_precision=tolerance.allow_lower_precision,
    )


def _tensor(tensor: wire.TensorSpec) -> problem_pb2.Tensor:
    return problem_pb2.Tensor(name=tensor.name, dtype=tensor.dtype, shape=[str(size) for size in tensor.shape])


def submission_to_proto(
    submission: Submission, redactor: Redactor, *, full: bool = False, owned: bool = False
) -> submission_pb2.Submission:
    """A submission as everybody sees it who may see it. owned: with what only its owner and administrators see."""
    message = submission_pb2.Submission(
        name=full_name(SUBMISSIONS, submission.submission_id),
        problem=full_name(PROBLEMS, submission.new.problem_id),
        language=submission.new.language,
        sources=[submission_pb2.SourceFile(path=one.path, content=one.content) for one in submission.new.sources],
        device_kind=submission.new.device_kind,
        mode=f"MODE_{submission.new.mode.name}",
        entry=submission.new.entry,
        state=state_to_proto(submission.state),
        attempt_count=submission.attempt_count,
        create_time=timestamp(submission.create_time),
        start_time=timestamp(submission.start_time),
        end_time=timestamp(submission.end_time),
        competition=full_name(COMPETITIONS, submission.new.competition_id),
        user=submission.new.user,
        judgements=[judgement_to_proto(one) for one in submission.judgements],
        sources_removed=submission.sources_removed,
        cancel_requested=submission.cancel_requested and not submission.state.final,
        tags=submission.new.tags if owned else (),
        parent=full_name(SUBMISSIONS, submission.new.parent_id) if owned else "",
        annotations=submission.new.annotations if owned else {},
        precision=submission.new.precision,
        skip_sanitizer=submission.new.skip_sanitizer,
    )
    if submission.new.measure_s is not None:
        message.measure_duration.CopyFrom(_duration(round(submission.new.measure_s * 1e9)))
    if submission.withdrawal is not None:
        message.withdrawal.CopyFrom(_withdrawal(submission.withdrawal))
    if redactor.swept is not None:
        message.sweep.CopyFrom(sweep_to_proto(redactor.swept))
    if submission.score is not None:
        message.score, message.score_low, message.score_high = submission.score.value, submission.score.low, submission.score.high
        message.score_kind = score_kind_to_proto(redactor.ranking.score_kind)
        message.score_baseline = redactor.ranking.baseline if redactor.ranking.score_kind is ScoreKind.SPEEDUP else ""
    if submission.report is not None:
        # Of a later attempt the time in the queue is not known: the attempts before it are in the time since it was made.
        began = submission.start_time if submission.attempt_count == 1 else None
        queued = None if began is None else began - submission.create_time
        try:
            message.report.CopyFrom(report_to_proto(submission.report, redactor, full=full, queued=queued))
        except NOT_SHOWABLE as error:
            message.report.CopyFrom(_unshown(submission.report, error))
    if submission.failure is not None:
        message.error.CopyFrom(failure_to_status(withheld(submission.failure) if redactor.secret else submission.failure))
    return message


def _unshown(report: Report, error: Exception) -> report_pb2.Report:
    """The head of a report that can't be converted, so that lists and streams go on.

    It has no value of the report, which may be secret.
    """
    return report_pb2.Report(
        verdict=f"VERDICT_{report.verdict.name}",
        reason=report.reason,
        summary=f"This report cannot be shown ({type(error).__name__}): a value in it is out of range. "
        "Submit again, or have it judged again.",
    )


def _withdrawal(withdrawal: Withdrawal) -> submission_pb2.Withdrawal:
    create_time = timestamp(withdrawal.create_time)
    return submission_pb2.Withdrawal(create_time=create_time, user=withdrawal.user, reason=withdrawal.reason)


def withheld(failure: Failure) -> Failure:
    """A failure without its message, which may quote sizes."""
    return replace(failure, message=f"the grader failed ({failure.reason}); in a competition the details are kept for its organisers")


def judgement_to_proto(judgement: Judgement) -> rejudge_pb2.Judgement:
    """One judgement of a submission's history."""
    score = judgement.score
    return rejudge_pb2.Judgement(
        sequence=judgement.sequence,
        verdict=f"VERDICT_{judgement.verdict.name}",
        reason=judgement.reason,
        summary=judgement.summary,
        problem_digest=judgement.problem_digest,
        create_time=timestamp(judgement.create_time),
        rejudge=full_name(REJUDGES, judgement.rejudge_id),
        score=score.value if score else None,
        score_low=score.low if score else None,
        score_high=score.high if score else None,
    )


def event_to_proto(event: Event, submission: Submission, redactor: Redactor) -> submission_pb2.SubmissionEvent:
    """An event; submission is the one that it happened to, as it is now. Facts of no use to submitters stay an empty event."""
    message = submission_pb2.SubmissionEvent(
        sequence=event.sequence, event_time=timestamp(redactor.event_time(event, submission)), attempt=event.attempt
    )
    if event.state is not None:
        moved = submission_to_proto(submission, redactor)
        moved.ClearField("sources")
        if not event.state.final:  # a replay: what came later is not reported early
            for later in _LATER:
                moved.ClearField(later)
        if event.state is SubmissionState.QUEUED:
            moved.ClearField("start_time")
        moved.state, moved.attempt_count = state_to_proto(event.state), event.attempt
        message.submission.CopyFrom(moved)
        return message
    with suppress(*NOT_SHOWABLE):  # a stream goes on after a fact that can't be converted
        _set_fact(message, event.fact, redactor)
    return message


def _set_fact(message: submission_pb2.SubmissionEvent, fact: wire.Fact | None, redactor: Redactor) -> None:
    match fact:
        case wire.Build() as build:
            message.build.CopyFrom(_build(build))
        case wire.Trial() | wire.Measurement() as fact if redactor.omits(fact):
            pass
        case wire.Trial() as trial:
            message.trial.CopyFrom(_trial(trial, redactor))
        case wire.Measurement() as measurement:
            message.measurement.CopyFrom(_measurement(measurement, redactor, full=False))
        case wire.Progress(stage=stage, workload_id=workload_id):
            message.progress.CopyFrom(submission_pb2.Progress(stage=f"STAGE_{stage.name}", workload_id=redactor.name(workload_id or "")))
        case wire.Round(index=index, count=count):
            message.progress.CopyFrom(submission_pb2.Progress(stage="STAGE_LOADING", process=index + 1, process_count=count))
        case wire.Environment() as environment:
            message.environment.CopyFrom(_environment(environment))
        case wire.Load(outcome=outcome, message=text):
            message.load.CopyFrom(report_pb2.Load(outcome=f"LOAD_OUTCOME_{outcome.name}", message=text))
        case _:
            pass


def report_to_proto(report: Report, redactor: Redactor, *, full: bool = False, queued: timedelta | None = None) -> report_pb2.Report:
    """A report as submitters see it; single samples only in full. queued: how long its submission waited, where that is known."""
    timeline = () if treatment(Report, "timeline", redactor.report_exposure) is Treatment.OMITTED else report.timeline
    return report_pb2.Report(
        verdict=f"VERDICT_{report.verdict.name}",
        reason=report.reason,
        summary=report.summary,
        speedups=_speedups(report.speedups),
        build=_build(report.build) if report.build else None,
        trials=[_trial(trial, redactor) for trial in report.trials if not redactor.omits(trial)],
        measurements=[
            _measurement(one, redactor, full=full, environment=report.environment) for one in report.measurements if not redactor.omits(one)
        ],
        environment=_environment(report.environment) if report.environment else None,
        flags=report.flags,
        libraries=report.libraries,
        output="" if treatment(Report, "output", redactor.report_exposure) is Treatment.OMITTED else report.output,
        process_count=report.process_count,
        rule=report.rule,
        profile=profile_to_proto(report.profile) if report.profile else None,
        timeline=_timeline(timeline, queued) if timeline else (),
        exit_code=report.exit_code,
        signal=report.signal,
        cached_from=full_name(SUBMISSIONS, report.cached_from) if report.cached_from else "",
    )


def _timeline(spans: Iterable[wire.Span], queued: timedelta | None) -> list[report_pb2.Span]:
    """To a millisecond: more is noise, and would carry more of what a kernel may know. queued: put before the others; None: not known."""
    queued_ns = max(round(queued.total_seconds() * 1e9), 0) if queued is not None else 0
    first = [] if queued is None else [wire.Span(step=wire.Step.QUEUED, begin_ns=-queued_ns, duration_ns=queued_ns)]
    return [
        report_pb2.Span(
            step=f"STEP_{one.step.name}",
            begin=_duration(_whole_ms(one.begin_ns) + _whole_ms(queued_ns)),
            duration=_duration(_whole_ms(one.duration_ns)),
        )
        for one in (*first, *spans)
    ]


def _whole_ms(time_ns: int) -> int:
    return round(time_ns / 1e6) * 1_000_000


def state_to_proto(state: SubmissionState) -> submission_pb2.SubmissionState:
    """A state by its name."""
    return cast(submission_pb2.SubmissionState, submission_pb2.SubmissionState.Value(f"SUBMISSION_STATE_{state.name}"))


def state_from_proto(state: submission_pb2.SubmissionState) -> SubmissionState:
    """A state by its name; ValueError where it is none of ours."""
    return SubmissionState(submission_pb2.SubmissionState.Name(state).removeprefix("SUBMISSION_STATE_").lower())


def verdict_from_proto(verdict: report_pb2.Verdict) -> Verdict:
    """A verdict by its name; ValueError where it is none of ours."""
    return Verdict(report_pb2.Verdict.Name(verdict).removeprefix("VERDICT_"))


def score_kind_to_proto(kind: ScoreKind) -> report_pb2.ScoreKind:
    """What scores are, by its name."""
    return cast(report_pb2.ScoreKind, report_pb2.ScoreKind.Value(f"SCORE_KIND_{kind.name}"))


def mode_from_proto(mode: submission_pb2.Mode) -> wire.Mode:
    """A mode by its name, benchmark when unset; ValueError where it is none of ours."""
    name = submission_pb2.Mode.Name(mode).removeprefix("MODE_").lower()
    return wire.Mode.BENCHMARK if name == "unspecified" else wire.Mode(name)


def _build(build: wire.Build) -> report_pb2.Build:
    return report_pb2.Build(
        outcome=f"BUILD_OUTCOME_{build.outcome.name}",
        log=build.log,
        log_truncated=build.log_truncated,
        build_duration=_duration(build.duration_ns),
        reason=build.reason or "",
        cached=build.cached,
        headers=build.headers,
        fallback=build.fallback,
        kernels=[report_pb2.KernelUse(**asdict(one)) for one in build.kernels],
        remarks=build.remarks,
        diagnostics=[report_pb2.CompilerDiagnostic(**asdict(one)) for one in compiler_diagnostics(build.log)],
    )


def _trial(trial: wire.Trial, redactor: Redactor) -> report_pb2.Trial:
    exposure = redactor.exposure(trial)
    shown = redact(trial, exposure)
    message = report_pb2.Trial(
        workload_id=redactor.name(trial.workload_id, exposure >= Exposure.HIDDEN),
        phase=f"TRIAL_PHASE_{shown.phase.name}",
        index=shown.index,
        outcome=f"TRIAL_OUTCOME_{shown.outcome.name}",
        hidden=exposure >= Exposure.HIDDEN,
        run_count=shown.run_count if exposure < Exposure.SECRET else 0,
        key=shown.key,
        message=shown.message,
        element_count=shown.element_count,
        mismatched_count=shown.mismatched_count,
        unwritten_count=shown.unwritten_count,
        nonfinite_count=shown.nonfinite_count,
        max_absolute_error=shown.max_absolute_error,
        max_relative_error=shown.max_relative_error,
        budget_ratio=shown.budget_ratio,
        wrong_elements=[report_pb2.WrongElement(**asdict(one)) for one in shown.wrong_elements],
        symptom=shown.symptom or "",
        cuda_error=shown.cuda_error,
    )
    if exposure < Exposure.HIDDEN:
        message.run_duration.CopyFrom(_duration(shown.duration_ns))
    return message


def _measurement(
    measurement: wire.Measurement, redactor: Redactor, *, full: bool, environment: wire.Environment | None = None
) -> report_pb2.Measurement:
    exposure = redactor.exposure(measurement)
    measurement = redact(measurement, exposure)
    message = report_pb2.Measurement(
        workload_id=redactor.name(measurement.workload_id, measurement.hidden),
        certified=_samples(measurement.certified, full),
        reported_confirmed=measurement.reported_confirmed,
        speedups=_speedups(measurement.speedups),
        clock=f"CLOCK_{measurement.clock.name}",
        bound_duration=_duration(measurement.bound_ns),
        hidden=measurement.hidden,
        batch=_samples(measurement.batch, full) if measurement.batch else None,
        conditions=measurement.conditions,
    )
    for name, samples in measurement.baselines.items():
        message.baselines[name].CopyFrom(_samples(samples, full))
    for name, samples in measurement.reported_baselines.items():
        message.reported_baselines[name].CopyFrom(_samples(samples, full))
    if measurement.reported:
        message.reported.CopyFrom(_samples(measurement.reported, full))
    if exposure < Exposure.HIDDEN:
        _set_size_fields(message, measurement, environment.ceilings if environment else {}, redactor.dtype)
    return message


def _set_size_fields(message: report_pb2.Measurement, measurement: wire.Measurement, ceilings: Mapping[str, float], dtype: str) -> None:
    """Set what would tell a hidden workload's size: how much is moved and computed can be had from each."""
    message.floor_duration.CopyFrom(_duration(measurement.floor_ns))
    message.batch_size = measurement.batch_size
    message.turn_count, message.left_out_turn_count = measurement.turn_count, measurement.left_out_count
    if measurement.half_width is not None and math.isfinite(measurement.half_width):
        message.half_width = measurement.half_width
    if measurement.end is not None:
        message.end = cast(report_pb2.MeasurementEnd, report_pb2.MeasurementEnd.Value(f"MEASUREMENT_END_{measurement.end.name}"))
    if measurement.physical_floor_ns is not None:
        message.physical_floor_duration.CopyFrom(_duration(measurement.physical_floor_ns))
    if measurement.moved_bytes is not None or measurement.flops is not None:
        work = report_pb2.DeclaredWork(moved_bytes=measurement.moved_bytes, flops=measurement.flops, dtype=dtype)
        message.declared_work.CopyFrom(work)
    if (of_bandwidth := bandwidth_share(measurement, ceilings)) is not None:
        message.bandwidth_share = of_bandwidth
    if (of_peak := peak_share(measurement, ceilings, dtype)) is not None:
        message.peak_share = of_peak


def _samples(samples: wire.Samples, full: bool) -> report_pb2.Samples:
    times = [max(0, one) for one in samples.durations_ns]  # a run that took less than the protocol seems to
    first, _, third = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (times[0],) * 3
    p20, *_, p80 = quantiles(times, n=5, method="inclusive") if len(times) > 1 else (times[0],) * 2
    interval = median_interval(times)
    return report_pb2.Samples(
        sample_count=len(times),
        median_duration=_duration(round(median(times))),
        first_quartile_duration=_duration(round(first)),
        third_quartile_duration=_duration(round(third)),
        p20_duration=_duration(round(p20)),
        p80_duration=_duration(round(p80)),
        mean_duration=_duration(round(fmean(times))),
        median_low_duration=_duration(round(interval.low)) if interval else None,
        median_high_duration=_duration(round(interval.high)) if interval else None,
        sample_durations_ns=times if full else (),
    )


def _speedups(speedups: Iterable[wire.Speedup]) -> list[report_pb2.Speedup]:
    return [
        report_pb2.Speedup(baseline=one.baseline, ratio=one.ratio, ratio_low=one.ratio_low, ratio_high=one.ratio_high) for one in speedups
    ]


def _environment(environment: wire.Environment) -> report_pb2.Environment:
    return report_pb2.Environment(
        device=environment.device,
        device_kind=environment.device_kind,
        versions=environment.versions,
        clock=f"CLOCK_{environment.clock.name}",
        isolation=environment.isolation,
        architecture=environment.architecture,
        device_uuid=environment.device_uuid,
        ceilings=environment.ceilings,
    )


def caller_to_proto(caller: Caller, uses: Iterable[QuotaUse] = ()) -> grader_service_pb2.Caller:
    """Who calls, with what of quotas is used; scopes in the order in which they are documented."""
    return grader_service_pb2.Caller(
        user=caller.user,
        scopes=[str(scope) for scope in Scope if scope in caller.scopes],
        key_id=caller.key_id,
        expire_time=timestamp(caller.expire_time),
        quotas=[
            grader_service_pb2.QuotaUse(
                competition=full_name(COMPETITIONS, one.quota.competition_id or ""),
                limit=one.quota.limit,
                window=_duration(round(one.quota.window.total_seconds()) * 1_000_000_000),
                used_count=one.used_count,
                next_time=timestamp(one.next_time),
            )
            for one in uses
        ],
    )


def _duration(duration_ns: int) -> Duration:
    message = Duration()
    message.FromNanoseconds(duration_ns)
    return message


def timestamp(time: datetime | None) -> Timestamp | None:
    """A moment; None where there is none."""
    if time is None:
        return None
    message = Timestamp()
    message.FromDatetime(time)
    return message
