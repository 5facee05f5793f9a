"""A report says what the judge ran on and with."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from sandbox.protocol.devices import DeviceKind
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.devices.emulated import EmulatedDevice
    from sandbox.judge.__main__ import cudnn_version, environment, host_versions, nvcc_version

NVCC_ANSWER = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Cuda compilation tools, release 13.0, V13.0.88
"""


def tool(place: Path, name: str, script: str) -> str:
    """A program that answers as a compiler would."""
    path = place / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_what_every_host_has_is_there() -> None:
    """Of this process, as it is asked."""
    found = environment(EmulatedDevice(), {}).versions
    assert (found["kernel"], found["python"], found["torch"]) == (platform.release(), platform.python_version(), str(torch.__version__))
    assert found["os"] and found["cpu"] and found["numpy"] and all(found.values())


def test_compilers_are_those_that_the_environment_names(tmp_path: Path) -> None:
    """nvcc by CUDA_HOME, g++ by CXX. On the emulated device there is no nvcc: g++ compiles there."""
    tool(tmp_path, "bin/nvcc", f"cat <<'END'\n{NVCC_ANSWER}END")
    environ = {"CUDA_HOME": str(tmp_path), "CXX": tool(tmp_path, "g++-99", 'test "$1" = -dumpfullversion && echo 99.1.0')}
    found = host_versions(DeviceKind.CUDA, environ)
    assert (found["nvcc"], found["gcc"]) == ("13.0.88", "99.1.0")
    assert "nvcc" not in host_versions(DeviceKind.EMULATED, environ) and host_versions(DeviceKind.EMULATED, environ)["gcc"] == "99.1.0"


@pytest.mark.parametrize("script", ["exit 1", "echo 12; exit 3", ""])
def test_a_tool_that_does_not_answer_is_left_out(tmp_path: Path, script: str) -> None:
    """As is one that is missing; nothing else is lost by it."""
    for broken in (tool(tmp_path, "g++-99", script), str(tmp_path / "missing")):
        found = host_versions(DeviceKind.EMULATED, {"CXX": broken})
        assert "gcc" not in found and found["torch"]


def test_numbers_of_versions_are_read() -> None:
    """cuDNN counts otherwise since its version 9."""
    assert [cudnn_version(one) for one in (91002, 90100, 8907, 8200, None)] == ["9.10.2", "9.1.0", "8.9.7", "8.2.0", ""]
    assert nvcc_version(NVCC_ANSWER) == "13.0.88" and nvcc_version("no version") == ""
