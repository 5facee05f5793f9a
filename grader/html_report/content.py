"""What a report shows of a submission, for its template.  Pure.  It comes as the API shows it, so that what that withholds is not here."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from grader.html_report import charts
from grader.html_report.error_maps import error_maps
from grader.html_report.source_lines import REMARKS, remarks_by_line, shown_sources
from grader.isolations import description
from grader.v1 import rejudge_pb2, report_pb2, submission_pb2
from grader.views import access_counts, figures, formatting
from grader.views.figures import occupancies
from grader.views.step_times import step_times
from grader.views.workload_rows import workload_rows

LOG_CHARS, OUTPUT_CHARS = 64_000, 16_000
ROWS = 1_000  # of a table


def submission(found: submission_pb2.Submission, budget: charts.ChartBudget = charts.FILE_CHARTS) -> dict[str, Any]:
    """All that a report shows. budget: of its charts of samples; the other samples are in the raw data."""
    report = found.report if found.HasField("report") else None
    steps = step_times(found)
    return {
        "id": found.name.rpartition("/")[2],
        "problem_id": found.problem.rpartition("/")[2],
        "competition_id": found.competition.rpartition("/")[2],
        "user": found.user,
        "language": found.language,
        "mode": formatting.name_of(submission_pb2.Mode, found.mode, "MODE_").lower(),
        "device_kind": found.device_kind,
        "state": formatting.state_name(found).lower(),
        "attempts": found.attempt_count,
        "created": _time(found, "create_time"),
        "ended": _time(found, "end_time"),
        "error": found.error.message if found.HasField("error") else "",
        "score": _score(found, found.score_kind) if found.HasField("score") else "",
        "withdrawn": formatting.withdrawal(found),
        "has_sources": bool(found.sources),
        "sources_removed": found.sources_removed,
        "sources": shown_sources(found.sources, remarks_by_line(*_compiler_output(report), [one.path for one in found.sources])),
        "steps": [{"name": name, "seconds": f"{length:.3g}"} for name, length in steps.items()],
        "history": [_judgement(one, found.score_kind) for one in found.judgements],
        "report": _report(report, budget) if report is not None else None,
        "artifacts": (),  # a site that keeps files of submissions says which
    }


def flags(names: Sequence[str]) -> list[dict[str, str]]:
    """What else a reader should know."""
    return [{"name": name, "meaning": meaning} for name, meaning in formatting.flags(names)]


def when(time: datetime) -> dict[str, str]:
    """A time for machines and for people."""
    utc = time.astimezone(UTC)
    return {"iso": utc.isoformat(timespec="seconds"), "text": f"{utc:%Y-%m-%d %H:%M} UTC"}


def _compiler_output(report: report_pb2.Report | None) -> tuple[str, Sequence[str]]:
    return (report.build.log[:LOG_CHARS], list(report.build.remarks)) if report is not None else ("", ())


def _judgement(one: rejudge_pb2.Judgement, kind: int) -> dict[str, Any]:
    return {
        "sequence": one.sequence,
        "verdict": formatting.name_of(report_pb2.Verdict, one.verdict, "VERDICT_"),
        "reason": one.reason,
        "summary": one.summary,
        "score": _score(one, kind) if one.HasField("score") else "",
        "time": _time(one, "create_time"),
        "rejudge_id": one.rejudge.rpartition("/")[2],
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
        "speedups": [{"baseline": one.baseline, "ratio": formatting.ratio(one)} for one in report.speedups],
        "workloads": [one for one in rows if not one.hidden][:ROWS],
        # Of hidden workloads no more than how many were run and how many passed.
        "hidden": {"count": sum(one.hidden for one in rows), "passed": sum(one.hidden and one.passed for one in rows)},
        "rule": report.rule,
        "wrong": [
            dict(zip(("place", "expected", "actual", "allowed"), formatting.wrong_element(one), strict=True))
            for trial in report.trials
            for one in trial.wrong_elements
        ][:ROWS],
        "maps": error_maps(report.trials),
        "order_swap": formatting.order_swap(report),
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
        "kernels": [_kernel(one, report.environment.architecture) for one in build.kernels[:ROWS]],
        "remarks": list(build.remarks)[:REMARKS],
    }


def _kernel(one: report_pb2.KernelUse, architecture: str) -> dict[str, Any]:
    return {**kernel_row(one), "occupancy": formatting.occupancies(occupancies(architecture, one.registers, one.shared_bytes))}


def _environment(found: report_pb2.Environment) -> dict[str, Any]:
    return {
        "device": found.device or found.device_kind,
        "architecture": found.architecture,
        "isolation": description(found.isolation),
        "versions": sorted(found.versions.items()),
        "ceilings": formatting.ceilings(found.ceilings) if found.ceilings else "",
        "practice": _sentence(formatting.practice(found.device)) if found.clock == report_pb2.CLOCK_HOST else "",
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _score(one: submission_pb2.Submission | rejudge_pb2.Judgement, kind: int) -> str:
    return formatting.score(one.score, one.score_low, one.score_high, kind)


def _time(message: Any, field: str) -> dict[str, str]:
    """When, or nothing."""
    if not message.HasField(field):
        return {}
    found: Timestamp = getattr(message, field)
    return when(found.ToDatetime(UTC))


def measured(report: report_pb2.Report, budget: charts.ChartBudget) -> dict[str, Any] | None:
    """All of the public workloads; None where none was measured."""
    shown = [one for one in report.measurements if not one.hidden][:ROWS]
    if not shown:
        return None
    baselines = formatting.baselines(name for one in shown for name in (*one.baselines, *one.reported_baselines))
    drawn = charts.sample_charts(shown, budget)
    return {
        "host_clock": any(one.clock == report_pb2.CLOCK_HOST for one in shown),
        "workloads": [
            {
                "id": one.workload_id,
                "certified": formatting.median(one.certified),
                "interval": formatting.median_range(one.certified),
                "bound": formatting.time(formatting.duration_ns(one.bound_duration)) if one.HasField("bound_duration") else "-",
                "reported": formatting.median(one.reported) if one.HasField("reported") else "",
                "confirmed": one.reported_confirmed,
                "baselines": [_baseline_times(one, name) for name in baselines],
                "second": ", ".join(formatting.batches(one)),
                "conditions": formatting.conditions(one.conditions),
                "turns": formatting.turns(one),
            }
            for one in shown
        ],
        "baselines": baselines,
        "rates": [rates for one in shown if (rates := _rates(one, report.environment))],
        "plots": [(one.workload_id, plot) for one, plot in zip(shown, drawn, strict=False) if plot],
        "left_out": sum(1 for one in shown[len(drawn) :] if one.certified.sample_durations_ns),
    }


def _baseline_times(one: report_pb2.Measurement, name: str) -> dict[str, str]:
    """One of PyTorch's ways: its times, the certified speedup, and the one that do_bench shows."""
    certified = next((formatting.ratio(speedup) for speedup in one.speedups if speedup.baseline == name), "-")
    claimed = figures.reported_speedup(one, name)
    return {
        "certified": formatting.median(one.baselines[name]) if name in one.baselines else "-",
        "reported": formatting.median(one.reported_baselines[name]) if name in one.reported_baselines else "-",
        "speedup": certified,
        "claimed": f"{claimed:.3g}x" if claimed is not None else "-",
    }


def _rates(one: report_pb2.Measurement, environment: report_pb2.Environment) -> dict[str, Any] | None:
    found = figures.throughput(one, environment.ceilings)
    if found is None:
        return None
    return {
        "id": one.workload_id,
        "bytes": formatting.bytes_rate(found.bytes_per_s) if found.bytes_per_s is not None else "-",
        "bandwidth": formatting.ceiling_share(found.bandwidth) if found.bandwidth else "-",
        "flops": formatting.flops_rate(found.flops_per_s) if found.flops_per_s is not None else "-",
        "shares": [formatting.ceiling_share(share) for share in found.shares] or ["-"],
        "intensity": f"{found.intensity:.3g}" if found.intensity is not None else "-",
        "limit": found.limit or "-",
    }


def profile_view(found: report_pb2.Profile) -> dict[str, Any]:
    """A profile as its template shows it."""
    return {
        "architecture": found.architecture,
        "workload_id": found.workload_id,
        "tools": [{"name": one.name, "outcome": formatting.profile_outcome(one.outcome), "detail": one.detail} for one in found.tools][
            :ROWS
        ],
        "kernels": [kernel_row(one) for one in found.kernels][:ROWS],
        "launches": [_launch(one) for one in found.launches][:ROWS],
        "remarks": list(found.remarks)[:ROWS],
        "findings": [_finding(one) for one in found.findings][:ROWS],
        "counts": access_counts.tables(found.access_counts, row_limit=ROWS),
    }


def _finding(one: report_pb2.SanitizerFinding) -> dict[str, Any]:
    return {
        "severity": formatting.sanitizer_severity(one),
        "place": formatting.sanitizer_place(one) or "-",
        "message": one.message,
        "thread": formatting.sanitizer_thread(one) or "-",
        "count": one.count,
    }


def kernel_row(one: report_pb2.KernelUse) -> dict[str, Any]:
    """What a kernel takes of the device."""
    return {
        "name": one.name,
        "registers": one.registers or "-",
        "shared": one.shared_bytes,
        "stack": one.stack_bytes,
        "spilled": one.spill_store_bytes + one.spill_load_bytes,
        "doubles": one.double_instruction_count,
    }


def _launch(one: report_pb2.KernelLaunch) -> dict[str, Any]:
    return {
        "kernel": one.kernel,
        "count": one.count,
        "grid": formatting.dimensions(one.grid),
        "block": formatting.dimensions(one.block),
        "shared": one.shared_bytes,
        "time": formatting.time(formatting.duration_ns(one.total_duration)) if one.HasField("total_duration") else "-",
    }
