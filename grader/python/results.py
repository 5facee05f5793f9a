"""Results of a call: what the grader says of a kernel, and the one number that a training loop wants of it."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from grader.cli.report import render
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting

_HTML_COLUMNS = 110
_HTML = '<pre style="line-height:normal;white-space:pre-wrap">{code}</pre>'


class SpeedupInterval(NamedTuple):
    """How many times as fast as a baseline: the estimate, and its 95 % interval."""

    ratio: float
    low: float
    high: float
    baseline: str


class WorkloadTimes(NamedTuple):
    """Certified medians on one workload, in seconds. baselines: by name; eager is PyTorch as it is written."""

    kernel_s: float
    baselines_s: Mapping[str, float]


class WrongValue(NamedTuple):
    """An element that is wrong."""

    workload: str
    output: str
    place: tuple[int, ...]
    expected: float
    actual: float


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """Verdict on a kernel, with what it rests on. submission: the API's message. All texts may hold what the kernel wrote."""

    submission: submission_pb2.Submission

    @property
    def report(self) -> report_pb2.Report:
        """The whole report, as the API has it."""
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
    def reason(self) -> str:
        """What decided it, such as "UNWRITTEN_OUTPUT"."""
        return self.report.reason

    @property
    def accepted(self) -> bool:
        """Return whether the kernel is right."""
        return self.report.verdict == report_pb2.VERDICT_ACCEPTED

    @property
    def summary(self) -> str:
        """Why, in a sentence, and what to do about it."""
        return self.report.summary

    @property
    def speedups(self) -> Mapping[str, SpeedupInterval]:
        """Geometric means over the workloads, by baseline, eager first; empty where nothing was timed, or a time was not resolved."""
        by_name = {speedup.baseline: speedup for speedup in self.report.speedups}
        return {
            name: SpeedupInterval(by_name[name].ratio, by_name[name].ratio_low, by_name[name].ratio_high, name)
            for name in formatting.baselines(by_name)
        }

    @property
    def speedup(self) -> SpeedupInterval | None:
        """Over the first baseline, which is eager PyTorch; None where nothing was timed."""
        return next(iter(self.speedups.values()), None)

    @property
    def times(self) -> Mapping[str, WorkloadTimes]:
        """By workload; empty where nothing was timed."""
        return {
            measurement.workload_id: WorkloadTimes(
                _median_s(measurement.certified), {name: _median_s(measurement.baselines[name]) for name in measurement.baselines}
            )
            for measurement in self.report.measurements
        }

    @property
    def wrong_elements(self) -> tuple[WrongValue, ...]:
        """The first elements that are wrong, of public workloads."""
        return tuple(
            WrongValue(trial.workload_id, element.output, tuple(element.index), element.expected, element.actual)
            for trial in self.report.trials
            for element in trial.wrong_elements
        )

    @property
    def findings(self) -> tuple[str, ...]:
        """What the emulated device's sanitizer saw, the likeliest cause first, with its place."""
        found_at = ((finding.message, formatting.sanitizer_place(finding)) for finding in self.report.profile.findings)
        return tuple(f"{place}: {message}" if place else message for message, place in found_at)

    def reward(self, *, right: float = 0.3, full_speedup: float = 8.0, baseline: str = "") -> float:
        """Return a reward from 0 to 1: 0 for a kernel that is not accepted; for one that is, `right` and a part of the rest:

            right + (1 - right) * log(low) / log(full_speedup)

        low is the lower end of the speedup's interval, cut to 1 and full_speedup: noise earns nothing. Without times, as in mode
        test, the reward is `right`. baseline: over which the speedup is; "": the first.
        """
        if not 0 <= right <= 1 or not full_speedup > 1:
            raise ValueError("right is from 0 to 1, and full_speedup above 1")
        if not self.accepted:
            return 0.0
        speedup = self.speedups.get(baseline) if baseline else self.speedup
        low = speedup.low if speedup is not None and math.isfinite(speedup.low) else 1.0
        return right + (1 - right) * math.log(min(max(low, 1.0), full_speedup)) / math.log(full_speedup)

    def __str__(self) -> str:
        speedup = self.speedup
        times = f", {speedup.ratio:.2f} times as fast as {speedup.baseline} ({speedup.low:.2f} to {speedup.high:.2f})" if speedup else ""
        return f"{self.verdict}{f' {self.reason}' if self.reason not in ('', self.verdict) else ''}{times}: {self.summary}"

    def __repr__(self) -> str:
        return f"<Result {self.name} {self}>"

    def _repr_html_(self) -> str:
        console = Console(file=io.StringIO(), record=True, width=_HTML_COLUMNS, markup=False, emoji=False, highlight=False)
        for part in render(self.submission):
            console.print(part, soft_wrap=isinstance(part, Text))
        return console.export_html(inline_styles=True, code_format=_HTML)


def _median_s(samples: report_pb2.Samples) -> float:
    return samples.median_duration.ToNanoseconds() / 1e9
