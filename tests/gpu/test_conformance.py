"""The emulated device's conformance suite on the GPU itself: the same programs, built by nvcc, print the same lines.

`emulated_cuda/tests/conformance` shows that the emulated device prints what a GPU prints; this shows that a GPU still does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

import pytest

from grader.dispatch.gpus import Gpu
from grader_extensions.fast_torch_build.tests.torch_extensions.builds import processors
from tests.gpu.conftest import one_at_a_time
from tests.gpu.report import Section
from tests.harness.grading import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = sorted((ROOT / "grader_extensions" / "emulated_cuda" / "tests" / "conformance").glob("*.cu"), key=lambda path: path.name)
COMPILE_S, RUN_S = 240, 30
HOPPER, TOOLKIT = (9, 0), (13, 0)  # what printed the `.expected`
# What a program prints that another GPU, or an older toolkit, does not. On Hopper with CUDA 13 all of them print the same.
DIFFERS_ON_ANOTHER_GPU = {
    "device_queries": "prints the compute capability, and how much shared memory a block may have",
    "shared_opt_in": "asks for the 227 KiB of shared memory that a block of a Hopper may have",
}
DIFFERS_WITH_AN_OLDER_TOOLKIT = {
    "launch_errors": "names the error of a launch that cannot be: cudaErrorInvalidValue with CUDA 13, another one before",
    "launch_in_macros": "names the error of a launch that cannot be: cudaErrorInvalidValue with CUDA 13, another one before",
}


@dataclass(slots=True, kw_only=True)
class Suite:
    """The programs as built for the GPU at hand, and what came of those that were run."""

    folder: Path
    uuid: str
    capability: tuple[int, int]
    toolkit: tuple[int, int]
    complaints: dict[str, str]  # of those that nvcc did not build
    same: dict[str, bool] = field(default_factory=dict)

    def excuse(self, name: str) -> str | None:
        """Why this program may print other lines here; None where it must not."""
        if self.capability != HOPPER and name in DIFFERS_ON_ANOTHER_GPU:
            return DIFFERS_ON_ANOTHER_GPU[name]
        return DIFFERS_WITH_AN_OLDER_TOOLKIT.get(name) if self.toolkit < TOOLKIT else None

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run one on this GPU; a program that hangs raises TimeoutExpired, with what it had printed."""
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": self.uuid}
        return subprocess.run([str(self.folder / name)], env=environment, capture_output=True, text=True, check=False, timeout=RUN_S)


@pytest.fixture(scope="module")
def suite(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory, section: Section) -> Iterator[Suite]:
    """All programs, built side by side; nobody measures while they run."""
    folder, capability = tmp_path_factory.mktemp("conformance"), capability_of(gpu.uuid)
    complaints = built(folder, "sm_{}{}".format(*capability))
    with one_at_a_time(gpu.uuid):
        instance = Suite(folder=folder, uuid=gpu.uuid, capability=capability, toolkit=toolkit(), complaints=complaints)
        yield instance
    differing = ", ".join(name for name, same in instance.same.items() if not same) or "-"
    row = (len(instance.same), sum(instance.same.values()), differing, gpu.name, "{}.{}".format(*instance.toolkit))
    section.table("programs", "the same on the GPU", "others", "GPU", "CUDA").add(*row)


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
def test_the_gpu_prints_what_the_emulated_device_prints(source: Path, suite: Suite) -> None:
    """A program of one feature prints the same lines."""
    name = source.stem
    suite.same[name] = False
    assert name not in suite.complaints, suite.complaints[name]
    result = suite.run(name)
    printed = (result.returncode, result.stderr, result.stdout)
    suite.same[name] = printed == (0, "", source.with_suffix(".expected").read_text())
    excuse = suite.excuse(name)
    if excuse is not None and not suite.same[name]:
        pytest.skip(f"other lines here: {excuse}")
    assert suite.same[name], f"exit code {result.returncode}\n{result.stderr}\n{differences(source, result.stdout)}"


def differences(source: Path, printed: str) -> str:
    """The lines that the GPU printed and the emulated device does not, and the other way round."""
    expected = source.with_suffix(".expected").read_text().splitlines()
    return "\n".join(unified_diff(expected, printed.splitlines(), "emulated", "gpu", lineterm="", n=1))


def capability_of(uuid: str) -> tuple[int, int]:
    """Which compute capability the GPU has."""
    import pynvml

    pynvml.nvmlInit()
    try:
        major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(pynvml.nvmlDeviceGetHandleByUUID(uuid))
    finally:
        pynvml.nvmlShutdown()
    return int(major), int(minor)


def built(folder: Path, architecture: str) -> dict[str, str]:
    """Build every program into `folder`, as many at a time as there are processors; what nvcc says of those that it doesn't build."""
    with ThreadPoolExecutor(processors()) as pool:
        logs = list(pool.map(lambda source: _complaint(source, folder, architecture), PROGRAMS))
    return {source.stem: log for source, log in zip(PROGRAMS, logs, strict=True) if log is not None}


def toolkit() -> tuple[int, int]:
    """Which CUDA nvcc is of."""
    output = subprocess.run([nvcc(), "--version"], capture_output=True, text=True, check=True, timeout=RUN_S).stdout
    match = re.search(r"release (\d+)\.(\d+)", output)
    assert match is not None, output
    return int(match[1]), int(match[2])


def nvcc() -> str:
    """Where it is: on the PATH, in $CUDA_HOME or in /usr/local/cuda, as `why_no_gpu` has it."""
    return shutil.which("nvcc") or str(Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc")


def _complaint(source: Path, folder: Path, architecture: str) -> str | None:
    lambdas = ["--extended-lambda"] if "--extended-lambda" in source.read_text() else []
    nested = ["-rdc=true", "-lcudadevrt"] if "-rdc=true" in source.read_text() else []
    command = [nvcc(), f"-arch={architecture}", "-std=c++20", "-O2", "-w", *lambdas, *nested, str(source), "-o", str(folder / source.stem)]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=COMPILE_S)
    except subprocess.TimeoutExpired:
        return f"nvcc did not end in {COMPILE_S} s"
    return None if result.returncode == 0 else result.stdout + result.stderr
