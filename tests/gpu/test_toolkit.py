"""Kernels that use what a toolkit has besides the runtime: the driver API, CUTLASS, cuBLASLt, TVM-FFI. Each is accepted, and timed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.isolation.toolchain import cuda_home
from sandbox.protocol.toolkit import toolkit_packages
from tests.gpu.conftest import measure_s
from tests.gpu.figures import shown_samples, shown_speedup
from tests.gpu.kernels.files import Kernel, all_in
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Grading
from tests.harness.kernel_words import words_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 2.0
COLUMNS = ("kernel", "problem", "verdict", "reason", "certified, us", "of eager", "of torch.compile")


def missing(kernel: Kernel) -> str | None:
    """The header or package that a kernel needs and this host lacks; None where it has it."""
    wanted = words_of(kernel.path).get("needs", "")
    directories = [*toolkit_packages("include"), (cuda_home() or Path()) / "include"]
    has_header = wanted.endswith(".h") and any((directory / wanted).is_file() for directory in directories)
    return None if not wanted or has_header or (wanted.isidentifier() and find_spec(wanted)) else wanted


KERNELS = all_in("toolkit")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def built(gpu: Gpu, grading: Grading) -> None:
    """Build everything first."""
    await grading.prebuild(kernel.example().build for kernel in KERNELS if missing(kernel) is None)


@pytest.mark.parametrize("kernel", [pytest.param(kernel, id=kernel.name) for kernel in KERNELS])
async def test_a_kernel_of_the_toolkit_is_accepted(
    request: pytest.FixtureRequest, grading: Grading, built: None, section: Section, kernel: Kernel
) -> None:
    """With its speedup over PyTorch; where the host lacks what it needs, there is nothing to say."""
    if (lacking := missing(kernel)) is not None:
        pytest.skip(f"{lacking} is not here")
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))
    graded = await kernel.example().grade(grading, conditions=conditions)
    (measured,) = graded.report.measurements or (None,)
    speedups = {speedup.baseline: shown_speedup(speedup) for speedup in measured.speedups} if measured else {}
    times = [shown_samples(measured.certified) if measured else "", *(speedups.get(baseline, "") for baseline in ("eager", "compile"))]
    section.table(*COLUMNS).add(kernel.path.stem, kernel.problem, graded.report.verdict.value, graded.report.reason, *times)
    assert graded.is_one_of(kernel.expect), graded.explanation
    assert "eager" in speedups
