"""Charts of the samples of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from grader.v1 import report_pb2
from grader.views import formatting
from grader_extensions.web.plots.samples import samples_chart


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBudget:
    """How many charts of samples are drawn, of the first workloads, and how many samples in all of them together. workload_count: with more
    workloads than these there are fewer charts, for each workload has rows in tables too."""

    chart_count: int
    sample_count: int
    workload_count: int

    def of_report(self, workload_count: int) -> ChartBudget:
        """Budget for the charts of a report with so many workloads: as many samples for each chart, perhaps no chart."""
        charts = max(0, self.chart_count - math.ceil(max(0, workload_count - self.workload_count) / ROWS_OF_A_CHART))
        return replace(self, chart_count=charts, sample_count=self.sample_count * charts // self.chart_count)


ROWS_OF_A_CHART = 2.4  # workloads whose rows weigh as much as a chart of PAGE_CHARTS: 2.5 KB to 6.7 KB, with something to spare
FILE_CHARTS = ChartBudget(chart_count=16, sample_count=20_000, workload_count=1_000)
PAGE_CHARTS = ChartBudget(chart_count=6, sample_count=1_200, workload_count=12)  # keeps a page with 24 workloads under 100 KB


def sample_charts(measurements: Sequence[report_pb2.Measurement], budget: ChartBudget) -> list[Markup]:
    """The samples of the first workloads, a chart each, which share the budget."""
    budget = budget.of_report(len(measurements))
    shown = measurements[: budget.chart_count]
    series_count = sum(1 + len(measurement.baselines) for measurement in shown)
    return [_workload_samples(measurement, budget.sample_count // max(series_count, 1)) for measurement in shown]


def _workload_samples(measurement: report_pb2.Measurement, most_samples: int) -> Markup:
    """The samples of the kernel and its baselines; empty in the basic view, which has none."""
    samples = {
        "kernel": measurement.certified,
        **{name: measurement.baselines[name] for name in formatting.baselines(measurement.baselines)},
    }
    times = {name: [float(time) for time in of.sample_durations_ns] for name, of in samples.items()}
    title = f"Samples of {measurement.workload_id}, in the order taken"
    return Markup(samples_chart(times, title=title, label="time", value_text=formatting.time, most_samples=most_samples))
