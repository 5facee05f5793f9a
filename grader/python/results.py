"""Ends of a call: a result, with the one number that a training loop wants of it, or an exception that says nothing about the kernel."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from grader.cli.exits import CommandFailed, Exit, exit_of_error, refused_as
from grader.cli.report import render
from grader.errors import GraderError, InvalidSubmission
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.figures import seconds_of
from sandbox.protocol.entry_points import EntryPointInvalid

MARK = "python-caller"  # annotation of what a process has its own server grade
_OF_THE_KERNEL = ("sources", "language", "entry")
_HTML_COLUMNS = 110
_HTML = '<pre style="line-height:normal;white-space:pre-wrap">{code}</pre>'


class Unscored(Exception):
    """The kernel was not judged; another try may end otherwise, unless this is a `CallInvalid`. reason: as of the API's errors."""

    def __init__(self, message: str, reason: str = "GRADER_FAILED") -> None:
        super().__init__(message, reason)
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class CallInvalid(Unscored):
    """The call is wrong: its key, its problem or an argument. Another try ends the same way."""


class KernelInvalid(CallInvalid):
    """The kernel can't be submitted: it is empty, too large, or no text."""


@contextmanager
def unscored() -> Iterator[None]:
    """Raise what the client, the command line and the formats raise as `Unscored`, or one below it."""
    try:
        yield
    except (GraderError, CommandFailed, EntryPointInvalid) as error:
        kind = CallInvalid if exit_of_error(error) is Exit.MISUSE else Unscored
        if isinstance(error, InvalidSubmission) and all(item.field.startswith(_OF_THE_KERNEL) for item in error.violations):
            kind = KernelInvalid
        raise kind(str(error), getattr(error, "reason", "") or refused_as(error).reason) from error


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """Verdict on a kernel, and what it rests on, in messages of the API. All texts may hold what the kernel wrote."""

    submission: submission_pb2.Submission

    @property
    def report(self) -> report_pb2.Report:
        """The whole report."""
        return self.submission.report

    @property
    def name(self) -> str:
        """Such as "submissions/2abdfb1e599041d2"."""
        return self.submission.name

    @property
    def verdict(self) -> str:
        """Such as "ACCEPTED" or "WRONG_ANSWER"."""
        return formatting.verdict_name(self.report)

    @property
    def accepted(self) -> bool:
        """Return whether the kernel is right."""
        return self.report.verdict == report_pb2.VERDICT_ACCEPTED

    @property
    def reason(self) -> str:
        """Deciding fact, such as "UNWRITTEN_OUTPUT"."""
        return self.report.reason

    @property
    def summary(self) -> str:
        """Why, in a sentence, and what to do about it."""
        return self.report.summary

    @property
    def speedup(self) -> report_pb2.Speedup | None:
        """The geometric mean over eager PyTorch, with its interval: `ratio`, `ratio_low`, `ratio_high`. None where it was not timed."""
        return self._over("eager")

    @property
    def times(self) -> Mapping[str, Mapping[str, float]]:
        """Certified medians in seconds, by workload: of "kernel", and of each baseline. Empty where nothing was timed."""
        return {
            measurement.workload_id: {"kernel": seconds_of(measurement.certified.median_duration)}
            | {name: seconds_of(samples.median_duration) for name, samples in measurement.baselines.items()}
            for measurement in self.report.measurements
        }

    @property
    def wrong_elements(self) -> tuple[report_pb2.WrongElement, ...]:
        """The first elements that are wrong."""
        return tuple(element for trial in self.report.trials for element in trial.wrong_elements)

    @property
    def findings(self) -> tuple[report_pb2.SanitizerFinding, ...]:
        """Observations of the emulated device's sanitizer, the likeliest cause first."""
        return tuple(self.report.profile.findings)

    def reward(self, *, right: float = 0.3, full_speedup: float = 8.0, baseline: str = "eager") -> float:
        """Return a reward from 0 to 1: 0 for a kernel that is not accepted; for one that is, `right` and a part of the rest:

            right + (1 - right) * log(low) / log(full_speedup)

        low is the lower end of the speedup's interval, cut to 1 and full_speedup: noise earns nothing. Without times, as in mode test, the
        reward is `right`.
        """
        if not 0 <= right <= 1 or not full_speedup > 1:
            raise ValueError("right is from 0 to 1, and full_speedup above 1")
        if not self.accepted:
            return 0.0
        speedup = self._over(baseline)
        low = speedup.ratio_low if speedup is not None and math.isfinite(speedup.ratio_low) else 1.0
        return right + (1 - right) * math.log(min(max(low, 1.0), full_speedup)) / math.log(full_speedup)

    def _over(self, baseline: str) -> report_pb2.Speedup | None:
        return next((speedup for speedup in self.report.speedups if speedup.baseline == baseline), None)

    def __repr__(self) -> str:
        return f"<Result {self.name} {self.verdict} {self.reason}: {self.summary}>"

    def _repr_html_(self) -> str:
        console = Console(file=io.StringIO(), record=True, width=_HTML_COLUMNS, markup=False, emoji=False, highlight=False)
        for part in render(self.submission):
            console.print(part, soft_wrap=isinstance(part, Text))
        return console.export_html(inline_styles=True, code_format=_HTML)
