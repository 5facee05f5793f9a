"""Accesses that the emulated device's sanitizer counts per source line, of programs whose counts are known."""

import re
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.sanitizer_log import read_counts
from grader_extensions.emulated_cuda.tests.conformance.conftest import compile_sanitized, kernel_file, run
from sandbox.protocol.wire import AccessCounts, LineCounts, MemoryAccess

pytestmark = pytest.mark.slow  # seconds of g++ each

PROGRAMS = Path(__file__).parent / "programs"
COUNTS = ("requests", "transactions", "least_transactions", "active_lanes", "requested_bytes")
EXPECTED = re.compile(r"((?:global|shared)_(?:load|store|atomic)) (\d+) (\d+) (\d+) (\d+) (\d+)")


def counts_of(source: Path, folder: Path) -> AccessCounts:
    """Build the program, run it, and read what was counted."""
    program, log = compile_sanitized(source, folder), folder / "log"
    assert run(program, GRADER_SANITIZER_LOG=log).returncode == 0
    counts = read_counts(log, program)
    assert counts is not None
    return counts


def expected_lines(program: Path) -> set[LineCounts]:
    """Return the lines of the program's comments."""
    return {
        LineCounts(path=program.name, line=number, access=MemoryAccess(access), **dict(zip(COUNTS, map(int, numbers), strict=True)))
        for number, text in enumerate(program.read_text().splitlines(), start=1)
        for access, *numbers in EXPECTED.findall(text)
    }


@pytest.mark.parametrize(("name", "counted_blocks", "blocks"), [("access_counts.cu", 17, 142), ("shared_vectors.cu", 3, 3)])
def test_counts_of_each_line_are_those_of_a_gpu(name: str, counted_blocks: int, blocks: int, tmp_path: Path) -> None:
    """Sectors, passes, lanes and bytes: coalesced, strided, vectors, bank conflicts, divergence, atomics, loops; no line more or less."""
    counts = counts_of(PROGRAMS / name, tmp_path)
    assert set(counts.lines) == expected_lines(PROGRAMS / name)
    assert (counts.counted_blocks, counts.blocks, counts.partial) == (counted_blocks, blocks, False)


LONG = """
__global__ void sum(const float* in, float* out, int n) {
    float all = 0;
    for (int i = 0; i < n; ++i) all += in[threadIdx.x % 32];
    out[threadIdx.x] = all;
}
int main() {
    float *in, *out;
    cudaMalloc(&in, 128), cudaMalloc(&out, 1024);
    cudaMemset(in, 0, 128);
    sum<<<1, 256>>>(in, out, COUNT);
    return cudaDeviceSynchronize();
}
"""


@pytest.mark.parametrize(("count", "partial"), [(20_000, False), (40_000, True)])
def test_a_long_interval_is_counted_as_far_as_the_table_reaches(count: int, partial: bool, tmp_path: Path) -> None:
    """The table holds one warp of the first kernel, but not two; of the second not even one."""
    counts = counts_of(kernel_file(LONG.replace("COUNT", str(count)), tmp_path), tmp_path)
    (load,) = (line for line in counts.lines if line.line == 4)
    assert counts.partial is partial
    assert load.requests == 8 * 20_000 if not partial else 8 * 30_000 < load.requests < 8 * 40_000
    assert (load.transactions, load.active_lanes) == (4 * load.requests, 32 * load.requests)
