"""What a report shows of measurements: times, speedups, rates, conditions and samples.  Pure."""

from __future__ import annotations

from typing import Any

from grader.html_report import charts
from grader.v1 import report_pb2
from grader.views import figures, formatting

ROWS = 1_000


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
                "baselines": [_baseline(one, name) for name in baselines],
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


def _baseline(one: report_pb2.Measurement, name: str) -> dict[str, str]:
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
