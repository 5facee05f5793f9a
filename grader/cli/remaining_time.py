"""How much of a submission is done, and how long the rest may take, by what its own workloads took so far.  Pure: the time is passed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grader.cli.timeline import TimelineStep
from grader.v1 import problem_pb2, submission_pb2

MEASURED = (submission_pb2.MODE_UNSPECIFIED, submission_pb2.MODE_BENCHMARK, submission_pb2.MODE_RANKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """How many workloads each process verifies and measures, if all goes well."""

    verified_count: int
    measured_count: int

    @classmethod
    def of(cls, mode: submission_pb2.Mode, device_kind: str, problem: problem_pb2.Problem) -> WorkPlan | None:
        """The plan of this mode on this kind of device; None in a mode whose work is not counted in workloads."""
        if mode != submission_pb2.MODE_TEST and mode not in MEASURED:
            return None
        public_count = sum(one.device_kind in ("", device_kind) for one in problem.workloads)
        verified_count = public_count + problem.hidden_workload_count
        measured_count = {submission_pb2.MODE_TEST: 0, submission_pb2.MODE_RANKED: verified_count}.get(mode, public_count)
        return cls(verified_count=verified_count, measured_count=measured_count)

    def share_done(self, steps: Sequence[TimelineStep], process_count: int) -> float:
        """From 0 to 1."""
        totals = self._totals(process_count)
        done = sum(min(len(_ended(steps, stage)), total) for stage, total in totals.items())
        return done / max(1, sum(totals.values()))

    def remaining_s(self, steps: Sequence[TimelineStep], process_count: int, now_s: float) -> float | None:
        """An estimate; None while a stage has not ended for any workload."""
        rest_s = 0.0
        for stage, total in self._totals(process_count).items():
            ended = _ended(steps, stage)
            if not ended:
                return None
            mean_s = sum(ended.values()) / len(ended)
            running = [step for step in steps if step.stage == stage and step.ended_s is None]
            passed_s = sum(min(now_s - step.began_s, mean_s) for step in running)
            rest_s += max(0.0, mean_s * max(0, total - len(ended)) - passed_s)
        return rest_s

    def _totals(self, process_count: int) -> dict[str, int]:
        counts = {"verifying": self.verified_count, "measuring": self.measured_count}
        return {stage: count * process_count for stage, count in counts.items() if count}


def _ended(steps: Sequence[TimelineStep], stage: str) -> dict[tuple[int, str], float]:
    """How long the stage took for each process and workload, in seconds."""
    found: dict[tuple[int, str], float] = {}
    for step in steps:
        if step.stage == stage and step.ended_s is not None:
            key = (step.process, step.workload_id)
            found[key] = found.get(key, 0.0) + step.ended_s - step.began_s
    return found
