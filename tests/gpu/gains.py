"""What an accepted attack has won over the honest kernel that it is compared with, by the judge's clock.  Pure."""

from __future__ import annotations

from grader.model import Problem, Verdict
from tests.harness.grading import Graded

GAIN_NS, GAIN_SHARE = 10_000, 0.01  # what an early `done` may win, and what the clock's median wanders by on long kernels
SPEEDUP_FACTOR = 1.15  # how much better than honest a speedup may look: two medians and the baseline's own drift


def gain_of(graded: Graded, honest: Graded, problem: Problem) -> str | None:
    """The time, or the speedup, that an accepted attack has won; None is nothing."""
    if graded.report.verdict is not Verdict.ACCEPTED:
        return None
    for workload in problem.spec.workloads:
        seen, right = graded.certified_ns(workload.workload_id), honest.certified_ns(workload.workload_id)
        if seen is None or right is None:
            return f"not known: no time of {workload.workload_id}"
        if right - seen > max(GAIN_NS, GAIN_SHARE * right):
            return f"{(right - seen) / 1e3:.1f} us"
    for baseline, ratio in speedups(graded).items():
        if ratio > SPEEDUP_FACTOR * speedups(honest).get(baseline, ratio):
            return f"{baseline}: {ratio:.2f} times"
    return None


def speedups(graded: Graded) -> dict[str, float]:
    """By baseline."""
    return {one.baseline: one.ratio for one in graded.report.speedups}
