"""Submissions to imported problems, from source to verdict, in boxes on the emulated device: each way in which an entry can be called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader.formats import formats
from tests.local_grading import graded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
TASKS = FIXTURES / "reference_kernels"
MASKED_SUMS = "reference_kernels/masked_sums"
PRODUCT = "kernelbench/5_Scaled_product.py"
PRODUCT_CUDA = (FIXTURES / "kernelbench" / "5_Scaled_product.cu").read_text()
PRODUCT_EXTENSION = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, double factor, torch::Tensor shift, torch::Tensor weight, torch::Tensor bias, torch::Tensor gamma,
                      torch::Tensor beta, torch::Tensor mean, torch::Tensor variance) {
    auto y = (at::matmul(x, weight.t()) + bias - mean) / (variance + 1e-5).sqrt() * gamma + beta;
    return y * factor + shift;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
SHIPPED = {
    name: (TASKS / name / "submission.py").read_text() for name in ("scaled_add", "product_out", "scaled_fp8", "packed_fp4", "decode_step")
}
PRODUCT_OUT, FP8, FP4, STEP = (SHIPPED[name] for name in ("product_out", "scaled_fp8", "packed_fp4", "decode_step"))
SEARCH = """import pathlib
files = [path for path in pathlib.Path(__file__).parents[1].rglob("*") if path.is_file() and "submission" not in path.name]
assert {"task.py", "utils.py"} <= {path.name for path in files}
told = [path for path in files if b"def ref_kernel" in path.read_bytes() or b"def generate_input" in path.read_bytes()]
assert not told, told
"""
IN_PARTS = {
    "submission.py": "from task import input_t\nfrom .parts import product\ndef custom_kernel(data: input_t):\n    return product(*data)\n",
    "parts/__init__.py": "from .product import product\n",
    "parts/product.py": "def product(a, b, c):\n    c[...] = a @ b\n    return c\n",
}
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
# Submissions as GPU MODE's users write them, with the problem's files, in one file or several.
TO_TASKS: dict[str, tuple[str, str | Mapping[str, str], str]] = {
    **{f"{name} as it comes": (name, text, "ACCEPTED") for name, text in SHIPPED.items()},
    "a template as it comes": ("product_out", (TASKS / "product_out" / "template.py").read_text(), "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "into an input": ("product_out", PRODUCT_OUT.replace("    return c", "    a.zero_()\n    return c"), "WRONG_ANSWER INPUT_MODIFIED"),
    "half of the buffer": ("product_out", PRODUCT_OUT.replace("c[...] = a @ b", "c[:8] = (a @ b)[:8]"), "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "a product that is off": ("scaled_fp8", FP8.replace("= total\n", "= total * 1.1\n"), "WRONG_ANSWER MISMATCH"),
    "without the scales": ("packed_fp4", FP4.replace("return values *", "return values + 0 *"), "WRONG_ANSWER MISMATCH"),
    "the answer in another order": ("scaled_fp8", FP8.replace("return c\n", "return c.T.contiguous().T\n"), "WRONG_ANSWER WRONG_SHAPE"),
    "the answer contiguous": ("packed_fp4", FP4.replace("return c\n", "return c.contiguous()\n"), "ACCEPTED"),
    "of a bare module": (
        "decode_step",
        STEP.replace("class Cache", "class Other").replace("cache(config", "Other.forward(cache, config"),
        "ACCEPTED",
    ),
    "not into the cache": ("decode_step", STEP.replace("self.data[self.length] = row", "pass"), "WRONG_ANSWER MISMATCH"),
    "in several files": ("product_out", IN_PARTS, "ACCEPTED"),
    "a look for the reference": ("product_out", SEARCH + PRODUCT_OUT, "ACCEPTED"),
    "the reference imported": ("product_out", f"from reference import ref_kernel\n{PRODUCT_OUT}", "COMPILE_ERROR IMPORT_FAILED"),
    "a package that is not there": ("product_out", f"import helion\n{PRODUCT_OUT}", "COMPILE_ERROR UNSUPPORTED"),
}
SUBMISSIONS: dict[str, tuple[str, str | Mapping[str, str], str]] = {
    "data, a nest": (
        MASKED_SUMS,
        "def custom_kernel(data):\n    x, parts, config = data\n    rows = (x * parts['mask']).sum(1) * parts['weights']['scale']\n"
        "    rows = -rows if config['negate'] else rows\n    return rows, {'total': rows.sum()}\n",
        "ACCEPTED",
    ),
    "data, what the check alone sees": (
        MASKED_SUMS,
        "def custom_kernel(data):\n    x, parts, config = data\n    rows = (x * parts['mask']).sum(1) * parts['weights']['scale']\n"
        "    rows = -rows if config['negate'] else rows\n    return rows, {'total': rows.sum() + 0.01}\n",
        "WRONG_ANSWER MISMATCH",
    ),
    "raw CUDA, with a model's weights": (PRODUCT, PRODUCT_CUDA, "ACCEPTED"),
    "raw CUDA, without one of the weights": (PRODUCT, PRODUCT_CUDA.replace("+ shift[column]", ""), "WRONG_ANSWER MISMATCH"),
    "raw CUDA, into a weight": (
        PRODUCT,
        PRODUCT_CUDA.replace(
            "output[row * columns + column] = ", "if (row == 0) ((float*)shift)[column] += 1e-6f;\n    output[row * columns + column] = "
        ),
        "WRONG_ANSWER INPUT_MODIFIED",
    ),
    "raw CUDA, under another name": (PRODUCT, PRODUCT_CUDA.replace(" solve(", " ModelNew("), "COMPILE_ERROR ENTRY_NOT_FOUND"),
    "a torch extension, with a model's weights": (PRODUCT, PRODUCT_EXTENSION, "ACCEPTED"),
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
    **{
        name: (f"reference_kernels/{directory}", {"submission.py": files} if isinstance(files, str) else files, expected)
        for name, (directory, files, expected) in TO_TASKS.items()
    },
}


@pytest.mark.parametrize("name", SUBMISSIONS)
async def test_a_submission_to_an_imported_problem_gets_its_verdict(fleet: LocalFleet, name: str) -> None:
    """Right ones are accepted however they are called, and wrong ones fail for their own reason."""
    place, content, expected = SUBMISSIONS[name]
    path = FIXTURES / place
    problem = next(format_ for format_ in formats().values() if format_.matches(path)).load(path, root=path.parent)
    files = {"kernel.cu" if "#include" in content else "kernel.py": content} if isinstance(content, str) else content
    report, _ = await graded(fleet, problem, files)
    log = report.build.log if report.build else ""
    assert f"{report.verdict.value} {report.reason}".startswith(expected), f"{report.summary}\n{log}"
