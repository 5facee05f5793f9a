"""Submissions to problems of these formats, from source to verdict, in boxes on the emulated device."""

from __future__ import annotations

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader_extensions.formats.tests.test_reference_kernels_graded import verdict_of

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
RMSNORM, ROWS = "flashinfer/trace/definitions/rmsnorm/rmsnorm_h128.json", "flashinfer/scaled_rows"
NORMALISED = "x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight.float()"
ROWS_KERNEL = """
__global__ void add(const float* x, float scale, float* y, float* sums, int64_t count, int64_t width, int64_t half) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    sums[i] = x[i / half * width + i % half] + x[i / half * width + half + i % half];
    y[i] = sums[i] * scale;
}
"""
ROWS_CUDA = (
    f"#include <cstdint>\n#include <cuda_runtime.h>{ROWS_KERNEL}"
    + """
extern "C" void run(const float* x, float scale, float* y, float* sums, long rows, long width, long half, long flat, cudaStream_t stream) {
    add<<<(flat + 255) / 256, 256, 0, stream>>>(x, scale, y, sums, flat, width, half);
}
"""
)
ROWS_EXTENSION = (
    f"#include <torch/extension.h>{ROWS_KERNEL}"
    + """
void run(torch::Tensor x, double scale, torch::Tensor y, torch::Tensor sums) {
    const int64_t flat = COUNT;
    add<<<(flat + 255) / 256, 256>>>(x.data_ptr<float>(), scale, y.data_ptr<float>(), sums.data_ptr<float>(), flat, 64, 32);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
"""
)
ROWS_INTO_OUTPUTS = f"{ROWS_EXTENSION.replace('COUNT', 'sums.numel()')}// grader: destination=true\n"
ROW_SCALE, POWER_LOSS = "robust_kbench/row_scale/func_{}.py", "robust_kbench/power_loss/func_{}.py"
ROW_SCALE_BACKWARD = """#include <torch/extension.h>
#include <tuple>
#include <vector>
__global__ void gradients(const float* dy, const float* x, const float* scale, float gain, float* dx, float* ds, float* db,
                          int rows, int columns) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= columns) return;
    float of_scale = 0, of_shift = 0;
    for (int row = 0; row < rows; ++row) {
        const int i = row * columns + column;
        dx[i] = gain * scale[column] * dy[i];
        of_scale += gain * x[i] * dy[i];
        of_shift += dy[i];
    }
    ds[column] = of_scale;
    db[column] = of_shift;
}
std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> backward(
    torch::Tensor dy, torch::Tensor x, torch::Tensor scale, float gain, std::vector<int64_t> shape) {
    auto dx = torch::empty_like(x), ds = torch::empty_like(scale), db = torch::empty_like(scale);
    TORCH_CHECK(shape.size() == 2 && shape[0] == x.size(0), "the shape is not that of x");
    gradients<<<(shape[1] + 63) / 64, 64>>>(dy.data_ptr<float>(), x.data_ptr<float>(), scale.data_ptr<float>(), gain,
        dx.data_ptr<float>(), ds.data_ptr<float>(), db.data_ptr<float>(), shape[0], shape[1]);
    return std::make_tuple(dx, ORDER);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
"""
SUBMISSIONS = {
    "returned": (
        RMSNORM,
        f"import torch\ndef run(hidden_states, weight):\n    x = hidden_states.float()\n    return ({NORMALISED}).half()\n",
        "ACCEPTED",
    ),
    "into the last parameter": (
        RMSNORM,
        f"import torch\ndef run(hidden_states, weight, output):\n    x = hidden_states.float()\n    output.copy_({NORMALISED})\n",
        "ACCEPTED",
    ),
    "into the last parameter, nothing": (RMSNORM, "def run(hidden_states, weight, output):\n    pass\n", "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "raw CUDA": (ROWS, ROWS_CUDA, "ACCEPTED"),
    "an extension, into its last parameters": (ROWS, ROWS_INTO_OUTPUTS, "ACCEPTED"),
    "an extension, into half of them": (ROWS, ROWS_INTO_OUTPUTS.replace("= sums.numel()", "= 32"), "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "an extension that does not say so": (ROWS, ROWS_INTO_OUTPUTS.replace("// grader", "// no grader"), "ACCEPTED"),
    "returned, although it has the parameters": (
        RMSNORM,
        "import torch\ndef run(hidden_states, weight, output=None):\n    x = hidden_states.float()\n"
        f"    return ({NORMALISED}).half()\n# grader: destination=false\n",
        "ACCEPTED",
    ),
    "arguments": (ROW_SCALE.format("forward"), "def forward(x, scale, shift, gain):\n    return gain * x * scale + shift\n", "ACCEPTED"),
    "arguments, wrong": (
        ROW_SCALE.format("forward"),
        "def forward(x, scale, shift, gain):\n    return x * scale + shift\n",
        "WRONG_ANSWER MISMATCH",
    ),
    "arguments, some of them None, and an output without axes": (
        POWER_LOSS.format("forward"),
        "def forward(x, targets, weight, power):\n    loss = (x - targets).abs() ** power\n"
        "    return (loss if weight is None else loss * weight).mean()\n",
        "ACCEPTED",
    ),
    "arguments, the same for all settings": (
        POWER_LOSS.format("forward"),
        "def forward(x, targets, weight, power):\n    loss = (x - targets).abs()\n"
        "    return (loss if weight is None else loss * weight).mean()\n",
        "WRONG_ANSWER MISMATCH",
    ),
    "arguments, a nest and a tensor without axes": (
        POWER_LOSS.format("backward"),
        "def backward(saved, grad):\n    assert isinstance(saved, tuple) and grad.dim() == 0\n    x, targets = saved\n"
        "    return grad * 2 * (x - targets) / x.numel()\n",
        "ACCEPTED",
    ),
    "gradients": (ROW_SCALE.format("backward"), ROW_SCALE_BACKWARD.replace("ORDER", "ds, db"), "ACCEPTED"),
    "gradients in another order": (ROW_SCALE.format("backward"), ROW_SCALE_BACKWARD.replace("ORDER", "db, ds"), "WRONG_ANSWER MISMATCH"),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
async def test_a_submission_gets_its_verdict(fleet: LocalFleet, name: str) -> None:
    """Right ones are accepted however they are called, and wrong ones fail for their own reason."""
    place, content, expected = SUBMISSIONS[name]
    verdict, summary = await verdict_of(fleet, place, content)
    assert verdict.startswith(expected), summary
