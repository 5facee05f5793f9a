"""Kernels launched by kernels on the emulated device: limits, errors and faults, and what a child sees."""

import signal

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, run

pytestmark = pytest.mark.slow  # two seconds of g++ each

HEAD = """
#include <cooperative_groups.h>
#include <cstdio>
__global__ void add(int* x, int value) { atomicAdd(x, value); }
int* counters() {
    int* x;
    cudaMalloc(&x, 64);
    cudaMemset(x, 0, 64);
    return x;
}
void say(int* x) {
    cudaError_t error = cudaDeviceSynchronize();
    printf("%d %s %s\\n", x[0], cudaGetErrorName(static_cast<cudaError_t>(x[1])), cudaGetErrorName(error));
}
"""


PROGRAMS = {
    # The last grid's thread gets the error, and the host none. A chain that ends before is the control.
    "a kernel that launches itself ends at the 24th level": (
        """
__global__ void nested(int* x, int left) {
    x[0] += 1;
    if (left == 0) return;
    nested<<<1, 1>>>(x, left - 1);
    if (cudaError_t error = cudaGetLastError()) x[1] = error;
}
int main() {
    int *all = counters(), *some = counters();
    nested<<<1, 1>>>(all, -1);
    say(all);
    nested<<<1, 1>>>(some, 24);
    say(some);
}
""",
        "25 cudaErrorLaunchMaxDepthExceeded cudaSuccess\n25 cudaSuccess cudaSuccess\n",
    ),
    # The others are errors of the launching thread, until the host raises the limit.
    "as many launches wait as the limit says": (
        """
__global__ void many(int* x, int count) {
    for (int i = 0; i < count; ++i) add<<<1, 1>>>(x, 1);
    x[1] = cudaGetLastError();
}
int main() {
    int *one = counters(), *two = counters(), *three = counters();
    many<<<1, 1>>>(one, 3000);
    say(one);
    many<<<1, 1>>>(two, 2048);
    say(two);
    cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, 3000);
    many<<<1, 1>>>(three, 3000);
    say(three);
}
""",
        "2048 cudaErrorLaunchPendingCountExceeded cudaSuccess\n2048 cudaSuccess cudaSuccess\n3000 cudaSuccess cudaSuccess\n",
    ),
    # Other threads, and the same thread's next launch, have none.
    "a child without threads is an error of its thread": (
        """
__global__ void parent(int* x) {
    if (threadIdx.x == 1) {
        add<<<1, 0>>>(x, 100);
        add<<<0, 1>>>(x, 100);
        add<<<1, 2048>>>(x, 100);
        add<<<1, 1, 1 << 20>>>(x, 100);
        x[1] = cudaPeekAtLastError();
        x[2] = cudaGetLastError();
    } else {
        x[3] = cudaGetLastError();
    }
    add<<<1, 1>>>(x, 1);
    x[4 + threadIdx.x] = cudaGetLastError();
}
int main() {
    int* x = counters();
    parent<<<1, 2>>>(x);
    say(x);
    printf("%d %d %d %d %s\\n", x[2] == x[1], x[3], x[4], x[5], cudaGetErrorName(cudaGetLastError()));
}
""",
        "2 cudaErrorInvalidValue cudaSuccess\n1 0 0 0 cudaSuccess\n",
    ),
    # Static and dynamic shared memory together are too much, which is seen when it runs. The grid's other children do run.
    "a child that cannot run is an error of the host": (
        """
__global__ void large(int* x) {
    __shared__ int s[10000];
    s[threadIdx.x] = 1;
    x[0] += 100 * s[0];
}
__global__ void parent(int* x) {
    large<<<1, 1, 20000>>>(x);
    add<<<1, 1>>>(x, 1);
    add<<<1, 1, 0, cudaStreamTailLaunch>>>(x, 1);
}
int main() {
    int* x = counters();
    parent<<<1, 1>>>(x);
    printf("%d %s\\n", x[0], cudaGetErrorName(cudaGetLastError()));
}
""",
        "2 cudaErrorInvalidValue\n",
    ),
    # Its arguments, and the kernel itself: the thread's variables are gone, or have changed, when the child runs.
    "what a launch names is taken at the launch": (
        """
struct Pair { int a, b; };
__global__ void first(int* x, Pair pair) { atomicAdd(x, pair.a); }
__global__ void second(int* x, Pair pair) { atomicAdd(x, 1000 * pair.b); }
__global__ void parent(int* x) {
    Pair pair{1, 2};
    void (*kernel)(int*, Pair) = threadIdx.x % 2 ? second : first;
    kernel<<<1, 1>>>(x, pair);
    pair = {100, 100};
    kernel = nullptr;
}
int main() {
    int* x = counters();
    parent<<<2, 32>>>(x);
    say(x);
}
""",
        "64032 cudaSuccess cudaSuccess\n",
    ),
    # A grid is complete with its children and its tail launches, and only then does what follows it begin.
    "tail launches come last and their own before the next": (
        """
__global__ void leaf(int value) { printf("%d ", value); }
__global__ void middle(int value) {
    leaf<<<1, 1, 0, cudaStreamTailLaunch>>>(value + 1);
    leaf<<<1, 1, 0, cudaStreamTailLaunch>>>(value + 2);
    leaf<<<1, 1>>>(value);
}
__global__ void top() {
    middle<<<1, 1, 0, cudaStreamTailLaunch>>>(20);
    middle<<<1, 1, 0, cudaStreamTailLaunch>>>(30);
    middle<<<1, 1>>>(10);
    leaf<<<1, 1>>>(19);
}
int main() { top<<<1, 1>>>(); }
""",
        "10 11 12 19 20 21 22 30 31 32 ",
    ),
    # A copy of what a child writes is made after it, and before the child that changes it.
    "copies keep their place between launches": (
        """
__global__ void parent(int* x, int* y) {
    add<<<1, 1>>>(x, 3);
    cudaMemcpyAsync(y, x, 4, cudaMemcpyDeviceToDevice, 0);
    add<<<1, 1>>>(x, 4);
}
int main() {
    int *x = counters(), *y = counters();
    parent<<<1, 1>>>(x, y);
    say(x);
    say(y);
}
""",
        "7 cudaSuccess cudaSuccess\n3 cudaSuccess cudaSuccess\n",
    ),
}


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_whose_kernels_launch_prints_its_lines(text: str, expected: str, build: Build) -> None:
    """Limits, errors, the order of children, and what they see."""
    outcome = run(build(HEAD + text))
    assert (outcome.returncode, outcome.stderr, outcome.stdout) == (0, "", expected)


@pytest.mark.parametrize(
    ("body", "ends", "what"),
    [("x[1 << 20] = 1;", -signal.SIGSEGV, "illegal address"), ("__trap();", -signal.SIGABRT, "__trap()"), ("x[0] = 1;", 0, "")],
)
def test_a_fault_in_a_child_names_the_child(body: str, ends: int, what: str, build: Build) -> None:
    """As a fault of a kernel that the host has launched; one without a fault ends as it should."""
    text = f"__global__ void child(int* x) {{ if (threadIdx.x == 2 && blockIdx.x == 1) {{ {body} }} }}\n"
    text += "__global__ void parent(int* x) { child<<<2, 4>>>(x); }\nint main() { parent<<<1, 1>>>(counters()); }\n"
    outcome = run(build(HEAD + text))
    assert outcome.returncode == ends
    assert outcome.stderr == (f"emulated device: {what} in kernel child, block (1,0,0) thread (2,0,0)\n" if what else "")


def test_blocks_launch_from_any_number_of_threads(build: Build) -> None:
    """Every thread of every block launches one; blocks of clusters and cooperative grids too, and a graph does it again."""
    text = """
namespace cg = cooperative_groups;
__global__ void each(int* x) { add<<<1, 2>>>(x, 1); }
__global__ void together(int* x) {
    add<<<1, 1>>>(x, 1);
    cg::this_grid().sync();
    add<<<1, 1>>>(x, 1);
}
__global__ void __cluster_dims__(2, 1, 1) clustered(int* x) { add<<<1, 1>>>(x, 1); }
int main() {
    int* x = counters();
    each<<<64, 16>>>(x);
    say(x);
    void* arguments[] = {&x};
    cudaLaunchCooperativeKernel(together, dim3(4), dim3(8), arguments);
    say(x);
    clustered<<<4, 4>>>(x);
    say(x);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCreate(&stream);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    each<<<1, 8, 0, stream>>>(x);
    cudaStreamEndCapture(stream, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    cudaGraphLaunch(exec, stream);
    cudaGraphLaunch(exec, stream);
    say(x);
}
"""
    program = build(HEAD + text)
    for threads in ("1", "2", "7"):
        outcome = run(program, GRADER_EMULATED_THREADS=threads)
        assert [line.split()[0] for line in outcome.stdout.splitlines()] == ["2048", "2112", "2128", "2160"]
