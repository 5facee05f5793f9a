"""The same vector addition in every format and every language that the format takes: the same verdicts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from grader.formats import formats
from grader.model import Problem
from sandbox.protocol import wire
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import entry_in
from tests.harness.grading import ROOT, Grading, grader
from tests.run_files import cache_directory

pytestmark = pytest.mark.slow
FIXTURES = ROOT / "tests" / "fixtures" / "vector_add"
PROBLEMS = {
    "native": ROOT / "kernels_examples" / "vector_add",
    "kernelbench": FIXTURES / "kernelbench" / "1_Vector_add.py",
    "reference_kernels": FIXTURES / "reference_kernels" / "vector_add_rk",
    "flashinfer": FIXTURES / "flashinfer" / "vector_add_fi",
    "robust_kbench": FIXTURES / "robust_kbench" / "vector_add_rkb" / "func_forward.py",
}
# What decides, and how much of the sum is computed.
CASES = {"ACCEPTED": "n", "WRONG_ANSWER UNWRITTEN_OUTPUT": "n - 1", "WRONG_ANSWER MISMATCH": "n"}
KERNEL = """
__global__ void add(const float* a, const float* b, float* c, int64_t n) {{
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < {count}) c[i] = a[i] {sign} b[i];
}}
"""
RAW = """#include <cstdint>
#include <cuda_runtime.h>
{kernel}
extern "C" void {entry}(const float* a, const float* b, float* c, int64_t n, {more}cudaStream_t stream) {{
    if (n > 0) add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}}
"""
BODY = """#include <torch/extension.h>
{kernel}
torch::Tensor forward(torch::Tensor a, torch::Tensor b) {{
    auto c = torch::empty_like(a);
    const int64_t n = a.numel();
    if (n > 0) add<<<(n + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), n);
    return c;
}}
"""
BOUND_BY_TVM = """#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
{kernel}
void run(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView c) {{
    const int64_t n = c.numel();
    const auto *left = static_cast<const float*>(a.data_ptr()), *right = static_cast<const float*>(b.data_ptr());
    if (n > 0) add<<<(n + 255) / 256, 256>>>(left, right, static_cast<float*>(c.data_ptr()), n);
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
"""
EXTENSION = BODY + 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("forward", &forward); }}\n'
INLINE = f"""import torch
from torch.utils.cpp_extension import load_inline

CUDA = r'''
{BODY}'''
DECLARED = "torch::Tensor forward(torch::Tensor a, torch::Tensor b);"
module = load_inline(name="added", cpp_sources=DECLARED, cuda_sources=CUDA, functions=["forward"])


{{entry}}
"""
ENTRIES = {
    "native": "def solution(a, b):\n    return module.forward(a, b)\n",
    "kernelbench": "class ModelNew(torch.nn.Module):\n    def forward(self, a, b):\n        return module.forward(a, b)\n",
    "reference_kernels": "def custom_kernel(data):\n    a, b = data\n    return module.forward(a, b)\n",
    "flashinfer": "def run(a, b):\n    return module.forward(a, b)\n",
    "robust_kbench": "def forward(a, b):\n    return module.forward(a, b)\n",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grading() -> AsyncIterator[Grading]:
    """A fleet with the emulated device."""
    async with grader(isolation="process", lanes=(), artifacts=cache_directory()) as instance:
        yield instance


def source_of(problem: Problem, name: str, language: str, verdict: str) -> str:
    """The kernel of that language for that format, right or wrong in the way that the verdict says."""
    kernel = KERNEL.format(count=CASES[verdict], sign="-" if "MISMATCH" in verdict else "+")
    match language:
        case "cuda":
            sizes = "int64_t b_0, int64_t output_0, " if name == "kernelbench" else ""  # there each tensor has sizes of its own
            return RAW.format(kernel=kernel, entry=entry_in(problem.spec, language), more=sizes)
        case "torch_extension":
            return EXTENSION.format(kernel=kernel)
        case "tvm_ffi":
            return BOUND_BY_TVM.format(kernel=kernel)
    return INLINE.format(kernel=kernel, entry=ENTRIES[name])


def languages_of(name: str, path: Path) -> tuple[str, ...]:
    """Those that the format's problem takes."""
    return formats()[name].load(path).languages  # type: ignore[no-any-return]


PAIRS = [(name, language) for name, path in PROBLEMS.items() if name in formats() for language in languages_of(name, path)]


def test_every_format_and_every_language_is_here() -> None:
    """Formats and languages that are added later have to be added here."""
    assert set(PROBLEMS) >= set(formats())
    assert {language for _, language in PAIRS} == set(languages()) <= {"cuda", "torch_extension", "python", "tvm_ffi"}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("verdict", CASES)
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
async def test_the_same_addition_has_the_same_verdict(grading: Grading, pair: tuple[str, str], verdict: str) -> None:
    """Right, one element short, and a difference instead of a sum."""
    name, language = pair
    problem = formats()[name].load(PROBLEMS[name])
    source = source_of(problem, name, language, verdict)
    graded = await grading.grade(problem, source, language=language, mode=wire.Mode.TEST, device="emulated")
    assert graded.verdict == verdict, graded.explanation
