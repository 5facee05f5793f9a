"""The charts of a report: its timeline, its samples, the intervals of its speedups, and the roofline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from google.protobuf.timestamp_pb2 import Timestamp
from markupsafe import Markup

from grader.plots.bars import TimelineSegment, interval_bar, interval_positions, timeline
from grader.plots.roofline import RooflineCeiling, RooflinePoint, roofline
from grader.plots.samples import samples_chart
from grader.v1 import report_pb2, submission_pb2
from grader.views import figures, formatting

POINTS = 12  # of a roofline: more can't be distinguished
_STAGES = {
    submission_pb2.STAGE_BUILDING: "build",
    submission_pb2.STAGE_LOADING: "load",
    submission_pb2.STAGE_VERIFYING: "verify",
    submission_pb2.STAGE_MEASURING: "measure",
    submission_pb2.STAGE_PROFILING: "profile",
}


def stages(found: submission_pb2.Submission, events: Sequence[submission_pb2.SubmissionEvent]) -> list[TimelineSegment]:
    """How long a graded submission was in the queue and in each stage of its last attempt, in the order in which they began.

    In the queue, and graded, where there are no events. So too for a competition's submission: its stages would show how long it took on
    secret workloads, and a kernel can choose that.
    """
    events = () if found.competition else events
    if not (found.HasField("start_time") and found.HasField("end_time")):
        return []
    start_s, end_s = _seconds(found.start_time), _seconds(found.end_time)
    lengths: dict[str, float] = {"queue": max(start_s - _seconds(found.create_time), 0.0)}
    last = max((event.attempt for event in events), default=0)
    name, began_s = "start" if events else "grade", start_s
    for event in events:
        if event.attempt == last and event.WhichOneof("event") == "progress" and event.progress.stage in _STAGES:
            now_s = min(max(_seconds(event.event_time), began_s), end_s)
            lengths[name] = lengths.get(name, 0.0) + now_s - began_s
            name, began_s = _STAGES[event.progress.stage], now_s
    lengths[name] = lengths.get(name, 0.0) + max(end_s - began_s, 0.0)
    return [TimelineSegment(stage, duration_s) for stage, duration_s in lengths.items() if duration_s > 0]


def timeline_chart(segments: Sequence[TimelineSegment]) -> Markup:
    """One bar of all stages."""
    return Markup(timeline(segments, title="How long each stage took"))


def workload_samples(one: report_pb2.Measurement) -> Markup:
    """The samples of the kernel and its baselines; empty in the basic view, which has none."""
    samples = {"kernel": one.certified, **{name: one.baselines[name] for name in formatting.baselines(one.baselines)}}
    times = {name: [float(time) for time in of.sample_durations_ns] for name, of in samples.items()}
    return Markup(samples_chart(times, title=f"Samples of {one.workload_id}, in the order taken", label="time", value_text=formatting.time))


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


def _seconds(time: Timestamp) -> float:
    return time.seconds + time.nanos / 1e9
