"""Numba's simulator: threads that wait, and a runtime that is missing."""

from __future__ import annotations

import math
import struct
import threading
from types import SimpleNamespace

import pytest

from grader_extensions.emulated_cuda.emulated_numba import Libdevice, ThreadTurns, answer_runtime_version, waits


def missing():
    raise RuntimeError("Failure finding libcudart.so.13")


@pytest.mark.parametrize(("call", "version"), [(missing, (0, 0)), (lambda: (0, 13020), (0, 13020))])
def test_a_missing_runtime_has_version_zero(call, version):
    """A runtime that is there answers itself."""
    runtime = SimpleNamespace(getLocalRuntimeVersion=call)
    answer_runtime_version(runtime)
    assert runtime.getLocalRuntimeVersion() == version


def test_numbas_threads_are_run_side_by_side_only_where_they_wait():
    """A kernel that names a barrier, itself or in a function that it calls."""

    class Cuda:
        syncthreads = grid = print

    cuda = Cuda()

    def helper():
        cuda.syncthreads()

    def with_barrier(a):
        helper()

    def without(a):
        a[cuda.grid(1)] = 1

    assert waits(helper) and waits(with_barrier) and not waits(without)


class Thread:
    """As the simulator's: what it raises is kept."""

    def __init__(self, work):
        self._work, self.exception = work, None

    def run(self):
        try:
            self._work(self)
        except ValueError as error:
            self.exception = (error, error.__traceback__)


def test_no_thread_passes_a_barrier_before_the_others_reach_it():
    """More threads than a box has processes; one that has ended is not waited for, and what a thread raises ends the block."""
    turns, events = ThreadTurns(), []

    def work(thread):
        assert turns.current_thread() is thread
        events.append("before")
        if thread is not threads[0]:
            turns.wait()
            assert turns.current_thread() is thread
        events.append("after")

    threads = [Thread(work) for _ in range(512)]
    turns.run(threads)
    assert events[-511:] == ["after"] * 511 and events.count("before") == 512
    assert turns.current_thread() is threading.current_thread()

    def fail(thread):
        turns.wait()
        raise ValueError("one of them")

    with pytest.raises(ValueError, match="one of them"):
        turns.run([Thread(fail) for _ in range(3)])


def test_threads_run_in_an_order_that_is_drawn():
    """A barrier that is missing shows; each order of sixteen comes once in 16! times."""
    orders = []
    for _ in range(2):
        order = []
        ThreadTurns().run([Thread(lambda _, add=order.append, number=number: add(number)) for number in range(16)])
        orders.append(order)
    assert sorted(orders[0]) == sorted(orders[1]) == [*range(16)] and orders[0] != orders[1]


def test_a_thread_that_sleeps_lets_the_others_run():
    """The sleeping thread is not at the barrier: a thread that waits for a flag gets it."""
    turns, flag = ThreadTurns(), []

    def wait_for_flag(thread):
        while not flag:
            turns.pause()

    turns.run([Thread(wait_for_flag), Thread(wait_for_flag), Thread(lambda _: flag.append(1))])
    flag.clear()
    look = turns.pausing(lambda: bool(flag))

    def wait_by_atomics(thread):
        while not look():
            pass

    turns.run([Thread(wait_by_atomics), Thread(lambda _: flag.append(1)), Thread(wait_by_atomics)])
    turns.pause()  # outside of a block nobody waits


@pytest.mark.parametrize(
    ("name", "arguments", "value", "form"),
    [("fast_expf", (1.0,), math.e, "f"), ("erf", (0.5,), math.erf(0.5), "d"), ("erff", (0.5,), math.erf(0.5), "f")],
)
def test_a_function_of_libdevice(name, arguments, value, form):
    """In single precision where its name ends in f."""
    assert getattr(Libdevice(), name)(*arguments) == struct.unpack(form, struct.pack(form, value))[0]


def test_a_function_of_libdevice_that_is_missing_is_named():
    """With what to do."""
    with pytest.raises(AttributeError, match=r"no cuda\.libdevice\.normcdff; use a CUDA device"):
        _ = Libdevice().normcdff
