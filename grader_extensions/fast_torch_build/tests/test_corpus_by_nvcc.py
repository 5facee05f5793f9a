"""Every attack and every honest kernel that is for a GPU is built by nvcc for an H200, as a submission is; no GPU is needed to know that.

What Python submissions compile is left out: they do it when they are imported, in a box.
"""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from grader.model import SourceFile
from grader_extensions.fast_torch_build.tests.torch_extensions.builds import build_files
from tests.exploits import attack_files
from tests.gpu.kernels import files as gpu_files
from tests.honest import kernel_files

H200 = "sm_90"
TOOLKIT = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc"
CUDA_OF_TORCH = "<ATen/cuda/"
COMPILERS_SAY_NO = "COMPILE_ERROR"
Case = tuple[str, tuple[SourceFile, ...]]  # language and files

NVCC = [
    pytest.mark.slow,  # a compilation takes 4 to 20 s
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        shutil.which("nvcc") is None and not TOOLKIT.exists(), reason="no nvcc on the PATH, in $CUDA_HOME or /usr/local/cuda"
    ),
]


def named(cases: dict[str, Any]) -> list[object]:
    return [pytest.param(case, id=name, marks=NVCC) for name, case in cases.items()]


def attacks() -> dict[str, Case]:
    """But for those whose mark is that they may not be built."""
    kernels = [kernel for kernel in attack_files.attacks_on_a_gpu() if not any(COMPILERS_SAY_NO in expected for expected in kernel.expect)]
    return {kernel.name: (kernel.language, kernel.sources()) for kernel in kernels if kernel.language != "python"}


def attacks_on_the_clock() -> dict[str, Case]:
    """Those of tests/gpu, which are for a GPU only."""
    kernels = gpu_files.all_in("attacks")
    return {f"gpu-{kernel.name}": (kernel.language, (SourceFile(path="kernel.cu", content=kernel.source(1)),)) for kernel in kernels}


def honest() -> dict[str, Case]:
    """Those of both directories: wrong twins, too."""
    kernels = [kernel for directory in ("kernels", "controls") for kernel in kernel_files.all_in(directory)]
    built = (kernel for kernel in kernels if kernel.language != "python")
    return {f"honest-{kernel.name}": (kernel.language, kernel.submission("any").sources) for kernel in built}


def torch_has_cuda() -> bool:
    """By a header that torch's build writes only with CUDA; torch itself is not imported for that."""
    torch = find_spec("torch")
    return torch is not None and (Path(str(torch.origin)).parent / "include/c10/cuda/impl/cuda_cmake_macros.h").exists()


@pytest.mark.parametrize("case", named({**attacks(), **attacks_on_the_clock(), **honest()}))
def test_nvcc_builds_it(case: Case, tmp_path: Path) -> None:
    """By the builder's own program, with the flags of a submission."""
    language, files = case
    if any(CUDA_OF_TORCH in file.content for file in files) and not torch_has_cuda():
        pytest.skip("it includes ATen/cuda, of which a torch that was built without CUDA has only a part")
    built = build_files({file.path: file.content for file in files}, tmp_path, language=language, device_kind="cuda", architecture=H200)
    assert built.artifact is not None, built.log[-2000:]
    assert built.artifact.stat().st_size > 0


@pytest.mark.parametrize("case", named({"unknown_function": "nothing();"}))
def test_nvcc_refuses_what_is_no_cuda(case: str, tmp_path: Path) -> None:
    """The control: what the builder leaves is looked at, not only whether it ended."""
    source = f'__global__ void k(float* x) {{ {case} }}\nextern "C" void solve(float* x) {{ k<<<1, 1>>>(x); }}\n'
    assert build_files({"kernel.cu": source}, tmp_path, language="cuda", device_kind="cuda", architecture=H200).artifact is None


def test_the_corpus_is_there() -> None:
    """A collection that lost its files would pass."""
    assert len(attacks()) >= 70
    assert len(honest()) >= 40
