"""What the page of a running submission shows of each event, in a line.  Pure.  Events come as the API sends them, with untrusted text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

LINES = 50  # of what happened so far
_STAGES = {
    submission_pb2.STAGE_BUILDING: "building",
    submission_pb2.STAGE_WAITING: "waiting for the device",
    submission_pb2.STAGE_LOADING: "loading",
    submission_pb2.STAGE_BASELINE: "timing the baselines",
    submission_pb2.STAGE_VERIFYING: "verifying",
    submission_pb2.STAGE_MEASURING: "measuring",
    submission_pb2.STAGE_PROFILING: "profiling",
}


def line(event: submission_pb2.SubmissionEvent) -> dict[str, str]:
    """The state that the event moves to, the stage that begins, and a result; each "" where there is none."""
    state, stage, text = "", "", ""
    match event.WhichOneof("event"):
        case "submission":
            state = formatting.state_name(event.submission).lower()
            stage = f"attempt {event.attempt}" if state == "running" and event.attempt > 1 else ""
        case "queue_position":
            stage = _place(event.queue_position)
        case "progress":
            stage = _progress(event.progress)
        case "build":
            text = f"build: {formatting.name_of(report_pb2.BuildOutcome, event.build.outcome, 'BUILD_OUTCOME_').lower().replace('_', ' ')}"
        case "load":
            text = f"load: {formatting.name_of(report_pb2.LoadOutcome, event.load.outcome, 'LOAD_OUTCOME_').lower().replace('_', ' ')}"
        case "trial":
            text = f"{event.trial.workload_id}: {formatting.outcome_name(event.trial)}"
        case "measurement" if not event.measurement.hidden:  # pages show no times of hidden workloads, which the API does
            text = f"{event.measurement.workload_id}: {formatting.median(event.measurement.certified)}"
        case "environment":
            text = f"on {event.environment.device or event.environment.device_kind}"
        case _:
            pass
    return {"state": state, "stage": one_line(stage), "text": one_line(text)}


def so_far(events: Iterable[submission_pb2.SubmissionEvent]) -> dict[str, Any]:
    """What has happened until now, for the page before its stream begins, which goes on after the event `after`."""
    found: list[str] = []
    after, now = 0, {"stage": "", "text": ""}
    for event in events:
        after, shown = max(after, event.sequence), line(event)
        for name in now:
            now[name] = shown[name] or now[name]
            if shown[name] and found[-1:] != [shown[name]]:  # every trial of a workload says the same
                found.append(shown[name])
    return {"after": after, "lines": found[-LINES:], **now}


def message(event: submission_pb2.SubmissionEvent) -> bytes:
    """The event as a server-sent one; b"" where there is nothing to show. JSON in ASCII has no line break, so no text can forge a field."""
    shown = line(event)
    if not any(shown.values()):
        return b""
    return f"id: {event.sequence}\ndata: {json.dumps(shown, ensure_ascii=True)}\n\n".encode()


def _place(position: submission_pb2.QueuePosition) -> str:
    ahead = f"{position.ahead_count} ahead in the queue" if position.ahead_count else "next in the queue"
    if not position.HasField("estimated_duration"):
        return ahead
    return f"{ahead}, about {position.estimated_duration.seconds} s"


def _progress(progress: submission_pb2.Progress) -> str:
    process = f"process {progress.process} of {progress.process_count}: " if progress.process_count > 1 else ""
    return f"{process}{_STAGES.get(progress.stage, 'working')} {progress.workload_id}".strip()
