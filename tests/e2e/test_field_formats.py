"""Material in the shape that its own users have it, from the command line to the verdict: imported, and submitted unchanged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli

pytestmark = [pytest.mark.slow, pytest.mark.sampled(2)]  # each starts a server and a judge of its own

FIXTURES = Path(__file__).parents[1] / "fixtures"
LOCAL = ("--mode", "test", "--sandbox", "process", "--device", "emulated", "--json")
EXTENSION = """#include <torch/extension.h>

__global__ void scale_kernel(const float* x, const float* scale, const float* shift, float* y, float gain, int64_t count, int64_t columns) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = gain * x[i] * scale[i % columns] + shift[i % columns];
}

torch::Tensor row_scale(torch::Tensor x, torch::Tensor scale, torch::Tensor shift, float gain) {
    auto y = torch::empty_like(x);
    const int64_t count = x.numel();
    scale_kernel<<<(count + 127) / 128, 128>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), shift.data_ptr<float>(), y.data_ptr<float>(), gain, count, x.size(1));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &row_scale, "Scaled and shifted columns (CUDA)"); }
"""


def test_a_flat_trace_set_takes_its_solution_file(cli: Cli, tmp_path: Path) -> None:
    """Without an import, by the definition above it; and after one, from elsewhere, with several files in C++."""
    shutil.copytree(FIXTURES / "flashinfer" / "flat", tmp_path / "trace")
    ended = cli("submit", "trace/solutions/clipped_sum_python.json", *LOCAL)
    assert ended.code == 0, ended.stdout + ended.stderr
    imported = cli("problems", "import", "trace", "--no-check", "--json")
    assert imported.json["counts"] == {"imported": 1, "refused": 0, "same": 0} and "2 of its 3 sizes" in imported.stdout
    shutil.move(tmp_path / "trace" / "solutions" / "clipped_sum_cuda.json", tmp_path / "solution.json")
    ended = cli("submit", "solution.json", *LOCAL)
    assert ended.code == 0 and ended.json["problem"] == "problems/clipped_sum_w96", ended.stdout + ended.stderr
    assert [one["path"] for one in ended.json["sources"]] == ["main.cpp", "clip.h", "clip.cu"]
    assert {one["workload_id"] for one in ended.json["report"]["trials"]} == {"rows-7", "rows-130"}


def test_a_kernel_of_robust_kbench_is_graded_as_it_is(cli: Cli, tmp_path: Path) -> None:
    """In all settings of its task. Control: one that forgets a weight is not accepted."""
    shutil.copytree(FIXTURES / "robust_kbench", tmp_path / "tasks")
    assert cli("problems", "import", "tasks", "--no-check").code == 0
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(EXTENSION)
    ended = cli("submit", kernel, "--problem", "row_scale", *LOCAL)
    assert ended.code == 0 and {one["workload_id"] for one in ended.json["report"]["trials"]} == {"setting-0", "setting-1"}, (
        ended.stdout + ended.stderr
    )
    kernel.write_text(EXTENSION.replace(" + shift[i % columns];", ";"))
    wrong = cli("submit", kernel, "--problem", "row_scale", *LOCAL)
    assert wrong.code == 1 and json.loads(wrong.stdout)["report"]["verdict"] == "VERDICT_WRONG_ANSWER"
