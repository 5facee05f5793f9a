"""A kernel that depends on which warp runs first is wrong in one of two orders, which are each other's reverse."""

import ctypes
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation
from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, program_of, run
from sandbox.devices.emulated import REVERSE, THREAD_ORDER, EmulatedDevice

pytestmark = pytest.mark.slow
PROGRAMS = Path(__file__).parent / "programs"
NORM = PROGRAMS / "norm_order.cu"
RACES = PROGRAMS / "thread_order.cu"
KERNELS = ("first_writes", "last_writes", "shift", "warp_after_warp", "one_pair", "by_global_memory", "block_after_block")
# Blocks that may wait for each other keep their order: of those that run on fibers nobody knows whether they do.
ON_FIBERS = KERNELS[:-1]
USUAL = 0
ORDERS = [random.Random(turn).randrange(1, REVERSE) for turn in range(6)]
WrongCount = Callable[..., int]


def built(source: Path, folder: Path, *, fixed: bool) -> WrongCount:
    text = source.read_text().replace("WAIT;", "__syncthreads();" if fixed else "").replace("FIXED ?", "true ?" if fixed else "false ?")
    assert (emulation.SECOND_BODY in emulation.translate(text, "kernel.cu")) is (source == RACES)
    program = program_of(text, folder)

    def wrong_count(*words: object, loops: bool = True, workers: int = 1) -> int:
        outcome = run(program, *words, GRADER_EMULATED_THREADS=workers, GRADER_EMULATED_BLOCK_LOOPS=int(loops))
        assert outcome.returncode == 0, outcome.stderr
        return int(outcome.stdout)

    return wrong_count


@pytest.fixture(scope="module")
def racing(tmp_path_factory: pytest.TempPathFactory) -> WrongCount:
    """How many elements of a kernel are wrong, by its number."""
    return built(RACES, tmp_path_factory.mktemp("racing"), fixed=False)


@pytest.fixture(scope="module")
def put_right(tmp_path_factory: pytest.TempPathFactory) -> WrongCount:
    """The same with the barriers that are missing."""
    return built(RACES, tmp_path_factory.mktemp("put_right"), fixed=True)


@pytest.mark.parametrize("name", KERNELS)
def test_a_race_is_wrong_in_an_order_or_in_its_reverse(racing: WrongCount, name: str) -> None:
    """Whatever the order, as loops over threads and on fibers, and though a block has only two threads that race."""
    number = KERNELS.index(name)
    for loops in (True, False) if name in ON_FIBERS else (True,):
        for order in ORDERS:
            assert racing(number, order, loops=loops) + racing(number, order + REVERSE, loops=loops) > 0


@pytest.mark.parametrize("name", [name for name in KERNELS if name != "last_writes"])
def test_the_usual_order_hides_these_races(racing: WrongCount, name: str) -> None:
    """The control: with one order for all runs they would be accepted."""
    for loops in (True, False):
        assert racing(KERNELS.index(name), USUAL, loops=loops) == 0


@pytest.mark.parametrize("name", KERNELS)
def test_with_its_barriers_a_kernel_is_right_in_every_order(put_right: WrongCount, name: str) -> None:
    """On one OS thread and on two."""
    for order in (USUAL, *ORDERS, *(order + REVERSE for order in ORDERS)):
        assert put_right(KERNELS.index(name), order, loops=order % 3 > 0, workers=1 + order % 2) == 0


def test_a_warp_is_ahead_of_the_others_as_far_as_barriers_allow(tmp_path: Path) -> None:
    """A layer norm whose second sum overwrites the first is wrong in every order, and with a barrier between them in none."""
    wrong = built(NORM, tmp_path, fixed=False)
    assert all(wrong(order) > 0 for order in (USUAL, *ORDERS))
    right = built(NORM, tmp_path, fixed=True)
    assert all(right(order) == 0 for order in (USUAL, *ORDERS))


def test_every_other_run_has_the_reverse_of_the_order_before(tmp_path: Path) -> None:
    """The judge's seed is the order of the first; a library without kernels has none."""
    library = ctypes.CDLL(str(program_of("__global__ void k() {}", tmp_path, "-shared")))
    device, orders = EmulatedDevice(), []
    for seed in (5, 7, 9, 11):
        device.stir(seed, False, (), (library, ctypes.CDLL(None)))
        orders.append(ctypes.c_uint64.in_dll(library, THREAD_ORDER).value)
    assert orders == [5, 5 + REVERSE, 9, 9 + REVERSE]


FLAGS = """
#include <cstdio>
#include <cstdlib>
__device__ volatile int there[1024];
__device__ int sums[1024];
__global__ void warp_by_warp(const int* x) {  // a thread waits for the one that is 32 before it, in its block or the block before
    int i = blockIdx.x * blockDim.x + threadIdx.x, before = 0;
    if (i >= 32) {
        while (there[i - 32] == 0);
        __threadfence();
        before = *(volatile int*)&sums[i - 32];
    }
    sums[i] = before + x[i];
    __threadfence();
    there[i] = 1;
}
__global__ void last_first(int* out) {
    __shared__ volatile int flag;
    __shared__ int value, count;
    if (threadIdx.x == 0) flag = value = count = 0;
    __syncthreads();
    if (threadIdx.x == blockDim.x - 1) {
        value = 5;
        __threadfence_block();
        flag = 1;
        atomicAdd(&count, 1);
    }
    for (;;)
        if (flag) break;
    for (; !flag;) {}
    do {} while (!flag);
    while (atomicAdd(&count, 0) == 0) {}
    out[threadIdx.x] = value;
}
int main(int, char** words) {
    grader_thread_order = strtoull(words[1], nullptr, 10);
    int *x, *out, last[32] = {}, wrong = 0;
    cudaMalloc(&x, 1024 * sizeof(int));
    cudaMalloc(&out, 128 * sizeof(int));
    for (int i = 0; i < 1024; ++i) x[i] = i % 7;
    warp_by_warp<<<8, 128>>>(x);
    last_first<<<1, 128>>>(out);
    for (int i = 0; i < 1024; ++i) wrong += sums[i] != (last[i % 32] += x[i]);
    for (int i = 0; i < 128; ++i) wrong += out[i] != 5;
    printf("%d", wrong);
}
"""


def test_threads_that_wait_for_a_flag_let_the_others_run(build: Build) -> None:
    """In whatever order they begin, with a volatile or an atomic for a flag, for a thread of their block or of another."""
    program = build(FLAGS)
    for order in (USUAL, *ORDERS):
        assert run(program, order, GRADER_EMULATED_THREADS=1 + order % 2).stdout == "0"
