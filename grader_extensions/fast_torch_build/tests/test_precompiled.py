"""Precompiled headers change the time of a build and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation, gcc
from sandbox.compilers import steps
from sandbox.compilers.headers import Headers
from sandbox.languages import torch_extension

EXTENSION = """#include <torch/extension.h>
__global__ void twice(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }
torch::Tensor forward(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda(), "not on the GPU: ", x.sizes());
    auto y = torch::empty_like(x);
    twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
RAW = '__global__ void one(float* x) { *x = 1; }\nextern "C" void solve(float* x) { one<<<1, 1>>>(x); }\n'
LIGHT = Headers(name="light")


@pytest.mark.slow
@pytest.mark.parametrize("text", [pytest.param(EXTENSION, id="torch"), pytest.param(RAW, id="raw")])
def test_an_artifact_has_the_same_functions_with_and_without(text: str, ready: Path, tmp_path: Path) -> None:
    """g++ may write them in another order, no more. That the one was read is seen from what g++ says it read."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/k.cu").write_text(text)
    (tmp_path / "translated").mkdir()
    (tmp_path / "translated/k.cu").write_text(emulation.translate(text, "k.cu"))
    ways = list(torch_extension.headers_of({"k.cu": text}, tmp_path / "headers", "emulated")) if text == EXTENSION else [Headers()]
    assert isinstance(ways[0], Headers)
    artifacts, sizes = {}, {}
    for name, place in (("with", ready), ("without", tmp_path / "nowhere")):
        (tmp_path / name).mkdir()
        compiler = gcc.Emulated(files=tmp_path / "files", translated=tmp_path / "translated", sources={"k.cu": text}, ready=place)
        (tmp_path / name / "0").mkdir()
        (step,) = compiler.compile("k.cu", 0, ways[0], tmp_path / name)
        ran = steps.run([step], tmp_path / name)
        assert ran.succeeded, ran.log
        sizes[name] = (tmp_path / name / steps.object_name(0)).stat().st_size
        linked = steps.run(compiler.link([steps.object_name(0)], [], "artifact", tmp_path / name), tmp_path / name)
        assert linked.succeeded, linked.log
        artifacts[name] = _symbols(tmp_path / name / "artifact")
        read = steps.run([_that_names_what_it_reads(step)], tmp_path / name)
        assert any(line.startswith("! ") and line.endswith(".gch") for line in read.log.splitlines()) is (name == "with")
    assert len(artifacts["with"]) > 10
    assert artifacts["with"] == artifacts["without"]
    assert sizes["with"] < sizes["without"]  # the device is in an object of its own


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """A directory in which every compiled header has its name."""
    for name in gcc.HEADER_TEXTS:
        (tmp_path / f"{name}{gcc.PRECOMPILED_SUFFIX}").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "text", "headers", "header"),
    [
        ("k.cu", EXTENSION, LIGHT, gcc.TORCH_HEADER),
        ("k.cpp", EXTENSION, LIGHT, gcc.TORCH_HEADER),
        ("k.cu", EXTENSION, Headers(name="full"), gcc.CUDA_HEADER),
        ("k.cu", RAW, Headers(), gcc.CUDA_HEADER),
        ("k.cu", RAW, LIGHT, gcc.CUDA_HEADER),
        ("k.cu", f"#define NDEBUG\n{EXTENSION}", LIGHT, gcc.CUDA_HEADER),
        ("k.cu", f"#ifdef A\n{EXTENSION}\n#endif", LIGHT, gcc.CUDA_HEADER),
        ("k.cpp", "#include <torch/torch.h>\n", LIGHT, None),
        ("k.cpp", "int x;\n", Headers(), None),
    ],
)
def test_a_source_gets_the_one_that_it_begins_with(path: str, text: str, headers: Headers, header: str | None, listed: Path) -> None:
    """A macro that stands before the includes could change them, and a C++ file of torch's own headers knows no CUDA."""
    flags = gcc.precompiled_flags(path, text, headers, listed)
    assert flags == ([] if header is None else [gcc.WITH_OBJECT, "-include", str(listed / header)])
    assert gcc.precompiled_flags(path, text, headers, listed / "nowhere") == []


@pytest.mark.parametrize(
    ("macro", "used"), [("TILE", True), ("_GLIBCXX_DEBUG", False), ("run_launch", False), ("fibers_", False), ("blockIdx", False)]
)
def test_a_macro_that_may_change_the_device_has_it_compiled_with_the_source(macro: str, used: bool, listed: Path) -> None:
    """The object was made without it: a container of another size, or a function of another name, would not fit."""
    flags = gcc.precompiled_flags("k.cu", RAW, Headers(requested_macros=frozenset({"OTHER", macro})), listed)
    assert bool(flags) is used


SHARED = """#include <cstdio>
__global__ void k(float* x) { __shared__ float s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); x[threadIdx.x] = s[63 - threadIdx.x]; }
int main() { float* x; cudaMalloc(&x, 256); k<<<4, 64>>>(x); printf("%d %g", int(cudaDeviceSynchronize()), x[3]); }
"""


@pytest.mark.parametrize(
    ("macro", "requested", "built"),
    [("run_launch=renamed", True, True), ("_GLIBCXX_DEBUG", True, True), ("run_launch=renamed", False, False)],
)
def test_a_source_that_changes_the_device_is_built_with_its_own(
    macro: str, requested: bool, built: bool, ready: Path, tmp_path: Path
) -> None:
    """Under another name, or with containers of another size, which the object would take for its own. The control: where
    the rule for macros is not told, the source only declares what it has renamed, and a part of the device is missing."""
    (tmp_path / "k.cu").write_text(emulation.translate(SHARED, "k.cu"))
    headers = Headers(defines=(macro,), requested_macros=frozenset({macro.partition("=")[0]} if requested else ()))
    words = [*gcc.flags(headers), *gcc.precompiled_flags("k.cu", SHARED, headers, ready)]
    command = ["g++", *words, "k.cu", "-x", "none", *gcc.precompiled_objects(ready), "-o", "program"]
    compiled = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (compiled.returncode == 0) is built, compiled.stderr
    if built:
        assert subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "0 60"
    else:
        assert "undefined reference" in compiled.stderr


def _symbols(path: Path) -> set[tuple[str, ...]]:
    """Names and kinds of what the artifact gives and wants; a copy of an inline function is there or not as g++ likes."""
    listed = subprocess.run(["nm", "-D", "--format=posix", str(path)], capture_output=True, text=True, check=True).stdout
    return {tuple(line.split()[:2]) for line in listed.splitlines() if line.split()[1] not in "WwVvu"}


def _that_names_what_it_reads(step: steps.CompilerStep) -> steps.CompilerStep:
    return steps.CompilerStep(command=(*step.command, "-H"), directory=step.directory, outputs=step.outputs)
