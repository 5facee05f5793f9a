"""Which kernels get a second body, with loops over the threads of a block, and which keep one."""

import pytest

from grader_extensions.emulated_cuda import emulation

KERNEL = "__global__ void k(float* a, int n) {{\n    __shared__ float tile[64];\n{}\n}}\n"


def second_body(text: str) -> str:
    """Return what follows the first body; "" where the kernel has one only."""
    translated = emulation.translate(text, "k.cu")
    return translated.partition("#ifdef EMU_BLOCK_LOOPS")[2].partition("#else")[0]


def in_kernel(body: str) -> str:
    return second_body(KERNEL.format(body))


def test_barriers_become_the_ends_of_loops() -> None:
    """Shared memory is the block's; what lives across a barrier has an element for each thread."""
    body = in_kernel("    float x = a[threadIdx.x];\n    tile[threadIdx.x] = x;\n    __syncthreads();\n    a[threadIdx.x] = x + tile[0];")
    assert body.count("EMU_EACH_THREAD") == 2 and "__syncthreads" not in body
    assert body.index("EMU_SHARED") < body.index("EMU_EACH_THREAD")
    assert "per_thread" in body and body.count("[emu_thread] = x;") == 1  # the second loop only reads it


@pytest.mark.parametrize("body", ["{}", "{ }", "{/* nothing */}", "{;}"])
def test_a_kernel_that_does_nothing_is_left_alone(body: str) -> None:
    """Or has both bodies one behind the other: braces meet in pairs."""
    translated = emulation.translate(f"__global__ void k() {body}\n", "k.cu")
    at, end = translated.find("EMU_FIRST_BODY"), translated.find("#ifdef EMU_BLOCK_LOOPS")
    assert (at, end) == (-1, -1) or -1 < at < end


def test_names_of_one_declaration_are_of_one_kind() -> None:
    """Else one of them would be declared in a loop, and used outside of it."""
    before = "    int x = 1, y = 2;\n    int z = y;\n    x += threadIdx.x;\n    tile[0] = x;\n"
    body = in_kernel(f"{before}    __syncthreads();\n    a[0] = x + y + z + tile[0];")
    assert body.index("EMU_EACH_THREAD") < body.index("z = y;") and body.count("_y = ::emu::per_thread") == 1


def test_what_is_the_same_for_all_threads_is_done_once() -> None:
    body = in_kernel("    a += blockIdx.x;\n    for (int i = 0; i < n; i += 2) {\n        tile[0] = i;\n        __syncthreads();\n    }")
    loop = body.index("for (int i = 0; i < n; i += 2)")
    assert body.index("a += blockIdx.x;") < loop < body.index("EMU_EACH_THREAD") and "per_thread" not in body


def test_lines_are_those_of_the_source() -> None:
    """Of both bodies, so that `__LINE__` is too."""
    text = KERNEL.format("    a[0] = 1;\n    __syncthreads();\n    a[1] = __LINE__;")
    lines = emulation.translate(text, "k.cu").splitlines()
    at = len(lines) - 1 - lines[::-1].index("    a[1] = __LINE__;".strip())
    assert lines[at - 1] == '# 5 "k.cu" 3'


@pytest.mark.parametrize(
    "body",
    [
        "    for (int i = threadIdx.x; i < n; i += 64) { tile[0] = i; __syncthreads(); }",
        "    for (int i = 0; i < tile[0]; ++i) { __syncthreads(); }",
        "    for (int i = 0; i < n; ++i) { if (a[i] > 0) break; __syncthreads(); }",
        "    for (int i = 0; i < n; ++i) { if (a[i] > 0) ++i; __syncthreads(); }",
        "    if (threadIdx.x < 32) { __syncthreads(); }",
        "    if (threadIdx.x < 32) n = 3;\n    if (n > 2) { __syncthreads(); }",
        "    int i = 0;\n    while (i < n) { __syncthreads(); ++i; }",
        "    int i = a[0];\n    if (i > 2) { __syncthreads(); }",
        "    float& x = tile[threadIdx.x];\n    __syncthreads();\n    x = 1;",
        "    int x = a[0];\n    for (int i = 0; i < 2; ++i) { tile[0] = x; int x = a[1]; __syncthreads(); a[2] = x; }\n    a[3] = x;",
        "    auto x = a[threadIdx.x];\n    __syncthreads();\n    a[0] = x;",
        "    float v = __shfl_xor_sync(~0u, a[0], 1);\n    a[0] = v;",
        "    volatile float* p = tile;\n    p[0] = 1;",
        "    while (atomicAdd(reinterpret_cast<int*>(a), 0) == 0) { }",
        '    asm volatile("bar.sync 0;");',
        "    auto f = [&](int i) { return i + 1; };\n    a[f(0)] = 1;",
        "    goto end;\nend:\n    a[0] = 1;",
        "#ifdef SOMETHING\n    a[0] = 1;\n#endif\n    a[1] = 1;",
    ],
)
def test_a_form_that_is_not_understood_keeps_its_one_body(body: str) -> None:
    """Threads may part there, or wait for each other in another way."""
    assert in_kernel("    a[0] = 2;") != ""  # the control
    assert in_kernel(body) == ""


FUNCTIONS = """
__device__ int count;
__device__ int add() { return ++count; }
__device__ float use(const float* p) { return p[1]; }
__device__ float indirect(const float* p) { return add(); }
__device__ void store(float* p, int i) { p[i] = 1; }
"""
LOAD, USE, WAIT = "tile[threadIdx.x] = a[i];", "a[n + threadIdx.x] = tile[n - i];", "__syncthreads();"


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        (f"{LOAD} {WAIT} {USE} {WAIT}", True),
        (f"{WAIT} {LOAD} {WAIT} {USE}", True),
        (f"{LOAD} {WAIT} {USE}", False),  # the next turn's load may come before another thread's use
        (f"{WAIT} {LOAD} n += 1; {USE}", False),  # done once between two loops, and no barrier
        (f"{WAIT} {LOAD} n += 1; other[n] = 1; {WAIT}", True),
        (f"{LOAD} if (n > 3) {{ {WAIT} }} {USE} {WAIT}", False),
        (f"{LOAD} {WAIT} {USE.replace('tile[n - i]', 'use(tile)')}", False),
        (f"{LOAD} {WAIT} store(tile, i);", False),
        (f"{WAIT} other[n] = 1; n += 1; float x = use(a); {WAIT}", True),
        (f"{WAIT} other[n] = 1; n += 1; float x = indirect(a); {WAIT}", False),  # a function that it calls counts
    ],
)
def test_a_missing_barrier_is_not_hidden(inside: str, expected: bool) -> None:
    """A loop ends before the next begins, as if there were a barrier. So where one is missing, threads stay fibers."""
    body = f"    __shared__ float other[64];\n    for (int i = 0; i < 4; ++i) {{ {inside} }}"
    assert (second_body(FUNCTIONS + KERNEL.format(body)) != "") is expected


def test_only_a_loop_that_writes_its_own_variables_is_vectorised_regardless() -> None:
    """Threads that write what others read are taken in their order."""
    body = in_kernel(
        "    float x = a[n];\n    tile[threadIdx.x] = x;\n    __syncthreads();\n    x += tile[n];\n    __syncthreads();\n    a[n] = x;"
    )
    assert [line.split()[0] for line in body.splitlines() if line.startswith("EMU_EACH")] == [
        "EMU_EACH_THREAD",
        "EMU_EACH_THREAD_ALONE",
        "EMU_EACH_THREAD",
    ]


@pytest.mark.parametrize(
    "before",
    [
        "__device__ void meet() { __syncthreads(); }\n",
        "__device__ int mine() { return threadIdx.x; }\n",
        "#define MEET __syncthreads()\n",
        '#include "helpers.cuh"\n',
        "#include <cooperative_groups.h>\n",
        "#define EACH(i) for (int i = 0; i < n; ++i) {\n",
    ],
)
def test_what_a_kernel_may_call_counts(before: str) -> None:
    """A function, a macro or a header that lets threads meet."""
    body = "    EACH(i) a[i] = 1; }" if "EACH" in before else "    a[0] = 2;"
    assert second_body(before + KERNEL.format(body)) == ""


def test_a_variable_of_the_device_may_change_between_threads() -> None:
    """So it decides no loop around a barrier; a constant may."""
    loop = "    for (int i = 0; i < limit; ++i) { tile[0] = i; __syncthreads(); }"
    assert second_body("__device__ int limit;\n" + KERNEL.format(loop)) == ""
    assert second_body("constexpr int limit = 3;\n" + KERNEL.format(loop)) != ""
