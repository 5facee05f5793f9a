"""Shows steps while they happen: redrawn on a terminal, a line each in a pipe, nothing where there is no reader."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from grader.cli.text import one_line, plain
from grader.cli.timeline import Timeline, TimelineStep
from grader.v1 import submission_pb2

PIPE_WIDTH = 200
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
    """One plain line a step."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._timeline = Timeline(time.monotonic())

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        for line in self._timeline.feed(event, time.monotonic()):
            self.say(line)

    def say(self, line: str) -> None:
        """Say one line."""
        self._console.print(one_line(line), soft_wrap=True)


class Redrawn:
    """All steps, the running one with a spinner and its seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._timeline = Timeline(time.monotonic())
        self._spinner = Spinner("dots")

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        self._timeline.feed(event, time.monotonic())

    def say(self, line: str) -> None:
        """Print one line above the steps."""
        self._console.print(one_line(line), soft_wrap=True)

    def render(self) -> RenderableType:
        """The steps as they are now."""
        now_s = time.monotonic()
        table = Table.grid(padding=(0, 1))
        for step in self._timeline.steps[-max(self._console.height - 4, 3) :]:
            table.add_row(self._mark(step), plain(one_line(step.label)), plain(one_line(step.detail)), seconds(step, now_s))
        return Group(plain(one_line(self._timeline.environment), "dim"), table) if self._timeline.environment else table

    def _mark(self, step: TimelineStep) -> RenderableType:
        if step.failed:
            return Text("x", style="red")
        return Text("+", style="green") if step.ended_s is not None else self._spinner


def seconds(step: TimelineStep, now_s: float) -> Text:
    """How long a step has taken."""
    return Text(f"{(step.ended_s if step.ended_s is not None else now_s) - step.began_s:.1f} s", style="dim", justify="right")


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)
