"""Kernels that look like a trick and are none: every kernel of kernels/ is right, and has to be accepted.

HONEST_REPEATS=3 grades each of them three times, HONEST_TRIALS=500 on five hundred inputs of each workload. The controls are wrong in
ways that look much the same, so that a grader that accepts everything fails here.
"""

from __future__ import annotations

import pytest

from grader.model import Verdict
from sandbox.protocol import wire
from tests.honest.conftest import REPEATS, HonestGrading
from tests.honest.kernel_files import Kernel, all_in

MARKS = [pytest.mark.slow, pytest.mark.timeout(900)]

KERNELS, CONTROLS = all_in("kernels"), all_in("controls")
LEAST_COUNT = 40


def named(kernels: list[Kernel]) -> list[object]:
    return [pytest.param(kernel, id=kernel.name, marks=MARKS) for kernel in kernels]


@pytest.mark.parametrize("kernel", named(KERNELS))
def test_an_honest_kernel_is_accepted(grading: HonestGrading, kernel: Kernel) -> None:
    """On every workload, hidden ones too, every time."""
    gradings = grading.grade(kernel)
    assert len(gradings) == REPEATS
    for graded in gradings:
        assert graded.report.verdict is Verdict.ACCEPTED, f"{kernel.why}\n{graded.explanation}"


@pytest.mark.parametrize("kernel", named(CONTROLS))
def test_a_wrong_twin_is_refused(grading: HonestGrading, kernel: Kernel) -> None:
    """The controls: by the same way, and on the same problems."""
    for graded in grading.grade(kernel):
        assert graded.report.verdict is Verdict.WRONG_ANSWER, f"{kernel.why}\n{graded.explanation}"


def test_there_are_enough_of_them() -> None:
    """A collection that lost its files would pass."""
    assert len(KERNELS) >= LEAST_COUNT
    assert sum(kernel.mode is wire.Mode.RANKED for kernel in KERNELS) >= 3
    assert {kernel.language for kernel in KERNELS} == {"cuda", "torch_extension", "python"}
    problems = {kernel.problem for kernel in KERNELS}
    assert {kernel.problem for kernel in CONTROLS} <= problems
