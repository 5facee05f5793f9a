"""Numba's simulator on machines without a CUDA runtime. tests/images grades a Numba kernel on such a machine."""

from types import SimpleNamespace

import pytest

from sandbox.languages.emulated_numba import answer_runtime_version


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
