"""Kernels that break the device, hang it or fill it: the right verdict, and the lane grades the next kernel as if nothing had been."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import pytest_asyncio

from grader.model import Verdict
from sandbox.protocol import wire
from tests.gpu.kernels.files import FAULT_PROBLEM, Kernel, all_in, honest
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

FAULTS = all_in("faults")
SLACK_BYTES = 64 << 20
LIMIT_BYTES = 6 << 30
COLUMNS = ("id", "fault", "verdict", "reason", "seconds", "next kernel", "memory left, MiB")
PATIENT_S = 30.0
SETTLE_S = 15.0  # for the driver to take back what a killed process had


async def grade(grading: Grading, kernel: Kernel) -> Graded:
    """Grade whether it is right; nothing is timed. Less memory than usual, so that a flood soon meets its limit, and time enough for a
    virtual machine that gets its memory slowly: only what may end at the trial's time is held to the problem's own."""
    example = kernel.example()
    if not any(expected.startswith(Verdict.TIME_LIMIT_EXCEEDED.value) for expected in kernel.expect):
        example = replace(example, problem=replace(example.problem, spec=replace(example.problem.spec, trial_s=PATIENT_S)))
    conditions = Conditions(run_limits=replace(grading.fleet.profile.run_cuda, memory_bytes=LIMIT_BYTES))
    return await example.grade(grading, mode=wire.Mode.TEST, conditions=conditions)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def used_before(grading: Grading, device_memory: Callable[[], int]) -> int:
    """The device's memory in use by our own processes once a right kernel has been graded; everything is built by then."""
    await grading.prebuild(kernel.example().build for kernel in (*FAULTS, honest(FAULT_PROBLEM)))
    graded = await grade(grading, honest(FAULT_PROBLEM))
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    return await lowest_use(device_memory, 0, SETTLE_S / 5)


@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=kernel.name) for kernel in FAULTS])
async def test_a_fault_has_its_verdict_and_leaves_nothing(
    grading: Grading, used_before: int, device_memory: Callable[[], int], section: Section, kernel: Kernel
) -> None:
    """The verdict is one that its file names; then a right kernel is accepted, and the device's memory is back."""
    graded = await grade(grading, kernel)
    following = await grade(grading, honest(FAULT_PROBLEM))
    used = await lowest_use(device_memory, used_before + SLACK_BYTES, SETTLE_S)
    leaked_mib = f"{(used - used_before) / (1 << 20):+.0f}"
    words = (graded.report.verdict.value, graded.report.reason, f"{graded.seconds:.1f}", following.verdict, leaked_mib)
    section.table(*COLUMNS).add(kernel.ids, kernel.name.replace(f"-{FAULT_PROBLEM}", ""), *words)
    assert graded.is_one_of(kernel.expect), graded.explanation
    assert following.report.verdict is Verdict.ACCEPTED, following.explanation
    assert used <= used_before + SLACK_BYTES, f"{leaked_mib} MiB are in use that were not before"


async def lowest_use(read: Callable[[], int], enough: int, limit_s: float) -> int:
    """The least that was seen in use within limit_s; at once when it is little enough."""
    end, least = time.monotonic() + limit_s, read()
    while least > enough and time.monotonic() < end:
        await asyncio.sleep(0.25)
        least = min(least, read())
    return least
