"""Content of a report of a submission, for its template.  Pure.  It comes as the API shows it, so that what that withholds is not here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from extensions.web.report import charts
from extensions.web.report.source_lines import REMARKS, remarks_by_line, shown_sources
from grader.isolations import description
from grader.v1 import rejudge_pb2, report_pb2, submission_pb2
from grader.views import access_counts, figures, formatting
from grader.views.figures import occupancies
from grader.views.workload_rows import step_times, workload_rows

LOG_CHARS, OUTPUT_CHARS = 64_000, 16_000
ROWS = 1_000  # of a table


def submission(submission: submission_pb2.Submission, budget: charts.ChartBudget = charts.FILE_CHARTS) -> dict[str, Any]:
    """All that a report shows. budget: of its charts of samples; the other samples are in the raw data."""
    report = submission.report if submission.HasField("report") else None
    steps = step_times(submission)
    paths = [source.path for source in submission.sources]
    remarks = remarks_by_line(submission.report.build.log[:LOG_CHARS], submission.report.build.remarks, paths)
    return {
        "id": submission.name.rpartition("/")[2],
        "problem_id": submission.problem.rpartition("/")[2],
        "competition_id": submission.competition.rpartition("/")[2],
        "user": submission.user,
        "language": submission.language,
        "mode": formatting.name_of(submission_pb2.Mode, submission.mode, "MODE_").lower(),
        "device_kind": submission.device_kind,
        "state": formatting.state_name(submission).lower(),
        "attempts": submission.attempt_count,
        "created": _time(submission, "create_time"),
        "ended": _time(submission, "end_time"),
        "error": submission.error.message if submission.HasField("error") else "",
        "score": _score(submission, submission.score_kind) if submission.HasField("score") else "",
        "withdrawn": formatting.withdrawal(submission),
        "has_sources": bool(submission.sources),
        "sources_removed": submission.sources_removed,
        "sources": shown_sources(submission.sources, remarks),
        "steps": [{"name": name, "seconds": f"{length:.3g}"} for name, length in steps.items()],
        "history": [_judgement(judgement, submission.score_kind) for judgement in submission.judgements],
        "report": _report(report, budget) if report is not None else None,
        "artifacts": (),  # a site that keeps files of submissions says which
    }


def flags(names: Sequence[str]) -> list[dict[str, str]]:
    """Flags with their meanings."""
    return [{"name": name, "meaning": meaning} for name, meaning in formatting.flags(names)]


def when(time: datetime) -> dict[str, str]:
    """A time for machines and for people."""
    utc = time.astimezone(UTC)
    return {"iso": utc.isoformat(timespec="seconds"), "text": f"{utc:%Y-%m-%d %H:%M} UTC"}


def _judgement(judgement: rejudge_pb2.Judgement, kind: int) -> dict[str, Any]:
    return {
        "sequence": judgement.sequence,
        "verdict": formatting.name_of(report_pb2.Verdict, judgement.verdict, "VERDICT_"),
        "reason": judgement.reason,
        "summary": judgement.summary,
        "score": _score(judgement, kind) if judgement.HasField("score") else "",
        "time": _time(judgement, "create_time"),
        "rejudge_id": judgement.rejudge.rpartition("/")[2],
    }


def _report(report: report_pb2.Report, budget: charts.ChartBudget) -> dict[str, Any]:
    rows = workload_rows(report.trials)
    return {
        "verdict": formatting.verdict_name(report),
        "accepted": report.verdict == report_pb2.VERDICT_ACCEPTED,
        "reason": report.reason,
        "summary": report.summary,
        "cached_from": report.cached_from,
        "flags": flags(report.flags),
        "libraries": list(report.libraries)[:REMARKS],
        "speedups": [{"baseline": speedup.baseline, "ratio": formatting.ratio(speedup)} for speedup in report.speedups],
        "workloads": [row for row in rows if not row.hidden][:ROWS],
        # Of hidden workloads no more than how many were run and how many passed.
        "hidden": {"count": sum(row.hidden for row in rows), "passed": sum(row.hidden and row.passed for row in rows)},
        "rule": report.rule,
        "wrong": [
            dict(zip(("place", "expected", "actual", "allowed"), formatting.wrong_element(wrong_element), strict=True))
            for trial in report.trials
            for wrong_element in trial.wrong_elements
        ][:ROWS],
        "times": measured(report, budget),
        "build": _build(report) if report.HasField("build") else None,
        "profile": profile_view(report.profile) if report.HasField("profile") else None,
        "output": report.output[:OUTPUT_CHARS],
        "output_cut": len(report.output) > OUTPUT_CHARS,
        "environment": _environment(report.environment) if report.HasField("environment") else None,
    }


def _build(report: report_pb2.Report) -> dict[str, Any]:
    build = report.build
    return {
        "outcome": formatting.name_of(report_pb2.BuildOutcome, build.outcome, "BUILD_OUTCOME_").lower().replace("_", " "),
        "reason": build.reason,
        "duration": formatting.time(formatting.duration_ns(build.build_duration)),
        "cached": build.cached,
        "log": build.log[:LOG_CHARS],
        "cut": build.log_truncated or len(build.log) > LOG_CHARS,
        "kernels": [
            {
                **kernel_row(use),
                "occupancy": formatting.occupancies(occupancies(report.environment.architecture, use.registers, use.shared_bytes)),
            }
            for use in build.kernels[:ROWS]
        ],
        "remarks": list(build.remarks)[:REMARKS],
    }


def _environment(environment: report_pb2.Environment) -> dict[str, Any]:
    return {
        "device": environment.device or environment.device_kind,
        "architecture": environment.architecture,
        "isolation": description(environment.isolation),
        "versions": sorted(environment.versions.items()),
        "ceilings": formatting.ceilings(environment.ceilings) if environment.ceilings else "",
        "practice": f"{formatting.PRACTICE[0].upper()}{formatting.PRACTICE[1:]}." if environment.clock == report_pb2.CLOCK_HOST else "",
    }


def _score(scored: submission_pb2.Submission | rejudge_pb2.Judgement, kind: int) -> str:
    return formatting.score(scored.score, scored.score_low, scored.score_high, kind)


def _time(message: Any, field: str) -> dict[str, str]:
    """When, or nothing."""
    if not message.HasField(field):
        return {}
    timestamp: Timestamp = getattr(message, field)
    return when(timestamp.ToDatetime(UTC))


def measured(report: report_pb2.Report, budget: charts.ChartBudget) -> dict[str, Any] | None:
    """All of the public workloads; None where none was measured."""
    shown = [measurement for measurement in report.measurements if not measurement.hidden][:ROWS]
    if not shown:
        return None
    baselines = formatting.baselines(name for row in shown for name in (*row.baselines, *row.reported_baselines))
    drawn = charts.sample_charts(shown, budget)
    return {
        "host_clock": any(row.clock == report_pb2.CLOCK_HOST for row in shown),
        "workloads": [
            {
                "id": row.workload_id,
                "certified": formatting.median(row.certified),
                "interval": formatting.median_range(row.certified),
                "bound": formatting.time(formatting.duration_ns(row.bound_duration)) if row.HasField("bound_duration") else "-",
                "reported": formatting.median(row.reported) if row.HasField("reported") else "",
                "confirmed": row.reported_confirmed,
                "baselines": [_baseline_times(row, name) for name in baselines],
                "conditions": formatting.conditions(row.conditions),
                "turns": formatting.turns(row),
            }
            for row in shown
        ],
        "baselines": baselines,
        "rates": [rates for row in shown if (rates := _rates(row, report.environment))],
        "plots": [(row.workload_id, plot) for row, plot in zip(shown, drawn, strict=False) if plot],
        "left_out": sum(1 for row in shown[len(drawn) :] if row.certified.sample_durations_ns),
    }


def _baseline_times(measurement: report_pb2.Measurement, name: str) -> dict[str, str]:
    """A way of PyTorch: its times, the certified speedup, and the one that do_bench shows."""
    certified = next((formatting.ratio(speedup) for speedup in measurement.speedups if speedup.baseline == name), "-")
    claimed = figures.reported_speedup(measurement, name)
    return {
        "certified": formatting.median(measurement.baselines[name]) if name in measurement.baselines else "-",
        "reported": formatting.median(measurement.reported_baselines[name]) if name in measurement.reported_baselines else "-",
        "speedup": certified,
        "claimed": f"{claimed:.3g}x" if claimed is not None else "-",
    }


def _rates(measurement: report_pb2.Measurement, environment: report_pb2.Environment) -> dict[str, Any] | None:
    throughput = figures.throughput(measurement, environment.ceilings)
    if throughput is None:
        return None
    return {
        "id": measurement.workload_id,
        "bytes": formatting.bytes_rate(throughput.bytes_per_s) if throughput.bytes_per_s is not None else "-",
        "bandwidth": formatting.ceiling_share(throughput.bandwidth) if throughput.bandwidth else "-",
        "flops": formatting.flops_rate(throughput.flops_per_s) if throughput.flops_per_s is not None else "-",
        "shares": [formatting.ceiling_share(share) for share in throughput.shares] or ["-"],
        "intensity": f"{throughput.intensity:.3g}" if throughput.intensity is not None else "-",
        "limit": throughput.limit or "-",
    }


def profile_view(profile: report_pb2.Profile) -> dict[str, Any]:
    """A profile as its template shows it."""
    return {
        "architecture": profile.architecture,
        "workload_id": profile.workload_id,
        "tools": [
            {"name": tool.name, "outcome": formatting.profile_outcome(tool.outcome), "detail": tool.detail} for tool in profile.tools
        ][:ROWS],
        "kernels": [kernel_row(kernel) for kernel in profile.kernels][:ROWS],
        "launches": [_launch(launch) for launch in profile.launches][:ROWS],
        "remarks": list(profile.remarks)[:ROWS],
        "findings": [_finding(finding) for finding in profile.findings][:ROWS],
        "counts": access_counts.tables(profile.access_counts, row_limit=ROWS),
    }


def _finding(finding: report_pb2.SanitizerFinding) -> dict[str, Any]:
    return {
        "severity": formatting.sanitizer_severity(finding),
        "place": formatting.sanitizer_place(finding) or "-",
        "message": finding.message,
        "thread": formatting.sanitizer_thread(finding) or "-",
        "count": finding.count,
    }


def kernel_row(use: report_pb2.KernelUse) -> dict[str, Any]:
    """Resources of the device that a kernel takes."""
    return {
        "name": use.name,
        "registers": use.registers or "-",
        "shared": use.shared_bytes,
        "stack": use.stack_bytes,
        "spilled": use.spill_store_bytes + use.spill_load_bytes,
        "doubles": use.double_instruction_count,
    }


def _launch(launch: report_pb2.KernelLaunch) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "count": launch.count,
        "grid": formatting.dimensions(launch.grid),
        "block": formatting.dimensions(launch.block),
        "shared": launch.shared_bytes,
        "time": formatting.time(formatting.duration_ns(launch.total_duration)) if launch.HasField("total_duration") else "-",
    }
