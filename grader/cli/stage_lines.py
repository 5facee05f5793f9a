"""Sums up the steps of one submission by stage, so that a problem with many workloads takes as few lines as one with a single workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.cli.timeline import NOT_RESOLVED, Timeline, TimelineStep
from grader.v1 import submission_pb2

FAILURES = 3  # so many failed steps have a line of their own


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTotal:
    """The steps of one stage, of all workloads and processes. ended: none of them runs."""

    label: str
    detail: str
    duration_s: float
    failed: bool
    ended: bool

    def line(self) -> str:
        """In one plain line."""
        return f"{self.label}: {self.detail} ({self.duration_s:.1f} s)" if self.detail else f"{self.label}: {self.duration_s:.1f} s"


def stage_totals(steps: Sequence[TimelineStep], now_s: float) -> list[StageTotal]:
    """A total for each stage, in the order in which they began; steps of no stage are alone."""
    found: dict[str, list[TimelineStep]] = {}
    for number, step in enumerate(steps):
        found.setdefault(step.stage or f"{number}", []).append(step)
    return [_total(of, now_s) for of in found.values()]


def _total(steps: Sequence[TimelineStep], now_s: float) -> StageTotal:
    first = steps[0]
    alone = len(steps) == 1
    return StageTotal(
        label=first.label if alone else f"{first.stage} {_workloads(steps)}".strip(),
        detail=first.detail if alone else _detail(steps),
        duration_s=sum((now_s if step.ended_s is None else step.ended_s) - step.began_s for step in steps),
        failed=any(step.failed for step in steps),
        ended=all(step.ended_s is not None for step in steps),
    )


def _workloads(steps: Sequence[TimelineStep]) -> str:
    """Of hidden workloads the number is not known."""
    names = {step.workload_id for step in steps}
    known, processes = len(names - {""}), len({step.process for step in steps})
    counted = f"{known} workload{'s' if known > 1 else ''}" if known else ""
    if counted and "" in names:
        counted += " and hidden ones"
    return counted + (f" in {processes} processes" if processes > 1 else "")


def _detail(steps: Sequence[TimelineStep]) -> str:
    parts = []
    trials = sum(step.trial_count for step in steps if not step.failed)
    times = sum(step.measured for step in steps)
    open_times = sum(step.measured and step.detail == NOT_RESOLVED for step in steps)
    if trials:
        parts.append(f"{trials} trial{'s' if trials > 1 else ''} passed")
    if times > open_times:
        parts.append(f"{times - open_times} time{'s' if times - open_times > 1 else ''} certified")
    if open_times:
        parts.append(f"{open_times} not resolved")
    failed = [step for step in steps if step.failed]
    if failed:
        where = f" {failed[0].workload_id}" if failed[0].workload_id else ""
        parts.append(f"{len(failed)} failed, first{where}: {failed[0].detail}")
    return ", ".join(parts)


class StageLines:
    """What is printed where nothing can be redrawn: stages as they begin, failures, and a total for each stage at the end."""

    def __init__(self, began_s: float) -> None:
        self._timeline = Timeline(began_s)
        self._begun: set[str] = set()
        self._failure_count = 0
        self._ahead_count: int | None = None

    def feed(self, event: submission_pb2.SubmissionEvent, now_s: float) -> list[str]:
        """Take an event in and return what it adds; all of it may hold untrusted text."""
        attempt, before = self._timeline.attempt, self._timeline.steps[-1]
        ran = before.ended_s is None
        added = self._timeline.feed(event, now_s)
        lines = []
        if 0 < attempt < self._timeline.attempt:
            self._begun.clear()
            lines.append(added.pop(0))
        match event.WhichOneof("event"):
            case "progress" | "submission":
                lines += self._ended(before) if ran and before.ended_s is not None else []
                lines += [total.line() for total in self._totals(now_s)] if self._timeline.final else self._began(self._timeline.steps[-1])
            case "queue_position":
                lines += added if self._nearer(event.queue_position.ahead_count) else []
            case _:
                lines += added
        return lines

    def _ended(self, step: TimelineStep) -> list[str]:
        """The line of a step that has just ended: of the wait in the queue, and of the first that failed."""
        if step.failed:
            self._failure_count += 1
            return [step.line()] if self._failure_count <= FAILURES and step.stage else []
        return [step.line()] if step.label == "queued" else []

    def _began(self, step: TimelineStep) -> list[str]:
        if not step.stage or step.stage in self._begun:
            return []
        self._begun.add(step.stage)
        return [f"{step.stage} ..."]

    def _totals(self, now_s: float) -> list[StageTotal]:
        """Of trials and times. A stage whose only step failed has its line already."""
        steps = [step for step in self._timeline.steps if step.stage and (step.trial_count or step.measured or step.failed)]
        steps = [step for step in steps if step.stage != "building"]  # it has a line already, too
        return [one for one in stage_totals(steps, now_s) if not (one.failed and one.label in {step.label for step in steps})]

    def _nearer(self, ahead_count: int) -> bool:
        """Whether the place in the queue is worth another line: it is half of what was printed last, or the first."""
        before = self._ahead_count
        if before is not None and (ahead_count == before or 2 * ahead_count > before):
            return False
        self._ahead_count = ahead_count
        return True
