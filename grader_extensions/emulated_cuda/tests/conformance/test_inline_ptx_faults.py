"""Wrong inline PTX on the emulated device: what a GPU leaves undefined or ends the launch for must not look right."""

import signal
import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, compile_emulated, run

pytestmark = pytest.mark.slow  # a second of g++ each

HEAD = """
#include <cstdint>
#include <cstdio>
__device__ uint32_t at(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
"""
MAIN = """
int main() {
    float h[64], *x;
    for (int i = 0; i < 64; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    k<<<1, 32, 64>>>(x);
}
"""


def launch(build: Build, kernel: str) -> subprocess.CompletedProcess[str]:
    return run(build(f"{HEAD}__global__ void k(float* x) {{ __shared__ float s[64]; {kernel} }}\n{MAIN}"))


COPY = 'asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at(&s[threadIdx.x])), "l"(x + threadIdx.x)); '
COMMIT = 'asm volatile("cp.async.commit_group;"); '


@pytest.mark.parametrize(
    ("waits", "value"),
    [("", "nan"), ('asm volatile("cp.async.wait_group 1;");', "nan"), ('asm volatile("cp.async.wait_group 0;");', "3")],
    ids=["no wait", "a wait for older groups", "a wait for all"],
)
def test_a_copy_that_nobody_waited_for_reads_as_nan(waits: str, value: str, build: Build) -> None:
    """A copy is made when its thread waits, and not before."""
    outcome = launch(build, f'{COPY}{COMMIT}{waits} if (threadIdx.x == 3) printf("%g\\n", fabs(s[3]));')
    assert (outcome.returncode, outcome.stdout) == (0, f"{value}\n")


MATRIX = 'uint32_t r; asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(at(s) + OFFSET));'
FAULTS = {
    "a vector that is not aligned": 'asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at(s) + 4), "f"(1.0f));',
    "a copy that is not aligned": 'asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(at(s)), "l"(x + 1));',
    "a copy of a size that it has not": 'asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" ::"r"(at(s)), "l"(x));',
    "a matrix row that is not aligned": MATRIX.replace("OFFSET", "4"),
    "a matrix without some lanes": "if (threadIdx.x > 3) return; " + MATRIX.replace("OFFSET", "0"),
    "a barrier of no number": 'asm volatile("bar.sync 16, 32;");',
    "a barrier of part of a warp": 'asm volatile("bar.sync 1, 33;");',
}


@pytest.mark.parametrize("kernel", FAULTS.values(), ids=list(FAULTS))
def test_what_the_device_ends_the_launch_for_aborts_with_a_line(kernel: str, build: Build) -> None:
    """The line names the fault and the thread."""
    outcome = launch(build, kernel)
    assert outcome.returncode == -signal.SIGABRT
    assert outcome.stderr.startswith("emulated device: ") and "in kernel k, block (0,0,0) thread (" in outcome.stderr


@pytest.mark.parametrize("offset", ["0", "4096 * 1000", "at(s) + 4 * (threadIdx.x + 64)"], ids=["null", "far away", "one behind the end"])
def test_a_shared_address_out_of_range_is_a_fault(offset: str, build: Build) -> None:
    """Static shared memory ends at an unmapped page for 32-bit addresses too."""
    outcome = launch(build, f'asm volatile("st.shared.f32 [%0], %1;" ::"r"(static_cast<uint32_t>({offset})), "f"(1.0f));')
    assert outcome.returncode == -signal.SIGSEGV
    assert outcome.stderr == "emulated device: illegal address in kernel k, block (0,0,0) thread (0,0,0)\n"


def test_an_output_that_no_instruction_wrote_is_nan(build: Build) -> None:
    """An output under a predicate that does not hold must not keep an old value."""
    asm = 'asm("{ .reg .pred p; setp.eq.u32 p, %1, 99; @p mov.f32 %0, 0f00000000; }" : "=f"(y) : "r"(threadIdx.x));'
    outcome = launch(build, f'float y = 5; {asm} if (threadIdx.x == 0) printf("%d\\n", isnan(y));')
    assert outcome.stdout == "1\n"


def test_dynamic_shared_memory_has_the_alignment_that_it_asks_for(build: Build) -> None:
    """Swizzled layouts are worked out from the bits of the address."""
    kernel = 'extern __shared__ __align__(1024) char d[]; if (threadIdx.x == 0) printf("%u %d\\n", at(d) % 1024, __isShared(d));'
    assert launch(build, kernel).stdout == "0 1\n"


def test_an_operand_of_the_wrong_size_does_not_compile(tmp_path: Path) -> None:
    """As with nvcc."""
    text = '__global__ void k(double* x) { asm("add.f32 %0, %0, %0;" : "+f"(*x)); }\nint main() {}\n'
    assert "the size of an asm operand does not fit its constraint" in compile_emulated(text, tmp_path).stderr
