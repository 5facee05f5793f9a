"""What the judge's clock adds to a kernel's time, step by step, and how much of a kernel's time is the cold cache.

`kernels/clock_parts.cu` takes the steps of a certified run in two processes without a judge or a box, and times each by events.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from grader.dispatch.gpus import Gpu
from tests.gpu.conftest import one_at_a_time
from tests.gpu.figures import reported_limit_us
from tests.gpu.report import Section
from tests.gpu.test_conformance import capability_of, nvcc

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "kernels" / "clock_parts.cu"
COMPILE_S, RUN_S = 120, 120
COLUMNS = (
    "kernel",
    "warm, us",
    "cold, us",
    "of it the cold cache",
    "cold, next to another process",
    "by the clock, less null runs",
    "of the difference: until released",
    "from there until done",
    "reading outputs",
)


class Parts(NamedTuple):
    """One line of the program, in microseconds."""

    warm: float
    cold: float
    shared: float
    before: float
    kernel: float
    reading: float
    null: float

    @property
    def clock(self) -> float:
        """What the judge's clock would say."""
        return self.before + self.kernel + self.reading + self.null


def test_a_kernel_is_as_fast_next_to_the_judge_as_alone(gpu: Gpu, section: Section, tmp_path: Path) -> None:
    """By events of its own process, after another process has copied its inputs; what is more by the clock is the clock's."""
    program = tmp_path / "clock_parts"
    architecture = "sm_{}{}".format(*capability_of(gpu.uuid))
    command = [nvcc(), f"-arch={architecture}", "-std=c++20", "-O2", str(SOURCE), "-ldl", "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_S)
    with one_at_a_time(gpu.uuid):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid}
        done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, check=False, timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    found = {name: Parts(*map(float, figures)) for name, *figures in (line.split("|") for line in done.stdout.splitlines())}
    table = section.table(*COLUMNS, title="Less null runs: each step's median less that of a kernel that writes one number.")
    for name, one in found.items():
        steps = (f"{step:+.2f}" for step in (one.before, one.kernel - one.cold + one.null, one.reading))
        cache = f"{one.cold - one.warm:+.2f}"
        table.add(name, f"{one.warm:.2f}", f"{one.cold:.2f}", cache, f"{one.shared:.2f}", f"{one.clock:.2f}", *steps)
    section.raw["parts"] = {name: one._asdict() for name, one in found.items()}
    assert found
    assert [name for name, one in found.items() if abs(one.shared - one.cold) > reported_limit_us(one.cold)] == []
