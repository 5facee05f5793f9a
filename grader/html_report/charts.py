"""The charts of a report: its timeline, its samples, the intervals of its speedups, and the roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from grader.plots.bars import TimelineSegment, interval_bar, interval_positions, timeline
from grader.plots.roofline import RooflineCeiling, RooflinePoint, roofline
from grader.plots.samples import samples_chart
from grader.v1 import report_pb2
from grader.views import figures, formatting

POINTS = 12  # of a roofline: more can't be distinguished


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBudget:
    """How many charts of samples are drawn, of the first workloads, and how many samples in all of them together. workload_count: with more
    workloads than these there are fewer charts, for each workload has rows in tables too; None: always as many."""

    chart_count: int
    sample_count: int
    workload_count: int | None = None

    def of_report(self, workload_count: int) -> ChartBudget:
        """What is left for the charts of a report with so many workloads: as many samples for each chart, perhaps no chart."""
        if self.workload_count is None or workload_count <= self.workload_count:
            return self
        charts = max(0, self.chart_count - math.ceil((workload_count - self.workload_count) / ROWS_OF_A_CHART))
        return replace(self, chart_count=charts, sample_count=self.sample_count * charts // self.chart_count)


ROWS_OF_A_CHART = 2.4  # workloads whose rows weigh as much as a chart of PAGE_CHARTS: 2.5 KB to 6.7 KB, with something to spare
FILE_CHARTS = ChartBudget(chart_count=16, sample_count=20_000)
PAGE_CHARTS = ChartBudget(chart_count=6, sample_count=1_200, workload_count=12)  # keeps a page with 24 workloads under 100 KB


def timeline_chart(seconds: Mapping[str, float]) -> Markup:
    """One bar of all steps."""
    return Markup(timeline([TimelineSegment(name, length) for name, length in seconds.items()], title="How long each step took"))


def sample_charts(measurements: Sequence[report_pb2.Measurement], budget: ChartBudget) -> list[Markup]:
    """The samples of the first workloads, a chart each, which share the budget."""
    budget = budget.of_report(len(measurements))
    shown = measurements[: budget.chart_count]
    series_count = sum(1 + len(one.baselines) for one in shown)
    return [_workload_samples(one, budget.sample_count // max(series_count, 1)) for one in shown]


def _workload_samples(one: report_pb2.Measurement, most_samples: int) -> Markup:
    """The samples of the kernel and its baselines; empty in the basic view, which has none."""
    samples = {"kernel": one.certified, **{name: one.baselines[name] for name in formatting.baselines(one.baselines)}}
    times = {name: [float(time) for time in of.sample_durations_ns] for name, of in samples.items()}
    title = f"Samples of {one.workload_id}, in the order taken"
    return Markup(samples_chart(times, title=title, label="time", value_text=formatting.time, most_samples=most_samples))


def speedup_bars(speedups: Sequence[tuple[str, report_pb2.Speedup]]) -> list[Markup]:
    """An interval for each (name, speedup), all on one scale, with a dashed line at 1x."""
    scale = [(one.ratio, one.ratio_low, one.ratio_high) for _, one in speedups] + [(1.0, 1.0, 1.0)]
    *places, even = interval_positions(scale)
    titles = (f"{name}: {formatting.ratio(one)}" for name, one in speedups)
    return [Markup(interval_bar(place, title=title, even=even)) for place, title in zip(places, titles, strict=True)]


def roofline_chart(measurements: Sequence[report_pb2.Measurement], ceilings: Mapping[str, float]) -> Markup:
    """A point for each workload that declares its FLOPs and bytes; empty where none does, or the device was not measured."""
    points: list[RooflinePoint] = []
    dtype = ""
    for one in measurements:
        found = figures.throughput(one, ceilings)
        if found is None or found.intensity is None or found.flops_per_s is None or len(points) == POINTS:
            continue
        dtype = dtype or one.declared_work.dtype
        middle, low, high = (
            formatting.duration_ns(time)
            for time in (one.certified.median_duration, one.certified.median_low_duration, one.certified.median_high_duration)
        )
        # A longer time is a lower rate.
        ends = (found.flops_per_s * middle / high, found.flops_per_s * middle / low) if low > 0 < high else (0.0, 0.0)
        points.append(
            RooflinePoint(name=one.workload_id, intensity=found.intensity, rate=found.flops_per_s, rate_low=ends[0], rate_high=ends[1])
        )
    units = [RooflineCeiling(*one) for one in figures.compute_ceilings(ceilings, dtype)]
    return Markup(roofline(points, units, ceilings.get(figures.BYTES_PER_S, 0.0), title="Roofline"))
