"""What a report says of eleven kernels with a usual mistake: the sentence with the remedy, and no library's own words before it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli

pytestmark = pytest.mark.slow  # each is built and judged

HEAD = "#include <cstdint>\n#include <cuda_runtime.h>\n"
KERNEL = """__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""
SOLVE = 'extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {{ {body} }}\n'
LAUNCH = "add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);"
RIGHT = HEAD + KERNEL + SOLVE.format(body=LAUNCH)

MISTAKES = {
    "no entry": ({"k.cu": HEAD + KERNEL}, 2, "nothing is named 'solve'; define the function `extern \"C\" void solve(...)`"),
    "a C++ entry": ({"k.cu": RIGHT.replace('extern "C" ', "")}, 2, "'solve' has no C linkage, so it can not be found by name; declare it"),
    "a syntax error": ({"k.cu": RIGHT.replace("a[i] + b[i];", "a[i] + b[i]")}, 1, "k.cu:5: expected \u2018;\u2019 before"),
    "an unknown name": ({"k.cu": RIGHT.replace("a[i] + b[i]", "a[i] + bb[i]")}, 1, "did you mean \u2018b\u2019?"),
    "two entries": ({"a.cu": RIGHT, "b.cu": RIGHT}, 1, "each .cu file is compiled: keep one, or name a file that another includes .cuh"),
    "doubles for floats": ({"k.cu": RIGHT.replace("float* c", "double* c")}, 1, "`double* c` is given the output c, which is float32"),
    "no launch": ({"k.cu": RIGHT.replace(LAUNCH, "")}, 1, "check the grid and the index arithmetic"),
    "no bounds check": ({"k.cu": RIGHT.replace("if (i < n) ", "")}, 1, "check the bounds of every store"),
    "too many threads": ({"k.cu": RIGHT.replace("256, 0, stream", "2048, 0, stream")}, 1, "line 7 failed with cudaErrorInvalidValue"),
    "no Python entry": ({"k.py": "def a(x, y):\n    return x\n\n\ndef b(x, y):\n    return y\n"}, 1, "name one of them 'solve'"),
    "no such package": ({"k.py": "import cupy\n\n\ndef solution(a, b):\n    return a + b\n"}, 1, "does not have the Python module 'cupy'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistaken_kernel_is_told_its_remedy(cli: Cli, tmp_path: Path, name: str) -> None:
    """In the summary or the remark on the build, with the line; never with a traceback."""
    files, code, answer = MISTAKES[name]
    mode = "sanitize" if "cudaError" in answer else "test"  # after a failed test the sanitizer gives up within 10 s
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    ended = cli("submit", *files, "--problem", "vector_add", "--mode", mode, "--sandbox", "process", "--device", "emulated")
    said = " ".join((ended.stdout + ended.stderr).split())
    assert answer in said and ended.code == code and "Traceback" not in said, said


EXTENSION = "#include <torch/extension.h>\ntorch::Tensor solve(torch::Tensor a, torch::Tensor b) { return a + b; }\n"
BOUND = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("solve", &solve); }\n'
INLINE = """from torch.utils.cpp_extension import load_inline
try:
    load_inline("mine", "torch::Tensor other(torch::Tensor a);", functions=["forward"])
except RuntimeError:
    pass
"""
GRAPH = "import torch\n\ndef solution(a, b):\n    torch.cuda.CUDAGraph()\n"
BLOCKS = """import torch, triton
import triton.language as tl

@triton.jit
def add(a, n, BLOCK: tl.constexpr):
    tl.make_block_ptr(a, (n,), (1,), (0,), (BLOCK,), (0,))

def solution(a, b):
    add[(1,)](a, a.numel(), BLOCK=16)
    return a + b
"""
SQUARE = """__global__ void square(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
extern "C" void solve(const float* x, float* y, int N) { square<<<(N + 255) / 256, 256>>>(x, y, N); }
"""
TOOLKIT = pytest.mark.skipif(shutil.which("nvcc") is None, reason="without a toolkit nobody knows its names")
# Files, the problem, what is said of them, and what is not.
SENTENCES = {
    "no launch": ({"k.cu": RIGHT.replace(LAUNCH, "")}, "vector_add", "WRONG_ANSWER UNWRITTEN_OUTPUT", "NaN"),
    "one size of two": ({"k.cu": SQUARE}, "elementwise_square", "`int N` is given the size rows, and nothing is given cols", "remark"),
    "no such header": (
        {"k.cu": f'#include "mine.h"\n{EXTENSION}{BOUND}'},
        "vector_add",
        "mine.h: No such file or directory",
        "own headers",
    ),
    "two modules": ({"k.cu": EXTENSION + BOUND * 2}, "vector_add", "k.cu:4: redefinition of", "own headers"),
    "nothing to bind": (
        {"k.py": INLINE + "\ndef solution(a, b):\n    return a + b\n"},
        "vector_add",
        "ACCEPTED Without its extension 'mine' (k.py:3: error: load_inline's functions names 'forward', which cpp_sources does not declare",
        "did you mean",
    ),
    "a graph": ({"k.py": GRAPH}, "vector_add", "RUNTIME_ERROR UNSUPPORTED", "Traceback"),
    "block pointers": ({"k.py": BLOCKS}, "vector_add", "RUNTIME_ERROR UNSUPPORTED", "Traceback"),
    "a name of CUDA's": (
        {"k.cu": RIGHT.replace("c[i] =", "c[i] = umin(1, 2) +")},
        "vector_add",
        "the emulated device has no umin",
        "REJECTED",
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[TOOLKIT] if "CUDA" in name else []) for name in SENTENCES])
def test_a_sentence_blames_the_right_thing(cli: Cli, tmp_path: Path, name: str) -> None:
    """And nothing else next to it."""
    files, problem, sentence, never = SENTENCES[name]
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    ended = cli("submit", *files, "--problem", problem, "--sandbox", "process", "--device", "emulated", "--skip-sanitizer")
    said = " ".join((ended.stdout + ended.stderr).split())
    assert sentence in said and never not in said, said
