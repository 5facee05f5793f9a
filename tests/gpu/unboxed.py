"""Kernels in ordinary processes, without a box or a judge: builds them, loads them, and runs the programs that time them."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.dispatch.gpus import Gpu
from grader_extensions.fast_torch_build.tests.torch_extensions.builds import build_files
from sandbox.languages.python_extensions import import_library
from tests.harness.grading import ROOT

TIMEOUT_S = 300.0


def build(source: str, language: str, folder: Path, device: str) -> Path:
    """Build one source as a submission is built; the path of the artifact."""
    built = build_files({"kernel.cu": source}, folder, language=language, device_kind=device)
    assert built.artifact is not None, built.log[-2000:]
    return built.artifact


def run_program(module: str, plan: Mapping[str, Any], folder: Path, gpu: Gpu | None) -> dict[str, Any]:
    """Run `python -m MODULE PLAN OUT` in a fresh process that sees only this GPU, and read what it wrote."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
    visible = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    command = [sys.executable, "-m", module, str(folder / "plan.json"), str(folder / "out.json")]
    environment = {**os.environ, **visible}
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S
    )
    assert process.returncode == 0, f"{module} ended with exit code {process.returncode}:\n{(process.stdout + process.stderr)[-2000:]}"
    result: dict[str, Any] = json.loads((folder / "out.json").read_text("utf-8"))
    return result


def extension(artifact: Path) -> Any:
    """Load an extension of torch into this process."""
    import torch  # noqa: F401  its libraries must be there first

    return import_library(str(artifact), artifact.read_bytes())


def raw_call(artifact: Path, inputs: Sequence[Any], outputs: Sequence[Any], axes: Sequence[int]) -> Callable[[], None]:
    """Load a raw kernel into this process; a launch of it on these tensors, on the default stream."""
    function = ctypes.CDLL(str(artifact)).solve
    function.restype = None
    pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (*inputs, *outputs)]
    arguments = [*pointers, *(ctypes.c_int64(axis) for axis in axes), ctypes.c_void_p(None)]

    def call() -> None:
        function(*arguments)

    return call
