"""Folds the events of one submission into steps that a person can follow.  Pure: the time is passed in."""

from __future__ import annotations

from dataclasses import dataclass

from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting

NOT_RESOLVED = "the time was not resolved"
_WORDS = {
    submission_pb2.STAGE_BUILDING: "building",
    submission_pb2.STAGE_WAITING: "waiting for the device",
    submission_pb2.STAGE_LOADING: "loading",
    submission_pb2.STAGE_BASELINE: "timing the baselines",
    submission_pb2.STAGE_VERIFYING: "verifying",
    submission_pb2.STAGE_MEASURING: "measuring",
    submission_pb2.STAGE_PROFILING: "profiling",
}


@dataclass(slots=True, kw_only=True)
class TimelineStep:
    """One thing that was, or is being, done. failed: the kernel failed in it. stage: "" where the server named none; workload_id: "" for
    none, or a hidden one; process: which of several, in ranked mode."""

    label: str
    began_s: float
    detail: str = ""
    ended_s: float | None = None
    failed: bool = False
    trial_count: int = 0
    measured: bool = False
    stage: str = ""
    workload_id: str = ""
    process: int = 0

    def line(self) -> str:
        """The step in one plain line, once it has ended."""
        seconds = "" if self.ended_s is None else f"{self.ended_s - self.began_s:.1f} s"
        return f"{self.label}: {self.detail} ({seconds})" if self.detail else f"{self.label}: {seconds}"


class Timeline:
    """What has happened to one submission so far."""

    def __init__(self, began_s: float) -> None:
        self.steps: list[TimelineStep] = [TimelineStep(label="queued", began_s=began_s)]
        self.environment = self.device_kind = ""
        self.final = False
        self._attempt = 0
        self.process_count = 1  # of how many, in ranked mode
        self._process, self._process_number = "", 0  # which of them

    @property
    def now(self) -> str:
        """What is being done, in a few words."""
        return self.steps[-1].label

    @property
    def attempt(self) -> int:
        """Which attempt the steps are of; 0 before the first event of one."""
        return self._attempt

    def feed(self, event: submission_pb2.SubmissionEvent, now_s: float) -> list[str]:
        """Take an event in and return what it adds, as plain lines; all of it may hold untrusted text."""
        lines = self._new_attempt(event, now_s)
        match event.WhichOneof("event"):
            case "progress":
                if event.progress.process_count > 1:
                    self._process_number, self.process_count = event.progress.process, event.progress.process_count
                    self._process = f"process {event.progress.process} of {event.progress.process_count}: "
                word = _WORDS.get(event.progress.stage, "working")
                label = f"{self._process}{word} {event.progress.workload_id}".strip()
                if label != self.now or self.steps[-1].ended_s is not None:
                    lines += self._begin(label, now_s)
                    step = self.steps[-1]
                    step.stage, step.workload_id, step.process = word, event.progress.workload_id, self._process_number
            case "build":
                lines += self._built(event.build, now_s)
            case "load":
                self._loaded(event.load)
            case "trial":
                self._tried(event.trial)
            case "measurement":
                self._measured(event.measurement)
            case "environment":
                self.device_kind = event.environment.device_kind
                self.environment = f"on {event.environment.device or event.environment.device_kind}, in {event.environment.isolation}"
                lines.append(self.environment)
            case "submission":
                lines += self._moved(event.submission, now_s)
            case "queue_position":
                lines += self._placed(event.queue_position)
            case _:
                pass
        return lines

    def _placed(self, position: submission_pb2.QueuePosition) -> list[str]:
        step = self.steps[-1]
        if step.ended_s is not None or step.trial_count:  # it came late
            return []
        step.detail = _place(position)
        return [f"{step.label}: {step.detail}"]

    def _new_attempt(self, event: submission_pb2.SubmissionEvent, now_s: float) -> list[str]:
        again = 0 < self._attempt < event.attempt
        self._attempt = max(self._attempt, event.attempt)
        if not again:
            return []
        self._process, self._process_number = "", 0
        self.steps = [TimelineStep(label=f"attempt {event.attempt}", began_s=now_s, detail="the one before it was lost")]
        return [f"attempt {event.attempt}: the one before it was lost"]

    def _begin(self, label: str, now_s: float) -> list[str]:
        lines = self._end(now_s)
        self.steps.append(TimelineStep(label=label, began_s=now_s))
        return [*lines, f"{label} ..."] if label == "building" else lines

    def _end(self, now_s: float) -> list[str]:
        step = self.steps[-1]
        if step.ended_s is not None:
            return []
        step.ended_s = now_s
        return [step.line()]

    def _built(self, build: report_pb2.Build, now_s: float) -> list[str]:
        if self.now != "building":
            self._begin("building", now_s)
        step = self.steps[-1]
        step.failed = build.outcome != report_pb2.BUILD_OUTCOME_BUILT
        step.detail = formatting.name_of(report_pb2.BuildOutcome, build.outcome, "BUILD_OUTCOME_").lower().replace("_", " ")
        step.detail += ", with torch's own headers" if build.fallback else ""
        step.detail += ", cached" if build.cached else ""
        return self._end(now_s)

    def _loaded(self, load: report_pb2.Load) -> None:
        step = self.steps[-1]
        step.failed = load.outcome != report_pb2.LOAD_OUTCOME_LOADED
        step.detail = formatting.name_of(report_pb2.LoadOutcome, load.outcome, "LOAD_OUTCOME_").lower().replace("_", " ")

    def _tried(self, trial: report_pb2.Trial) -> None:
        step = self.steps[-1]
        step.trial_count += max(trial.run_count, 1)
        if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED:
            where = "" if step.label.endswith(trial.workload_id) else f"{trial.workload_id} "
            step.failed, step.detail = True, where + formatting.outcome_name(trial)
        elif not step.failed:
            step.detail = f"{step.trial_count} trial{'s' if step.trial_count > 1 else ''} passed"

    def _measured(self, measurement: report_pb2.Measurement) -> None:
        step = self.steps[-1]
        if not step.failed:
            found, step.measured = formatting.median(measurement.certified), True
            step.detail = NOT_RESOLVED if found == formatting.NOT_RESOLVED else f"{found} certified"

    def _moved(self, submission: submission_pb2.Submission, now_s: float) -> list[str]:
        match submission.state:
            case submission_pb2.SUBMISSION_STATE_QUEUED:
                return []
            case submission_pb2.SUBMISSION_STATE_RUNNING:
                return self._begin("starting", now_s) if self.now == "queued" else []
            case _:
                self.final = True
                return self._end(now_s)


def _place(position: submission_pb2.QueuePosition) -> str:
    ahead = f"{position.ahead_count} ahead" if position.ahead_count else "next"
    return f"{ahead}, {about(position.estimated_duration.seconds)}" if position.HasField("estimated_duration") else ahead


def about(seconds: float) -> str:
    """An estimate, no more exact than it is."""
    return f"about {seconds:.0f} s" if seconds < 100 else f"about {round(seconds / 60)} min"
