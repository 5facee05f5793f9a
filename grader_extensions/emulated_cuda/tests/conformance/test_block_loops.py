"""Kernels as loops over the threads of a block do what they do thread by thread."""

from pathlib import Path

from grader_extensions.emulated_cuda import emulation, gcc
from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, run

HERE = Path(__file__).parent
FORMS = HERE / "programs" / "block_loops.cu"


def printed(program: Path, *, block_loops: bool) -> str:
    outcome = run(program, GRADER_EMULATED_BLOCK_LOOPS=int(block_loops))
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def test_every_form_does_the_same_with_both_bodies(build: Build) -> None:
    """Nine kernels: private variables, moved pointers, ways out, conditions and loops around barriers."""
    program = build(FORMS)
    loops = printed(program, block_loops=True)
    assert len(loops.splitlines()) == 10 and loops == printed(program, block_loops=False)
    assert FORMS.read_text().count("__global__") == emulation.translate(FORMS.read_text(), "k.cu").count(emulation.SECOND_BODY)


TIGHT = """
#include <cstdio>
__global__ void numbers(int* x){int i=threadIdx.x;x[i]=i;}
__global__ void turned(int* x){extern __shared__ int s[];s[threadIdx.x]=x[threadIdx.x];
__syncthreads();x[threadIdx.x]=s[blockDim.x-1-threadIdx.x];}
__global__ void twice(int* x){__shared__ int s[8];s[threadIdx.x]=x[threadIdx.x];__syncthreads();x[threadIdx.x]+=s[threadIdx.x];}
__global__ void parted(int* x){if(threadIdx.x<4)return;x[threadIdx.x]+=100;}
int main() {
    int* x;
    cudaMalloc(&x, 32);
    numbers<<<1, 8>>>(x);
    turned<<<1, 8, 32>>>(x);
    twice<<<1, 8>>>(x);
    parted<<<1, 8>>>(x);
    for (int i = 0; i < 8; ++i) printf("%d ", x[i]);
}
"""


def test_a_body_may_begin_right_behind_its_brace(build: Build) -> None:
    """Inserted text keeps apart from the first word, and from what else is inserted."""
    assert emulation.translate(TIGHT, "k.cu").count(emulation.SECOND_BODY) == 4
    program = build(TIGHT)
    for block_loops in (True, False):
        assert printed(program, block_loops=block_loops) == "14 12 10 8 106 104 102 100 "


ADDRESSES = """
#include <cstdio>
__global__ void k(unsigned long long* first, unsigned long long* second) {
    int here = 0;
    unsigned long long* mine = reinterpret_cast<unsigned long long*>(&here);
    (threadIdx.x == 0 ? first : second)[0] = reinterpret_cast<unsigned long long>(mine);
    __syncthreads();
    here += 1;
}
int main() {
    unsigned long long *a, *b;
    cudaMalloc(&a, 8);
    cudaMalloc(&b, 8);
    k<<<1, 2>>>(a, b);
    printf("%lld\\n", static_cast<long long>(*b - *a));
}
"""


def test_the_second_body_runs_unless_it_is_switched_off(build: Build) -> None:
    """In it a variable of two threads is an array of two; in the first body it lies on two stacks."""
    program = build(ADDRESSES)
    assert printed(program, block_loops=True) == "4\n"
    assert abs(int(printed(program, block_loops=False))) > 4096
    assert abs(int(printed(build(ADDRESSES, gcc.WITHOUT_ADDITIONS), block_loops=True))) > 4096


CRASH = """
__global__ void k(int* a) {
    a[threadIdx.x == 5 ? 1 << 26 : 0] = 1;
    __syncthreads();
}
int main() {
    int* a;
    cudaMalloc(&a, 4);
    k<<<2, 32>>>(a);
    return cudaDeviceSynchronize();
}
"""


def test_a_fault_names_no_thread_that_is_not_known(build: Build) -> None:
    """The block is right; the sanitizer has the thread."""
    outcome = run(build(CRASH))
    assert outcome.returncode == -11
    assert any(f"illegal address in kernel k, block ({block},0,0)\n" in outcome.stderr for block in (0, 1))
