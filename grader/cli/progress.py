"""Progress of a submission: a row for each stage on a terminal, a few lines in a pipe, nothing where there is no reader."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from grader.cli.output import open_console, plain
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

FAILURE_LINES = 3  # so many failed steps have a line of their own
QUEUED, STARTING, BUILDING = "queued", "starting", "building"


class ProgressDisplay:
    """A display that shows nothing; subclasses show events and sentences."""

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""

    def say(self, line: str) -> None:
        """Print one line that stays."""


@contextmanager
def progress(*, json: bool) -> Iterator[ProgressDisplay]:
    """Choose the display that suits where output goes; next to JSON it writes to stderr."""
    console = open_console(stderr=json)
    if json and not sys.stderr.isatty():
        yield ProgressDisplay()
    elif console.is_terminal:
        display = LiveStages(console)
        with Live(console=console, get_renderable=display.render, refresh_per_second=8, redirect_stdout=False, redirect_stderr=False):
            yield display
    else:
        yield PlainLines(console)


class PlainLines(ProgressDisplay):
    """A plain line for each stage that begins, and for each once all has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages = GradingStages(time.monotonic())

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Print the lines that an event adds."""
        for line in self._stages.feed(event, time.monotonic()):
            self.say(line)

    def say(self, line: str) -> None:
        """Print one line, above the rows of a terminal."""
        self._console.print(one_line(line), soft_wrap=True)


class LiveStages(PlainLines):
    """A row for each stage, the running one with a spinner."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._spinner = Spinner("dots")

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        self._stages.feed(event, time.monotonic())

    def render(self) -> RenderableType:
        """The stages as they are now."""
        table, stages = Table.grid(padding=(0, 1)), list(self._stages.stages.values())
        for stage in stages[-max(self._console.height - 3, 3) :]:
            running = stage.began_s is not None
            mark = self._spinner if running else Text("x", "red") if stage.failures else Text("+", "green")
            label = self._stages.label if running else stage.title
            seconds = Text(f"{stage.total_s(time.monotonic()):.1f} s", style="dim", justify="right")
            table.add_row(mark, plain(one_line(label)), plain(one_line(stage.summary)), seconds)
        return Group(plain(one_line(self._stages.environment), "dim"), table) if self._stages.environment else table


@dataclass(slots=True, kw_only=True)
class StageProgress:
    """The steps of one kind, of all workloads and processes. began_s: None where no step runs."""

    name: str
    began_s: float | None = None
    duration_s: float = 0.0
    step_count: int = 0
    workload_ids: set[str] = field(default_factory=set)  # "" is of hidden workloads, whose number is secret
    processes: set[int] = field(default_factory=set)
    detail: str = ""
    trial_count: int = 0  # of trials that passed
    certified: list[str] = field(default_factory=list)
    unresolved_count: int = 0
    failures: list[str] = field(default_factory=list)

    def total_s(self, now_s: float) -> float:
        """The time of all steps so far."""
        return self.duration_s + (0.0 if self.began_s is None else now_s - self.began_s)

    @property
    def title(self) -> str:
        """The name with the workloads, such as "verifying 2 workloads and hidden ones in 3 processes"."""
        public = self.workload_ids - {""}
        words = [self.name, *public] if len(public) == 1 else [self.name, f"{len(public)} workloads"] if public else [self.name]
        if public and "" in self.workload_ids:
            words.append("and hidden ones")
        if len(self.processes) > 1:
            words.append(f"in {len(self.processes)} processes")
        return " ".join(words)

    @property
    def summary(self) -> str:
        """The outcomes of the steps in words."""
        parts = [self.detail] if self.detail else []
        if self.trial_count:
            parts.append(f"{self.trial_count} trial{'s' if self.trial_count > 1 else ''} passed")
        if len(self.certified) == self.step_count == 1:
            parts.append(f"{self.certified[0]} certified")
        elif self.certified:
            parts.append(f"{len(self.certified)} time{'s' if len(self.certified) > 1 else ''} certified")
        if self.unresolved_count:
            parts.append(f"{self.unresolved_count} not resolved")
        if self.failures and self.step_count == 1:
            parts.append(self.failures[0].rpartition(": ")[2])
        elif self.failures:
            parts.append(f"{len(self.failures)} failed, first {self.failures[0]}")
        return ", ".join(parts)


class GradingStages:
    """Folds the events of one submission into stages, and into lines for output that is not redrawn.  Pure: the time is passed in."""

    def __init__(self, began_s: float) -> None:
        self.stages = {QUEUED: StageProgress(name=QUEUED, began_s=began_s)}
        self.label = QUEUED  # of the step that runs
        self.environment = ""
        self._stage = self.stages[QUEUED]
        self._attempt = self._process = self._failure_count = 0
        self._process_count = 1
        self._workload_id = self._failure = ""  # of the step that runs
        self._ahead_count: int | None = None

    def feed(self, event: submission_pb2.SubmissionEvent, now_s: float) -> list[str]:
        """Take an event in and return the lines that it adds; all of them may hold untrusted text."""
        lines = []
        if 0 < self._attempt < event.attempt:
            lines.append(f"attempt {event.attempt}: the one before it was lost")
            self.stages, self._stage, self._process = {}, StageProgress(name=STARTING), 0
        self._attempt = max(self._attempt, event.attempt)
        match event.WhichOneof("event"):
            case "progress":
                lines += self._progressed(event.progress, now_s)
            case "build":
                lines += self._built(event.build, now_s)
            case "load":
                outcome = formatting.words(event.load, "outcome")
                self._stage.detail, self._failure = (outcome, "") if event.load.outcome == report_pb2.LOAD_OUTCOME_LOADED else ("", outcome)
            case "trial":
                if event.trial.outcome == report_pb2.TRIAL_OUTCOME_PASSED:
                    self._stage.trial_count += max(event.trial.run_count, 1)
                else:
                    where = "" if event.trial.workload_id == self._workload_id else f"{event.trial.workload_id} "
                    self._failure = where + formatting.words(event.trial, "outcome")
            case "measurement":
                median = formatting.median(event.measurement.certified)
                if median == formatting.NOT_RESOLVED:
                    self._stage.unresolved_count += 1
                else:
                    self._stage.certified.append(median)
            case "environment":
                self.environment = f"on {event.environment.device or event.environment.device_kind}, in {event.environment.isolation}"
                lines.append(self.environment)
            case "submission":
                lines += self._moved(event.submission, now_s)
            case "queue_position":
                lines += self._placed(event.queue_position)
        return lines

    def _progressed(self, reported: submission_pb2.Progress, now_s: float) -> list[str]:
        if reported.process_count > 1:
            self._process, self._process_count = reported.process, reported.process_count
        prefix = f"process {self._process} of {self._process_count}: " if self._process else ""
        name = formatting.STAGES.get(reported.stage, "working")
        label = f"{prefix}{name} {reported.workload_id}".strip()
        if label == self.label and self._stage.began_s is not None:
            return []
        return self._begin(name, label, reported.workload_id, now_s)

    def _begin(self, name: str, label: str, workload_id: str, now_s: float) -> list[str]:
        lines = self._end(now_s)
        if name not in self.stages and name != STARTING:
            lines.append(f"{name} ...")
        stage = self._stage = self.stages.setdefault(name, StageProgress(name=name))
        stage.began_s, stage.step_count = now_s, stage.step_count + 1
        stage.workload_ids.add(workload_id)
        stage.processes.add(self._process)
        self.label, self._workload_id = label, workload_id
        return lines

    def _end(self, now_s: float) -> list[str]:
        """End the step that runs; a line for the queue and the build, and for the first steps that fail."""
        stage, failure, self._failure = self._stage, self._failure, ""
        if stage.began_s is None:
            return []
        step_s, stage.began_s = now_s - stage.began_s, None
        stage.duration_s += step_s
        if failure:
            stage.failures.append(f"{self._workload_id}: {failure}" if self._workload_id else failure)
            self._failure_count += 1
        if stage.name in (QUEUED, BUILDING) or (failure and self._failure_count <= FAILURE_LINES):
            return [_line(self.label, failure or stage.detail, step_s)]
        return []

    def _built(self, build: report_pb2.Build, now_s: float) -> list[str]:
        lines = [] if self._stage.name == BUILDING else self._begin(BUILDING, BUILDING, "", now_s)
        words = formatting.words(build, "outcome")
        words += ", with torch's own headers" if build.fallback else ""
        words += ", cached" if build.cached else ""
        self._stage.detail, self._failure = (words, "") if build.outcome == report_pb2.BUILD_OUTCOME_BUILT else ("", words)
        return lines + self._end(now_s)

    def _moved(self, submission: submission_pb2.Submission, now_s: float) -> list[str]:
        if submission.state == submission_pb2.SUBMISSION_STATE_QUEUED:
            return []
        if submission.state == submission_pb2.SUBMISSION_STATE_RUNNING:
            return self._begin(STARTING, STARTING, "", now_s) if self.label == QUEUED else []
        lines = self._end(now_s)
        for stage in self.stages.values():
            counted = stage.trial_count or stage.certified or stage.unresolved_count or stage.failures
            has_line = stage.name == BUILDING or (stage.failures and stage.step_count == 1)
            if counted and not has_line:
                lines.append(_line(stage.title, stage.summary, stage.duration_s))
        return lines

    def _placed(self, position: submission_pb2.QueuePosition) -> list[str]:
        """Note the place in the queue; it is a line when it is half of the last line's, or the first."""
        if self._stage.began_s is None or self._stage.trial_count:  # it came late
            return []
        ahead_count, before = position.ahead_count, self._ahead_count
        self._stage.detail = f"{ahead_count} ahead" if ahead_count else "next"
        self._stage.detail += ", but no worker is joined" if position.no_worker else ""
        if position.HasField("estimated_duration"):
            seconds = position.estimated_duration.seconds
            self._stage.detail += f", about {seconds} s" if seconds < 100 else f", about {round(seconds / 60)} min"
        if before is not None and (ahead_count == before or 2 * ahead_count > before):
            return []
        self._ahead_count = ahead_count
        return [f"{self.label}: {self._stage.detail}"]


def _line(label: str, detail: str, seconds: float) -> str:
    return f"{label}: {detail} ({seconds:.1f} s)" if detail else f"{label}: {seconds:.1f} s"
