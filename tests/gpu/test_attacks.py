"""Tricks of people and models on a timer, on a GPU: none of it is accepted with a wrong answer, and none gains time.

Every attack is graded beside the honest kernel that it is derived from, in the same session. Gain is a certified time, or a speedup, that
is better than the honest kernel's by more than the clock's own spread.
"""

from __future__ import annotations

import re

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.model import Verdict
from tests.gpu.conftest import cases_of
from tests.gpu.figures import gain_of, speedups
from tests.gpu.kernels.files import NO_GAIN, Kernel, all_in, original_of
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Graded, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

ATTACKS = all_in("attacks")
CONDITIONS = Conditions(measure_s=1.0)
COLUMNS = ("id", "attack", "problem", "verdict", "reason", "reported us", "certified us", "honest us", "speedup", "honest speedup", "gain")

Originals = dict[tuple[str, str], Graded]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def originals(request: pytest.FixtureRequest, gpu: Gpu, grading: Grading) -> Originals:
    """Build everything that was asked for, then grade its honest kernels once; they have to be accepted."""
    chosen = [case["kernel"] for case in cases_of(request, test_an_attack_gains_nothing.__name__).values()]
    plain = {(kernel.problem, original.path.stem): original.example() for kernel in chosen for original in [original_of(kernel)]}
    await grading.prebuild(example.build for example in (*(kernel.example() for kernel in chosen), *plain.values()))
    by_key = {}
    for key, example in plain.items():
        by_key[key] = graded = await example.grade(grading, conditions=CONDITIONS)
        assert graded.report.verdict is Verdict.ACCEPTED, f"the honest {key}: {graded.explanation}"
    return by_key


@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=kernel.name) for kernel in ATTACKS])
async def test_an_attack_gains_nothing(grading: Grading, originals: Originals, section: Section, kernel: Kernel) -> None:
    """Its verdict is one that its file names; where it is accepted, neither its time nor its speedup is better than the honest kernel's."""
    example, honest = kernel.example(), originals[kernel.problem, original_of(kernel).path.stem]
    graded = await example.grade(grading, conditions=CONDITIONS)
    gain = gain_of(graded, honest, example.problem)
    section.table(*COLUMNS).add(*_row(kernel, graded, honest, gain))
    allowed = tuple("ACCEPTED" if verdict == NO_GAIN else verdict for verdict in kernel.expect)
    assert graded.is_one_of(allowed), graded.explanation
    assert kernel.proof is None or re.search(kernel.proof, graded.report.output, re.MULTILINE), (
        f"no attack took place: {graded.explanation}"
    )
    assert gain is None, f"{gain}; {graded.explanation}"


def _row(kernel: Kernel, graded: Graded, honest: Graded, gain: str | None) -> tuple[str, ...]:
    (workload, *_) = [entry.workload_id for entry in load_problem(kernel.problem).spec.workloads]
    times = (graded.reported_ns(workload), graded.certified_ns(workload), honest.certified_ns(workload))
    variant = " ".join(f"{key}={value}" for key, value in kernel.parameters.items())
    return (
        kernel.ids,
        f"{kernel.path.stem} {variant}".strip(),
        kernel.problem,
        graded.report.verdict.value,
        graded.report.reason or ", ".join(graded.report.flags),
        *("" if time is None else f"{time / 1e3:.1f}" for time in times),
        *(f"{ratio:.2f}" if (ratio := speedups(result).get("eager")) is not None else "" for result in (graded, honest)),
        gain or "none",
    )
