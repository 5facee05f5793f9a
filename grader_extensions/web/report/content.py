"""Content of a report of a submission, for its template.  Pure.  It comes as the API shows it, so that what that withholds is not here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from markupsafe import Markup

from grader.isolations import description
from grader.v1 import rejudge_pb2, report_pb2, submission_pb2
from grader.views import access_counts, figures, formatting
from grader.views.workload_rows import step_times, workload_rows
from grader_extensions.web.plots.charts import ChartAxis, ChartSeries, line_chart, samples_chart, unresolved_samples
from grader_extensions.web.report.source_lines import line_link, remarks_by_place, shown_sources

LOG_CHARS, OUTPUT_CHARS = 64_000, 16_000
ROWS = 1_000  # of a table


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBudget:
    """How many charts of samples are drawn, of the first workloads, and how many samples in all of them together. workload_count: with more
    workloads than these there are fewer charts, each with as many samples, for each workload has rows in tables too."""

    chart_count: int
    sample_count: int
    workload_count: int


ROWS_OF_A_CHART = 2.4  # workloads whose rows weigh as much as a chart of PAGE_CHARTS: 2.5 KB to 6.7 KB, with something to spare
FILE_CHARTS = ChartBudget(chart_count=16, sample_count=20_000, workload_count=1_000)
PAGE_CHARTS = ChartBudget(chart_count=6, sample_count=1_200, workload_count=12)  # keeps a page with 24 workloads under 100 KB


def submission(submission: submission_pb2.Submission, budget: ChartBudget = FILE_CHARTS) -> dict[str, Any]:
    """The submission, which templates read field by field, and what is computed of it. budget: of the charts of samples; the other samples
    are in the raw data."""
    report = submission.report
    rows, environment = workload_rows(report.trials), report.environment
    sources = shown_sources(submission.sources, remarks_by_place(report))
    wrong = (formatting.wrong_element(element) for trial in report.trials for element in trial.wrong_elements)
    return {
        "submission": submission,
        "report": report if submission.HasField("report") else None,
        "id": submission.name.rpartition("/")[2],
        "problem_id": submission.problem.rpartition("/")[2],
        "competition_id": submission.competition.rpartition("/")[2],
        "mode": formatting.words(submission, "mode"),
        "state": formatting.state_name(submission).lower(),
        "verdict": formatting.verdict_name(report),
        "headline": formatting.headline(submission),
        "color": verdict_color(report.verdict),
        "withdrawn": formatting.withdrawal(submission),
        "flags": flags(report.flags),
        "steps": step_times(submission),
        "workloads": [row for row in rows if not row.hidden][:ROWS],
        # Of hidden workloads no more than how many were run and how many passed.
        "hidden": {"count": sum(row.hidden for row in rows), "passed": sum(row.hidden and row.passed for row in rows)},
        "wrong": list(itertools.islice(wrong, ROWS)),
        "times": measured(report, budget),
        "sources": sources,
        "line_link": partial(line_link, sources),
        "isolation": description(environment.isolation),
        "artifacts": (),  # a site that keeps files of submissions says which
        "limits": {"rows": ROWS, "log": LOG_CHARS, "output": OUTPUT_CHARS},
        "score_of": lambda scored: _score(scored, submission.score_kind) if scored.HasField("score") else "",
        "time_of": _time,
        "verdict_color": verdict_color,
        **{module.__name__.rpartition(".")[2]: module for module in (access_counts, figures, formatting)},
    }


def flags(names: Sequence[str]) -> list[dict[str, str]]:
    """Flags with their meanings."""
    return [{"name": name, "meaning": meaning} for name, meaning in formatting.flags(names)]


def verdict_color(verdict: int) -> str:
    """The class of a verdict in the style sheet; "" of none yet."""
    return "" if verdict == report_pb2.VERDICT_UNSPECIFIED else "good" if verdict == report_pb2.VERDICT_ACCEPTED else "bad"


def when(time: datetime) -> dict[str, str]:
    """A time for machines and for people."""
    utc = time.astimezone(UTC)
    return {"iso": utc.isoformat(timespec="seconds"), "text": f"{utc:%Y-%m-%d %H:%M} UTC"}


def _score(scored: submission_pb2.Submission | rejudge_pb2.Judgement, kind: int) -> str:
    return formatting.score(scored.score, scored.score_low, scored.score_high, kind)


def _time(message: Any, field: str) -> dict[str, str]:
    if not message.HasField(field):
        return {}
    timestamp: Timestamp = getattr(message, field)
    return when(timestamp.ToDatetime(UTC))


def measured(report: report_pb2.Report, budget: ChartBudget) -> dict[str, Any] | None:
    """All of the public workloads; None where none was measured."""
    shown = [measurement for measurement in report.measurements if not measurement.hidden][:ROWS]
    if not shown:
        return None
    baselines = formatting.baselines(name for row in shown for name in (*row.baselines, *row.reported_baselines))
    host_clock = any(row.clock == report_pb2.CLOCK_HOST for row in shown)
    rates = [(row.workload_id, rates) for row in shown if (rates := figures.throughput(row, report.environment.ceilings)) is not None]
    drawn = _sample_charts(shown, budget)
    return {
        "host_clock": host_clock,
        "workloads": [(row, [_baseline_times(row, name) for name in baselines]) for row in shown],
        "baselines": baselines,
        "rates": [] if host_clock else rates,  # those of a CPU say nothing of a GPU
        "overviews": _overview_charts(shown, report.environment.ceilings),
        "plots": [(row.workload_id, *plot) for row, plot in zip(shown, drawn, strict=False) if plot],
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


def _sample_charts(measurements: Sequence[report_pb2.Measurement], budget: ChartBudget) -> list[tuple[Markup, str] | None]:
    """The samples of the kernel and its baselines, a chart for each of the first workloads, with a sentence on those of 0; None in the
    basic view, which has none."""
    omitted_count = math.ceil(max(0, len(measurements) - budget.workload_count) / ROWS_OF_A_CHART)
    chart_count, charts = max(0, budget.chart_count - omitted_count), []
    shown = [(row, {"kernel": row.certified, **row.baselines}) for row in measurements[:chart_count]]
    most_samples = budget.sample_count * chart_count // budget.chart_count // max(sum(len(series) for _, series in shown), 1)
    for row, series in shown:
        times = {
            name: [float(time) for time in series[name].sample_durations_ns] for name in ("kernel", *formatting.baselines(row.baselines))
        }
        title = f"Samples of {row.workload_id}, in the order taken"
        chart = samples_chart(times, title=title, label="time", value_text=formatting.time, most_samples=most_samples)
        charts.append((Markup(chart), unresolved_samples(times)) if chart else None)
    return charts


def _overview_charts(rows: Sequence[report_pb2.Measurement], ceilings: Mapping[str, float]) -> list[Markup]:
    """The roofline, where the device's ceilings and the problem's work are known, and times over sizes, where there are several sizes."""
    times: dict[str, list[tuple[report_pb2.DeclaredWork, float]]] = {}  # certified, in seconds
    for name in ("kernel", *formatting.baselines(name for row in rows for name in row.baselines)):
        times[name] = []
        for row in rows:
            durations = row.certified if name == "kernel" else row.baselines.get(name)
            if durations is None or not row.declared_work.moved_bytes:
                continue
            if (seconds := figures.seconds_of(durations.median_duration)) > 0:
                times[name].append((row.declared_work, seconds))
    works = [work for points in times.values() for work, _ in points]
    charts = []
    roofs = figures.compute_ceilings(ceilings, works[0].dtype) if works else []
    bandwidth = ceilings.get(figures.BYTES_PER_S, 0.0)
    if roofs and bandwidth > 0 and all(work.flops > 0 for work in works):
        series = []
        for name, points in times.items():
            intensities = [work.flops / work.moved_bytes for work, _ in points]
            rates = [work.flops / seconds / 1e12 for work, seconds in points]
            series.append(ChartSeries(name=name, xs=intensities, ys=rates, joined=False))
        ends = [*(x for line in series for x in line.xs), *(rate / bandwidth for _, rate in roofs)]
        for unit, rate in roofs:
            corners = (min(ends) / 2, rate / bandwidth, max(ends) * 2)
            series.append(ChartSeries(name=unit, xs=corners, ys=[min(x * bandwidth, rate) / 1e12 for x in corners], marked=False))
        subtitle = "by certified times and declared work"
        x, y = ChartAxis(label="FLOP/byte", log=True), ChartAxis(label="TFLOP/s", log=True)
        charts.append(line_chart(series, title="Roofline", subtitle=subtitle, description=formatting.ceilings(ceilings), x=x, y=y))
    if len({work.moved_bytes for work in works}) > 1:
        series = [
            ChartSeries(name=name, xs=[work.moved_bytes / 1e6 for work, _ in points], ys=[seconds * 1e6 for _, seconds in points])
            for name, points in times.items()
        ]
        x, y = ChartAxis(label="MB that the problem moves", log=True), ChartAxis(label="us", log=True)
        charts.append(line_chart(series, title="Time over size", description="Certified medians by workload", x=x, y=y))
    return [Markup(chart) for chart in charts]
