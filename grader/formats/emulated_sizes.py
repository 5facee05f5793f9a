"""Chooses which workloads of an imported set the emulated device runs: they have the sizes of a GPU, and two cores take minutes."""

from __future__ import annotations

from collections.abc import Mapping

from grader.model import Problem

COUNT = 3
SMALL = 1 << 22  # elements of all inputs and outputs: seconds for a kernel on the emulated device
LARGEST = 1 << 28  # for a problem that has nothing smaller: a minute or more, and some GB


def for_emulated(elements: Mapping[str, int]) -> frozenset[str]:
    """The workloads that every device runs, by id; the others are for a GPU. elements: how many a workload's tensors have together.

    These are the COUNT smallest of at most SMALL elements, or the smallest alone if it has at most LARGEST.
    """
    ranked = sorted(elements, key=lambda workload_id: elements[workload_id])
    small = [workload_id for workload_id in ranked if elements[workload_id] <= SMALL][:COUNT]
    return frozenset(small or [workload_id for workload_id in ranked[:1] if elements[workload_id] <= LARGEST])


def warnings(problem: Problem) -> tuple[str, ...]:
    """Return what to tell those who import it about the sizes that only a GPU runs."""
    everywhere = sum(not workload.device_kind for workload in problem.spec.workloads)
    count = len(problem.spec.workloads)
    if not everywhere:
        return ("all its sizes are too large for the emulated device: only a GPU can grade it",)
    return (f"the emulated device runs {everywhere} of its {count} sizes, a GPU all of them",) if everywhere < count else ()
