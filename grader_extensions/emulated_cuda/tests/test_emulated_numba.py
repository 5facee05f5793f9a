"""Numba's simulator: threads that wait, and a runtime that is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader_extensions.emulated_cuda.emulated_numba import answer_runtime_version, waits


def missing():
    raise RuntimeError("Failure finding libcudart.so.13")


@pytest.mark.parametrize(("call", "version"), [(missing, (0, 0)), (lambda: (0, 13020), (0, 13020))])
def test_a_missing_runtime_has_version_zero(call, version):
    """One that is there answers itself."""
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
