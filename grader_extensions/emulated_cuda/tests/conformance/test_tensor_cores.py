"""Wrong uses of tensor cores on the emulated device, and how fast it multiplies.  What they compute is in the programs."""

import signal
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, compile_emulated, run, timed_run

PROGRAM = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void k(half* a, float* c) {{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fa, half(1.0f));
    wmma::fill_fragment(fb, half(1.0f));
    wmma::fill_fragment(fc, 0.0f);
    {body}
}}
int main() {{
    half* a;
    float* c;
    cudaMalloc(&a, 4096);
    cudaMalloc(&c, 4096);
    k<<<1, {threads}>>>(a, c);
    return cudaDeviceSynchronize();
}}
"""
STOPPED = {
    "leading dimension": (
        "wmma::load_matrix_sync(fa, a, 20);",
        32,
        "the leading dimension is 20 elements; it must be a multiple of 8 (16 bytes)",
    ),
    "alignment": ("wmma::load_matrix_sync(fa, a + 8, 16);", 32, "the pointer must be a multiple of 32 bytes"),
    "different pointers": (
        "wmma::load_matrix_sync(fa, a + 16 * threadIdx.x, 16);",
        32,
        "the pointer and the leading dimension must be the same",
    ),
    "half a warp": ("wmma::mma_sync(fc, fa, fb, fc);", 16, "all 32 threads of the warp must execute it"),
    "an exited thread": (
        "if (threadIdx.x == 31) return; wmma::mma_sync(fc, fa, fb, fc);",
        32,
        "all 32 threads of the warp must execute it",
    ),
    "divergence": (
        "if (threadIdx.x < 31) wmma::mma_sync(fc, fa, fb, fc); else wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);",
        32,
        "another instruction",
    ),
}


@pytest.mark.parametrize(("body", "threads", "sentence"), STOPPED.values(), ids=list(STOPPED))
def test_a_wrong_use_of_a_fragment_stops_the_launch(body: str, threads: int, sentence: str, build: Build) -> None:
    """Each is undefined on a GPU: one line says what and where, and no result comes of it."""
    outcome = run(build(PROGRAM.format(body=body, threads=threads)))
    assert outcome.returncode == -signal.SIGABRT
    assert outcome.stderr.startswith("emulated device: wmma::")
    assert sentence in outcome.stderr and " in kernel k, block (0,0,0)" in outcome.stderr


@pytest.mark.parametrize(
    "fragment",
    [
        "wmma::matrix_a, 16, 16, 16, float, wmma::row_major",
        "wmma::matrix_a, 16, 16, 16, half",
        "wmma::matrix_b, 16, 8, 16, half, wmma::col_major",
    ],
)
def test_a_fragment_that_cuda_does_not_have_does_not_compile(fragment: str, tmp_path: Path) -> None:
    """The element type, the layout and the shape; nvcc calls the type incomplete as well."""
    text = PROGRAM.format(body=f"wmma::fragment<{fragment}> wrong;", threads=32)
    assert "incomplete type" in compile_emulated(text, tmp_path).stderr


def test_a_product_of_256_takes_under_a_second(build: Build) -> None:
    """16.8 million products, exactly those of Hopper's arithmetic; processor time of all threads, start included."""
    printed, seconds = timed_run(build(Path(__file__).parent / "programs" / "wmma_256.cu"))
    assert printed == "0 wrong\n" and seconds < 1
