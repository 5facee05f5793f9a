"""Shows stages while they happen: a row each on a terminal, a few lines in a pipe, nothing where there is no reader."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from grader.cli.remaining_time import WorkPlan
from grader.cli.stage_lines import StageLines, StageTotal, stage_totals
from grader.cli.text import one_line, plain
from grader.cli.timeline import Timeline, about
from grader.v1 import problem_pb2, submission_pb2

PIPE_WIDTH, BAR_WIDTH = 200, 40
_REFRESHES_PER_S = 8


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to the command, which may have something to cancel; rich exits here, with the code of another verdict."""
        raise BrokenPipeError


class ProgressDisplay(Protocol):
    """Takes events and shows them."""

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""

    def say(self, line: str) -> None:
        """Say one line that stays."""


def stdout_console() -> Console:
    """For results: markup, emoji codes and highlighting are off, since most of what is shown is untrusted."""
    return _console(stderr=False)


def stderr_console() -> Console:
    """For progress next to JSON, and for errors."""
    return _console(stderr=True)


@contextmanager
def progress(*, json: bool) -> Iterator[ProgressDisplay]:
    """The progress display that suits where output goes."""
    console = stderr_console() if json else stdout_console()
    if json and not sys.stderr.isatty():
        yield NoProgress()
    elif console.is_terminal:
        shown = Redrawn(console)
        with live(console, shown.render):
            yield shown
    else:
        yield Lines(console)


@contextmanager
def live(console: Console, render: Callable[[], RenderableType]) -> Iterator[None]:
    """Redraw what render returns until left, then leave it standing."""
    with Live(console=console, get_renderable=render, refresh_per_second=_REFRESHES_PER_S, redirect_stdout=False, redirect_stderr=False):
        yield


class NoProgress:
    """Shows nothing."""

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""

    def say(self, line: str) -> None:
        """Say nothing."""


class Lines:
    """A plain line for each stage that begins, and for each once all has ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._stages = StageLines(time.monotonic())

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        for line in self._stages.feed(event, time.monotonic()):
            self.say(line)

    def say(self, line: str) -> None:
        """Say one line."""
        self._console.print(one_line(line), soft_wrap=True)


class Redrawn:
    """A row for each stage, the running one with a spinner, what it does now, and its seconds; then one bar of all."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._timeline = Timeline(time.monotonic())
        self._spinner = Spinner("dots")
        self._expected: tuple[submission_pb2.Mode, problem_pb2.Problem] | None = None

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        self._timeline.feed(event, time.monotonic())

    def expect(self, mode: submission_pb2.Mode, problem: problem_pb2.Problem) -> None:
        """What is watched is a submission to this problem."""
        self._expected = (mode, problem)

    def say(self, line: str) -> None:
        """Print one line above the steps."""
        self._console.print(one_line(line), soft_wrap=True)

    def render(self) -> RenderableType:
        """The stages as they are now."""
        table = Table.grid(padding=(0, 1))
        for stage in stage_totals(self._timeline.steps, time.monotonic())[-max(self._console.height - 4, 3) :]:
            label = stage.label if stage.ended else self._timeline.now
            table.add_row(self._mark(stage), plain(one_line(label)), plain(one_line(stage.detail)), seconds(stage))
        parts: list[RenderableType] = [plain(one_line(self._timeline.environment), "dim")] if self._timeline.environment else []
        return Group(*parts, table, *self._bar())

    def _bar(self) -> list[RenderableType]:
        """How much is done, and an estimate for the rest, while there is a rest."""
        timeline = self._timeline
        if self._expected is None or timeline.final:
            return []
        mode, problem = self._expected
        plan = WorkPlan.of(mode, timeline.device_kind, problem)
        share = plan.share_done(timeline.steps, timeline.process_count) if plan is not None else 0.0
        if plan is None or share == 0:
            return []
        rest_s = plan.remaining_s(timeline.steps, timeline.process_count, time.monotonic())
        row = Table.grid(padding=(0, 1))
        more = f"{share:.0%}" if rest_s is None else f"{share:.0%}, {about(rest_s)} more"
        row.add_row(ProgressBar(total=1.0, completed=share, width=BAR_WIDTH), Text(more))
        return [row]

    def _mark(self, stage: StageTotal) -> RenderableType:
        if stage.failed:
            return Text("x", style="red")
        return Text("+", style="green") if stage.ended else self._spinner


def seconds(stage: StageTotal) -> Text:
    """How long a stage has taken."""
    return Text(f"{stage.duration_s:.1f} s", style="dim", justify="right")


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)
