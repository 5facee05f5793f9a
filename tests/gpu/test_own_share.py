"""The share of device time in kernels of the submission's own: all, next to none of a decoy beside PyTorch's product, and none."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from grader.dispatch.gpus import Gpu
from grader.model import Verdict
from sandbox.protocol import wire
from tests.gpu.conftest import measure_s
from tests.gpu.kernels.files import HERE
from tests.gpu.report import Section
from tests.harness.grading import Conditions, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MEASURE_S = 1.0
FIRST_USE_LIMIT_S = 0.3
COLUMNS = ("kernel", "share of its own kernels, %", "expected, %")
TINY = wire.Workload(workload_id="n64", axes={"n": 64})  # where there is no GPU

RAW = (HERE / "work_matmul.h").read_text("utf-8") + "\nENTRY { honest(a, b, out, n, stream); }\n"
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, out, n, SIDE: tl.constexpr):
    rows, columns = tl.program_id(0) * SIDE + tl.arange(0, SIDE), tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for begin in range(0, n, SIDE):
        inner = begin + tl.arange(0, SIDE)
        left, right = tl.load(a + rows[:, None] * n + inner[None, :]), tl.load(b + inner[:, None] * n + columns[None, :])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(out + rows[:, None] * n + columns[None, :], total)


def solve(a, b):
    n, out = a.shape[0], torch.empty_like(a)
    product[(n // 32, n // 32)](a, b, out, n, SIDE=32)
    return out
"""
PYTORCH = "import torch\n\n\ndef solve(a, b):\n    return torch.matmul(a, b)\n"
TRITON_DECOY = """
import torch
import triton
import triton.language as tl


@triton.jit
def decoy(out):
    place = out + tl.arange(0, 32)
    tl.store(place, tl.load(place))


def solve(a, b):
    out = torch.matmul(a, b)
    decoy[(1,)](out)
    return out
"""
EXTENSION_DECOY = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

__global__ void decoy(float* out) { out[threadIdx.x] += 0.0f; }

torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    torch::Tensor out = torch::matmul(a, b);
    decoy<<<1, 32, 0, at::cuda::getCurrentCUDAStream()>>>(out.data_ptr<float>());
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
# The first observed launch of a process that has torch, as the runner of a box has it.
FIRST_USE = """
import time

import torch
from sandbox.runner.observe import observe_amounts

a = torch.rand(2048, 2048, device="cuda")
torch.matmul(a, a)
torch.cuda.synchronize()
begun = time.perf_counter()
lines = observe_amounts(lambda: torch.matmul(a, a), True, tuple)
print(time.perf_counter() - begun, "|".join(lines.splitlines()), sep="\\n")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kernel, and between which shares its own is: of device time, and of launches on the emulated device."""

    source: str
    language: str = "python"
    share: tuple[float, float]
    launches: float


CASES = {
    "raw CUDA": Case(source=RAW, language="cuda", share=(1.0, 1.0), launches=1.0),
    "Triton": Case(source=TRITON, share=(0.99, 1.0), launches=1.0),
    "decoy in Triton": Case(source=TRITON_DECOY, share=(1e-6, 0.05), launches=0.5),
    "decoy in an extension": Case(source=EXTENSION_DECOY, language="torch_extension", share=(1e-6, 0.05), launches=0.5),
    "PyTorch": Case(source=PYTORCH, share=(0.0, 0.0), launches=0.0),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_report_has_the_share_of_its_own_kernels(
    request: pytest.FixtureRequest, grading: Grading, section: Section, device: str, name: str
) -> None:
    """On the emulated device its launches, among those and PyTorch's operators."""
    case, problem = CASES[name], load_problem("matmul")
    low, high = case.share
    if device == "emulated":
        problem, low, high = replace(problem, spec=replace(problem.spec, workloads=(TINY,))), case.launches, case.launches
    conditions = Conditions(measure_s=measure_s(request.config, MEASURE_S))
    graded = await grading.grade(problem, case.source, language=case.language, conditions=conditions)
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    (measured,) = graded.report.measurements
    share = measured.own_share
    section.table(*COLUMNS).add(name, "unknown" if share is None else f"{100 * share:.3g}", f"{100 * low:g} to {100 * high:g}")
    assert share is not None and low <= share <= high


def test_the_first_use_of_the_profiler_is_quick(gpu: Gpu, section: Section) -> None:
    """In a fresh process, CUPTI's own start among it: what a grading pays, and what it is told."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": gpu.uuid}
    program = subprocess.run([sys.executable, "-c", FIRST_USE], env=environment, check=True, capture_output=True, text=True, timeout=300)
    first_use_s, lines = program.stdout.splitlines()
    section.table("first use, s", "told").add(f"{float(first_use_s):.3f}", lines)
    assert " kernel " in lines and float(first_use_s) < FIRST_USE_LIMIT_S
