"""Output of CUDA programs on the emulated device.  features.toml names the GPU that printed each `.expected`."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, compile_emulated, program_of, run, timed_run

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*.cu"), key=lambda path: path.name)
COMPARED_ELSEWHERE = [*sorted((HERE / "programs").glob("*.cu")), *sorted((HERE / "sanitizer").glob("*.cu"))]
NVCC = shutil.which("nvcc")
# One of each kind is in `make check`; the rest takes g++ two minutes and is in `make test`.
QUICK = {"vector_add", "tiled_matmul", "divergent_barriers", "warp_shuffle", "half_precision"}
MARKED = [
    *(pytest.param(path, id=path.stem) for path in PROGRAMS if path.stem in QUICK),
    *(pytest.param(path, id=path.stem, marks=pytest.mark.slow) for path in PROGRAMS if path.stem not in QUICK),
]


@pytest.mark.parametrize("source", MARKED)
def test_the_emulated_device_prints_what_the_gpu_prints(source: Path, build: Build) -> None:
    """A program of one feature prints the same lines, also thread by thread, where the device else loops over the threads of a block."""
    program, expected = build(source), source.with_suffix(".expected").read_text()
    for outcome in (run(program), run(program, GRADER_EMULATED_BLOCK_LOOPS=0)):
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert outcome.stdout == expected


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not on this machine")
@pytest.mark.parametrize("source", [*PROGRAMS, *COMPARED_ELSEWHERE], ids=lambda path: path.stem)
def test_the_program_is_cuda_to_nvcc_too(source: Path, tmp_path: Path) -> None:
    """A program that only the emulated device accepts would prove nothing."""
    lambdas = ["--extended-lambda"] if "--extended-lambda" in source.read_text() else []
    nested = ["-rdc=true"] if "-rdc=true" in source.read_text() else []
    command = [str(NVCC), "-std=c++20", "-arch=sm_90", "-w", *lambdas, *nested, "-c", str(source), "-o", str(tmp_path / "object.o")]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "curand" in source.name and "curand_kernel.h: No such file" in outcome.stderr:
        pytest.skip("this toolkit is without cuRAND")
    assert outcome.returncode == 0, outcome.stderr


LIMITS = """extern "C" const char* grader_take_cuda_error();
__global__ void k() {}
int main() {
    const dim3 grids[] = {1, dim3(1, 70000), 1, 0, 1, 1}, blocks[] = {2048, 32, 32, 32, dim3(1, 1, 65), 32};
    for (int i = 0; i < 6; ++i) {
        k<<<grids[i], blocks[i], i == 2 ? 65536 : 0>>>();
        puts(grader_take_cuda_error());
    }
    k<<<1, 2048>>>();
    cudaGetLastError();
    cudaMemcpy(nullptr, nullptr, 4, cudaMemcpyDefault);
    puts(grader_take_cuda_error());
}
"""


@pytest.mark.slow
def test_a_launch_that_can_not_be_says_which_limit_it_breaks(tmp_path: Path) -> None:
    """To the runner, behind the error's text; a launch that can be and another call's error say nothing of it."""
    limits = [
        " (2048 threads in a block; at most 1024)",
        " (70000 blocks in y and 1 in z; at most 65535)",
        " (65536 bytes of dynamic shared memory; 49152 without cudaFuncSetAttribute, and at most 232448)",
        " (no threads in a block, or no blocks)",
        " (65 threads of a block in z; at most 64)",
    ]
    failed = "cudaErrorInvalidValue: invalid argument"
    assert run(program_of(LIMITS, tmp_path)).stdout.split("\n") == [*(failed + limit for limit in limits), "", failed, ""]


FAULTS = {
    "shared memory": ("__shared__ int s[32]; s[threadIdx.x * 40] = 1; x[0] = s[0];", "illegal address", "thread (1,0,0)"),
    "dynamic shared memory": ("extern __shared__ int s[]; s[threadIdx.x + 5] = 1; x[0] = s[0];", "illegal address", "thread (11,0,0)"),
    "device memory": ("x[(threadIdx.x + 1) * 100] = 1;", "illegal address", "thread (0,0,0)"),
    "the host's null": ("int* volatile nowhere = nullptr; if (threadIdx.x == 3) *nowhere = 1;", "illegal address", "thread (3,0,0)"),
    "a thread's stack": ("volatile int big[1 << 17]; big[0] = 1; x[0] = big[0];", "illegal address", "thread (0,0,0)"),
}


@pytest.fixture(scope="module")
def straying(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that launches the kernel of the number that it is given."""
    directory = tmp_path_factory.mktemp("straying")
    kernels = "".join(f"__global__ void stray{index}(int* x) {{ {body} }}\n" for index, (body, _, _) in enumerate(FAULTS.values()))
    cases = "".join(f"case {index}: stray{index}<<<1, 32, 64>>>(x); break; " for index in range(len(FAULTS)))
    main = f"int main(int, char** words) {{ int* x; cudaMalloc(&x, 128); switch (words[1][0] - '0') {{ {cases} }} }}\n"
    return program_of(kernels + main, directory)


@pytest.mark.parametrize(("number", "where"), list(enumerate(FAULTS)), ids=list(FAULTS))
def test_an_access_out_of_range_dies_of_sigsegv_and_says_where(number: int, where: str, straying: Path) -> None:
    """The signal is not hidden, and one line names kernel, block and thread."""
    _, fault, thread = FAULTS[where]
    outcome = run(straying, number)
    assert outcome.returncode == -signal.SIGSEGV
    assert outcome.stderr == f"emulated device: {fault} in kernel stray{number}, block (0,0,0) {thread}\n"


@pytest.mark.parametrize(
    ("body", "ends", "words"),
    [
        ("*x = 1;", signal.SIGSEGV, ""),
        ("if (threadIdx.x == 2) __trap();", signal.SIGABRT, "emulated device: __trap() in kernel k, block (0,0,0) thread (2,0,0)\n"),
        (
            "if (threadIdx.x == 2) LAUNCH();",
            signal.SIGABRT,
            "launched by a kernel, which is not emulated in kernel k, block (0,0,0)\n",
        ),
        ("\nassert(x == nullptr);", signal.SIGABRT, "kernel.cu:4"),
    ],
    ids=["a use after cudaFree", "a trap", "a launch that a macro hides from the translator", "an assert"],
)
def test_a_kernel_that_ends_the_process_says_where(body: str, ends: signal.Signals, words: str, build: Build) -> None:
    """As it ends the context on a GPU; freed memory has no old value."""
    main = "int main() { int* x; cudaMalloc(&x, 4); cudaFree(x); k<<<1, 4>>>(x); }"
    launch = "#define LAUNCH() child<<<1, 1>>>()\n__global__ void child() {}"
    outcome = run(build(f"#include <cassert>\n{launch} __global__ void k(int* x) {{ {body} }}\n{main}\n"))
    assert outcome.returncode == -ends and words in outcome.stderr


POISON = """
#include <cstdio>
__global__ void dirty() { __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads(); }
__global__ void unwritten(float* x, int n) {
    __shared__ float s[64];
    extern __shared__ double d[];
    if (threadIdx.x < 32) s[threadIdx.x] = 1;
    __syncthreads();
    if (threadIdx.x == 0) printf("%d %d %d %d\\n", s[0] == 1, isnan(s[63]), isnan(d[0]), isnan(x[n - 1]));
}
int main() {
    float* x;
    cudaMalloc(&x, 404);
    dirty<<<3, 64>>>();
    unwritten<<<1, 64, 80>>>(x, 101);
}
"""


def test_memory_that_nobody_wrote_is_nan(build: Build) -> None:
    """Values that an earlier block or allocation left behind must not make a wrong kernel right."""
    assert run(build(POISON)).stdout == "1 1 1 1\n"


def test_barriers_in_divergent_code_end_in_a_wrong_answer(build: Build) -> None:
    """Tiles with a barrier inside a loop whose bounds differ per thread: it ends, and C is not the product."""
    assert run(build(HERE / "programs" / "divergent_sync.cu")).stdout == "wrong\n"


@pytest.mark.slow
def test_a_matmul_of_256_takes_under_two_seconds(build: Build) -> None:
    """Shared-memory tiles with two barriers a step, and the naive kernel: the figure that DESIGN promises, start included. Of processor
    time, of all threads together, which is no less than it takes where nothing else runs."""
    printed, seconds = timed_run(build(HERE / "programs" / "matmul_256.cu"))
    assert printed == "tiled ok\nnaive ok\n" and seconds < 2


def test_a_library_launches_from_any_number_of_threads(build: Build) -> None:
    """GRADER_EMULATED_THREADS changes who runs the blocks, not what they compute."""
    program = build(HERE / "shared_per_block.cu")
    for threads in ("1", "2", "7"):
        assert run(program, GRADER_EMULATED_THREADS=threads).stdout == "0 wrong\n"


def test_a_process_forked_after_a_launch_launches_too(build: Build) -> None:
    """A child has none of its parent's threads; it makes its own."""
    source = """
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>
__global__ void add(int* x) { atomicAdd(x, 1); }
int total() {
    int h, *x;
    cudaMalloc(&x, 4);
    cudaMemset(x, 0, 4);
    add<<<100, 3>>>(x);
    cudaMemcpy(&h, x, 4, cudaMemcpyDeviceToHost);
    return h;
}
int main() {
    printf("%d\\n", total());
    fflush(stdout);
    if (fork() == 0) { printf("%d\\n", total()); fflush(stdout); _exit(0); }
    wait(nullptr);
}
"""
    assert run(build(source)).stdout == "300\n300\n"


def test_the_compiler_names_the_users_line(tmp_path: Path) -> None:
    """An error behind rewritten lines is reported where the user wrote it, with the user's own text."""
    text = "__global__ void k(float* x) {\n  __shared__ float s[4];\n  extern __shared__ float d[];\n  s[0] = d[0];\n}\n"
    outcome = compile_emulated(text + "int main() {\n  k<<<1, 1>>>(nothing);\n}\n", tmp_path)
    assert "kernel.cu:7:" in outcome.stderr and "'nothing' was not declared" in outcome.stderr.replace("‘", "'").replace("’", "'")
    assert "k<<<1, 1>>>(nothing);" in outcome.stderr


def test_more_than_48_kib_of_static_shared_memory_does_not_compile(tmp_path: Path) -> None:
    """As with ptxas."""
    text = "__global__ void k(float* x) { __shared__ float s[12289]; s[0] = *x; }\nint main() {}\n"
    assert "uses too much shared data" in compile_emulated(text, tmp_path).stderr


NAN_COMPARISONS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdio>
__global__ void k() {{
    {type} nan = {type}(nanf("")), one = {type}(1.0f), two = {type}(2.0f);
    {type}2 pair(nan, two), ones(one, one);
    printf("%d%d%d%d%d%d ", __heq(nan, one), __hne(nan, one), __hlt(nan, one), __hle(nan, one), __hgt(nan, one), __hge(nan, one));
    printf("%d%d%d%d%d%d ", __hequ(nan, one), __hneu(nan, one), __hltu(nan, one), __hleu(nan, one), __hgtu(nan, one), __hgeu(nan, one));
    printf("%d%d %08x %08x ", nan == one, nan != one, __hgt2_mask(pair, ones), __hgtu2_mask(pair, ones));
    printf("%d %d\\n", __hbgt2(pair, ones), __hbgtu2(pair, ones));
}}
int main() {{
    k<<<1, 1>>>();
    cudaDeviceSynchronize();
}}
"""


@pytest.mark.parametrize("type_name", ["__half", "__nv_bfloat16"])
def test_a_comparison_with_nan_is_false_unless_it_is_unordered(type_name: str, build: Build) -> None:
    """By the CUDA Math API. `__hne` too is false; the operator != is not."""
    assert run(build(NAN_COMPARISONS.format(type=type_name))).stdout == "000000 111111 01 ffff0000 ffffffff 0 1\n"
