"""A problem set in GPU MODE's shape, imported and graded by the command line as its users have it: unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli

pytestmark = pytest.mark.slow  # each starts a server and a judge of its own

FIXTURES = Path(__file__).parents[1] / "fixtures" / "reference_kernels"
LOCAL = ("--sandbox", "process", "--device", "emulated", "--mode", "test", "--json")
CUDA = """#include <torch/extension.h>
#include "tile.cuh"
void product(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    int m = a.size(0), n = b.size(1), k = a.size(1);
    multiply<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(
        a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), m, n, k);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("product", &product); }
"""
HEADER = """#pragma once
#define TILE 8
__global__ void multiply(const float* a, const float* b, float* c, int m, int n, int k) {
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
"""
MAIN = """from task import input_t, output_t
from kernels import load_product

product = load_product("kernel.cu")


def custom_kernel(data: input_t) -> output_t:
    a, b, c = data
    product(a, b, c)
    return c
"""
KERNELS = """from pathlib import Path

from torch.utils.cpp_extension import load


def load_product(name):
    return load("product_of_files", [str(Path(__file__).parent / name)]).product
"""


def test_a_submission_is_graded_as_it_comes_and_in_several_files(cli: Cli, tmp_path: Path) -> None:
    """One file that imports task; two Python files with a CUDA file and its header, of which the first one named is the main file."""
    imported = cli("problems", "import", str(FIXTURES), "--no-check")
    assert "product_out" in imported.stdout, imported.stdout + imported.stderr
    for name in ("product_out", "scaled_fp8"):
        ended = cli("submit", str(FIXTURES / name / "submission.py"), "--problem", name, *LOCAL)
        assert ended.code == 0, ended.stdout + ended.stderr
    files = {"run.py": MAIN, "kernels.py": KERNELS, "kernel.cu": CUDA, "tile.cuh": HEADER}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    ended = cli("submit", *files, "--problem", "product_out", *LOCAL)
    assert ended.code == 0, ended.stdout + ended.stderr
    assert [one["path"] for one in json.loads(ended.stdout)["sources"]] == list(files)


def test_a_module_that_can_not_be_imported_is_not_the_compilers_doing(cli: Cli, tmp_path: Path) -> None:
    """The summary and the log say what is missing."""
    assert cli("problems", "import", str(FIXTURES), "--no-check").stdout
    (tmp_path / "x.py").write_text("import tilelang\n\ndef custom_kernel(data): ...\n")
    (tmp_path / "y.py").write_text("from task import nothing\n\ndef custom_kernel(data): ...\n")
    for name, reason, said in (
        ("x.py", "UNSUPPORTED", "x.py:1: error: this grader does not have the Python module 'tilelang'; it has torch"),
        ("y.py", "IMPORT_FAILED", "y.py:1: error: ImportError: cannot import name 'nothing' from 'task'"),
    ):
        ended = cli("submit", name, "--problem", "product_out", *LOCAL)
        report = json.loads(ended.stdout)["report"]
        assert (ended.code, report["verdict"], report["reason"]) == (1, "VERDICT_COMPILE_ERROR", reason), ended.stdout
        assert said in report["build"]["log"] and "compiler" not in report["summary"]
