"""Operators that an artifact defines with TORCH_LIBRARY are entries, as the functions of its Python module are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from grader_extensions.fast_torch_build.tests.torch_extensions.builds import ROOT, Built, build_files

pytestmark = pytest.mark.slow
CUDA_FILE = """#include <torch/all.h>
#include <torch/library.h>
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
at::Tensor add_cuda(const at::Tensor& a, const at::Tensor& b) {
    TORCH_CHECK(a.is_cuda());
    auto c = at::empty_like(a);
    add<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), a.numel());
    return c;
}
TORCH_LIBRARY_IMPL(of_tests, CUDA, m) { m.impl("added", &add_cuda); }
"""
CPP_FILE = """#include <torch/all.h>
#include <torch/library.h>
at::Tensor add_cpu(const at::Tensor& a, const at::Tensor& b) { TORCH_CHECK(false, "this is the CPU's"); return a; }
TORCH_LIBRARY(of_tests, m) { m.def("added(Tensor a, Tensor b) -> Tensor"); MORE }
TORCH_LIBRARY_IMPL(of_tests, CPU, m) { m.impl("added", &add_cpu); }
"""
# Loads an artifact as a runner does, and calls it under observation.
LOADER = f"""
import json, os, sys
sys.path.insert(0, {str(ROOT)!r})
import torch
from sandbox.languages import torch_extension
from sandbox.launch.loop import LaunchRefused
from sandbox.protocol import wire
from sandbox.protocol.gate import Call, Operation, Slot
from sandbox.runner.observe import observe
class Arena:
    def __init__(self): self.data = {{0: torch.tensor([1., 2., 3.]), 12: torch.tensor([10., 20., 30.]), 24: torch.zeros(3)}}
    def tensor(self, offset, dtype, shape, strides=()): return self.data[offset]
one = lambda name: wire.TensorSpec(name=name, dtype="float32", shape=(3,))
tensors = dict(inputs=(one("a"), one("b")), outputs=(one("c"),))
job = wire.RunnerJob(device_kind="emulated", language="torch_extension", entry=sys.argv[2], arena_bytes=64, **tensors)
arena, slot = Arena(), lambda offset: Slot(offset=offset, shape=(3,))
try:
    loaded = torch_extension.load(os.open(sys.argv[1], os.O_RDONLY), -1, job, arena)
    bound = loaded.bind(Call(operation=Operation.CALL, inputs=(slot(0), slot(12)), outputs=(slot(24),)))
    seen = observe(lambda: bound.finish(bound.launch()), kernels=False, own_operators=loaded.own_operators)
    print(json.dumps([arena.data[24].tolist(), sorted(loaded.own_operators), seen.splitlines()]))
except LaunchRefused as refused:
    print(json.dumps([refused.status.name, refused.message]))
"""


def built(place: Path, **files: str) -> Built:
    place.mkdir()
    return build_files({name.replace("_", "."): text for name, text in files.items()}, place, language="torch_extension")


def loaded(artifact: Path | None, entry: str) -> list[object]:
    assert artifact is not None
    process = subprocess.run([sys.executable, "-c", LOADER, str(artifact), entry], capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert isinstance(result, list)
    return result


def test_the_operator_for_a_gpu_is_the_entry(tmp_path: Path) -> None:
    """By its name, or as the only one; it is the submission's own, and what it calls is seen."""
    build = built(tmp_path / "made", k_cu=CUDA_FILE, k_cpp=CPP_FILE.replace("MORE", ""))
    assert build.note is not None and build.note.headers == "light", build.log
    for entry in ("added", "solve"):
        values, operators, calls = loaded(build.artifact, entry)
        assert (values, operators) == ([11.0, 22.0, 33.0], ["of_tests::added"])
        assert isinstance(calls, list) and "operator empty_like" in calls and "operator added" not in calls


def test_an_implementation_alone_is_no_entry_and_is_built_once(tmp_path: Path) -> None:
    """Its operators are defined in a file that was not submitted; torch's own headers would say the same."""
    build = built(tmp_path / "made", k_cu=CUDA_FILE)
    assert build.artifact is None and "submit the file with TORCH_LIBRARY(name, m)" in build.log
    assert build.note is not None and (build.note.headers, build.note.fallback) == ("light", "")
