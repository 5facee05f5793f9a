"""How many floating-point operations the emulated device's sanitizer counts per source line, of a program whose number is known."""

import re
import subprocess
from pathlib import Path

from grader_extensions.emulated_cuda.sanitizer_log import flops_per_line
from grader_extensions.emulated_cuda.tests.conformance.conftest import kernel_file
from grader_extensions.emulated_cuda.tests.conformance.test_access_counts import counts_of
from sandbox.protocol.wire import LineFlops

PROGRAM = Path(__file__).parent / "programs" / "flops.cu"
EXPECTED = re.compile(r"// flops (\d+)$")


def test_operations_of_each_line_are_exact(tmp_path: Path) -> None:
    """Loops, branches, fma, divisions, operations that become one instruction with a conversion, templates, functions; no line more.

    The product of 8 x 16 and 16 x 16 numbers takes 2 * 8 * 16 * 16."""
    expected = {
        LineFlops(path=PROGRAM.name, line=number, flops=int(match[1]))
        for number, text in enumerate(PROGRAM.read_text().splitlines(), start=1)
        if (match := EXPECTED.search(text))
    }
    found = counts_of(PROGRAM, tmp_path)
    assert set(found.flops) == expected
    assert not found.partial


SAMPLED = """
__global__ void scale(float* x) {
    x[blockIdx.x] = x[blockIdx.x] * 2.5f;
}
int main() {
    float* x;
    cudaMalloc(&x, 1024);
    cudaMemset(x, 0, 1024);
    scale<<<64, 1>>>(x);
    return cudaDeviceSynchronize();
}
"""


def test_operations_are_of_the_blocks_that_are_counted(tmp_path: Path) -> None:
    """Not of the other blocks of a large launch."""
    found = counts_of(kernel_file(SAMPLED, tmp_path), tmp_path)
    assert 1 < found.counted_blocks < found.blocks == 64
    assert found.flops == (LineFlops(path="kernel.cu", line=3, flops=found.counted_blocks),)


BLOCKS = """
    .file 1 "k.cu"
    .text
    .globl __sanitizer_cov_trace_pc
    .hidden __sanitizer_cov_trace_pc
    .type __sanitizer_cov_trace_pc, @function
__sanitizer_cov_trace_pc:
    ret

    .globl k
    .type k, @function
k:
    call __sanitizer_cov_trace_pc
    .globl either
either:
    .loc 1 2
    addss %xmm0, %xmm1
    test %eax, %eax
    je 1f
    .loc 1 3
    mulss %xmm0, %xmm1
    jmp 2f
1:  .loc 1 4
    divsd %xmm0, %xmm1
2:  .loc 1 5
    subsd %xmm0, %xmm1
    call __sanitizer_cov_trace_pc
    .globl loops
loops:
    .loc 1 6
    addss %xmm0, %xmm1
    dec %eax
    jne loops
    ret
"""


def test_only_what_every_path_through_a_block_passes_is_counted(tmp_path: Path) -> None:
    """Neither side of a branch without blocks of its own, nor a loop without one."""
    source, library = tmp_path / "k.s", tmp_path / "k.so"
    source.write_text(BLOCKS)
    subprocess.run(["gcc", "-shared", "-nostdlib", "-x", "assembler", str(source), "-o", str(library)], check=True, timeout=300)
    names = subprocess.run(["nm", str(library)], check=True, timeout=300, capture_output=True, text=True).stdout
    at = {name: int(address, 16) for address, _, name in (line.split() for line in names.splitlines())}
    assert flops_per_line(library, {at["either"]: 7, at["loops"]: 9}) == {("k.cu", 2): 7, ("k.cu", 5): 7}
    assert flops_per_line(library, {at["either"] + 1: 7}) == {}


def test_what_is_no_library_has_no_operations(tmp_path: Path) -> None:
    """It comes from the kernel's own process."""
    (tmp_path / "text").write_text("no ELF")
    assert flops_per_line(tmp_path / "text", {64: 7}) == flops_per_line(tmp_path / "missing", {64: 7}) == {}
