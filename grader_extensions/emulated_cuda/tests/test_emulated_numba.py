"""Numba's simulator: threads that wait, and a runtime that is missing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from grader_extensions.emulated_cuda.emulated_numba import answer_runtime_version, waits


def missing():
    raise RuntimeError("Failure finding libcudart.so.13")


def test_a_missing_runtime_has_version_zero():
    """The control: numba-cuda's call fails as it is."""
    runtime = SimpleNamespace(getLocalRuntimeVersion=missing)
    with pytest.raises(RuntimeError):
        runtime.getLocalRuntimeVersion()
    answer_runtime_version(runtime)
    assert runtime.getLocalRuntimeVersion() == (0, 0)


def test_a_runtime_that_is_there_answers_itself():
    runtime = SimpleNamespace(getLocalRuntimeVersion=lambda: (0, 13020))
    answer_runtime_version(runtime)
    assert runtime.getLocalRuntimeVersion() == (0, 13020)


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
