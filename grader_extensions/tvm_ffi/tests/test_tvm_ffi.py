"""Kernels that TVM-FFI binds are built, loaded and judged; here on the emulated device."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from grader.formats import native
from grader.intake.gate import detect, missing_entry
from grader.model import SourceFile
from grader_extensions.tvm_ffi import language
from sandbox.compilers.steps import Unsupported
from sandbox.protocol import wire
from tests.local_grading import graded, local_fleet

pytestmark = pytest.mark.skipif(find_spec("tvm_ffi") is None, reason="tvm_ffi is not installed")  # it imports torch
PROBLEM = native.load(Path(__file__).parents[3] / "kernels_examples" / "vector_add")
KERNEL = """
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace ffi = tvm::ffi;

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

void launch(ffi::TensorView a, ffi::TensorView b, ffi::TensorView c) {
    TVM_FFI_ICHECK(a.device().device_type == kDLCUDA) << "not on a GPU";
    const int64_t n = c.size(0);
    auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(a.device().device_type, a.device().device_id));
    add<<<(n + 255) / 256, 256, 0, stream>>>(
        static_cast<const float*>(a.data_ptr()), static_cast<const float*>(b.data_ptr()), static_cast<float*>(c.data_ptr()), n);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, launch);
"""
EXPORT = KERNEL.splitlines()[-1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet() -> AsyncIterator[LocalFleet]:
    """On the best isolation that works here."""
    async with local_fleet("auto") as instance:
        yield instance


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("old", "replacement", "verdict", "words"),
    [
        ("", "", "ACCEPTED", ""),
        ("FUNC(run,", "FUNC(any_name,", "ACCEPTED", ""),
        ("a[i] + b[i]", "a[i] - b[i]", "WRONG_ANSWER MISMATCH", ""),
        ("if (i < n) c", "if (i < n - 1) c", "WRONG_ANSWER UNWRITTEN_OUTPUT", ""),
        ("== kDLCUDA", "== kDLCPU", "RUNTIME_ERROR RAISED", "not on a GPU"),
        (", ffi::TensorView c) {", ", ffi::TensorView c, int64_t axis) {", "RUNTIME_ERROR RAISED", "argument"),
        (EXPORT, "", "COMPILE_ERROR ENTRY_NOT_FOUND", "add TVM_FFI_DLL_EXPORT_TYPED_FUNC(solve, function)"),
        (EXPORT, EXPORT.replace("run", "first") + EXPORT.replace("run", "second"), "COMPILE_ERROR ENTRY_NOT_FOUND", "first, second"),
    ],
    ids=["as it is", "the only function", "wrong", "unwritten", "its own check", "another parameter", "no function", "two functions"],
)
async def test_a_kernel_gets_inputs_then_outputs(fleet: LocalFleet, old: str, replacement: str, verdict: str, words: str) -> None:
    """And the verdict that it deserves, with its own words."""
    assert old in KERNEL
    report, _ = await graded(fleet, PROBLEM, {"kernel.cu": KERNEL.replace(old, replacement, 1) if old else KERNEL})
    text = f"{report.summary} {report.build.log if report.build else ''}"
    assert f"{report.verdict.value} {report.reason}".startswith(verdict), text
    assert words in text


def test_the_language_is_known_by_its_headers() -> None:
    """Not by a comment; and no C linkage is asked for."""
    source = SourceFile(path="kernel.cu", content=KERNEL)
    assert detect((source,)) == "tvm_ffi" and missing_entry("tvm_ffi", (source,), "run") is None
    assert detect((SourceFile(path="kernel.cu", content="// #include <tvm/ffi/function.h>\n"),)) == "cuda"


def test_a_box_without_the_package_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what the device lacks, not as a fault of the source."""
    monkeypatch.setattr(language, "find_spec", lambda name: None)
    job = wire.BuildJob(language="tvm_ffi", entry="run", device_kind="cuda", sources=("kernel.cu",))
    with pytest.raises(Unsupported, match="is not installed here"):
        list(language.headers(job, {"kernel.cu": KERNEL}, tmp_path))
