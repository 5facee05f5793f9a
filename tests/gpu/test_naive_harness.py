"""Answers of a harness in the kernel's process about `stale_memory.cu` (a row of a triangular matmul) and two attacks on streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.dispatch.gpus import Gpu
from tests.gpu.conftest import show_flow_only
from tests.gpu.figures import shown_us
from tests.gpu.kernels.files import HERE, Kernel, original_of, read
from tests.gpu.report import Section
from tests.gpu.unboxed import build, run_program
from tests.harness.grading import ROOT

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.timeout(900)]

KERNEL = ROOT / "kernels_examples" / "tril_matmul" / "stale_memory.cu"
N, TINY_N = 4096, 64
COLUMNS = (
    "called first",
    "built by",
    "torch.allclose says",
    "rows that are right",
    "kernel, us",
    "PyTorch, us",
    "speedup it would publish",
)


@pytest.fixture(scope="module")
def artifact(device: str, maybe_gpu: Gpu | None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel as our builder builds it."""
    return build(KERNEL.read_text("utf-8"), "torch_extension", tmp_path_factory.mktemp("naive"), device)


@pytest.mark.parametrize("way", ["this project's builder", "torch.utils.cpp_extension.load"])
@pytest.mark.parametrize(("order", "accepted"), [("kernel", False), ("pytorch", True)])
def test_the_naive_harness_accepts_stale_memory_if_pytorch_is_called_first(
    artifact: Path, device: str, maybe_gpu: Gpu | None, section: Section, tmp_path: Path, order: str, accepted: bool, way: str
) -> None:
    """The kernel returns an `empty_like`; after PyTorch, that is the block which held PyTorch's result."""
    loads = way == "torch.utils.cpp_extension.load"
    if loads and maybe_gpu is None:
        pytest.skip("cpp_extension builds this kernel with nvcc only")
    n = N if maybe_gpu else TINY_N
    plan = {"order": order, "artifact": f"load:{KERNEL}" if loads else str(artifact), "n": n, "device": "cuda" if maybe_gpu else "cpu"}
    result = run_program("tests.gpu.naive_harness", plan, tmp_path, maybe_gpu)
    times = (shown_us(result["kernel_us"]), shown_us(result["reference_us"]), f"{result['speedup']:.1f}")
    section.table(*COLUMNS).add(order, way, result["correct"], f"{result['right_rows']} of {n}", *times)
    show_flow_only(device)
    assert result["correct"] is accepted


def evaluated(kernel: Kernel, order: str, n: int, place: Path, gpu: Gpu) -> dict[str, Any]:
    """Return what the harness concludes of a kernel that our builder built."""
    artifact = build(kernel.source(), kernel.language, place / kernel.path.stem, "cuda")
    plan = {"order": order, "artifact": str(artifact), "n": n, "device": "cuda"}
    return run_program("tests.gpu.naive_harness", plan, place, gpu)


def test_events_on_the_current_stream_see_nothing_of_another(gpu: Gpu, tmp_path: Path) -> None:
    """The right product, for which a plain kernel takes longer than PyTorch, seems to be there at once."""
    kernel = next(candidate for candidate in read(HERE / "attacks" / "leaves_stream_switched.cu") if candidate.problem == "matmul")
    times = {}
    for variant in (kernel, original_of(kernel)):
        result = evaluated(variant, "kernel", N, tmp_path, gpu)
        assert result["correct"]
        times[variant.path.stem] = result["kernel_us"]
    assert 10 * times["leaves_stream_switched"] < times["torch"]


def test_a_dependent_launch_starts_before_a_kernel_that_lets_it(gpu: Gpu, tmp_path: Path) -> None:
    """Behind a kernel that lets its successors start, it reads what is not there yet; the honest kernel in its place waits for it."""
    kernel = read(HERE / "attacks" / "dependent_launch.cu")[0]
    right = {}
    for variant in (replace(kernel, parameters={"DELAY_CYCLES": "1000000"}), original_of(kernel)):
        right[variant.path.stem] = evaluated(variant, "chained", TINY_N, tmp_path, gpu)["right_elements"]
    assert right == {"dependent_launch": 0, "raw": TINY_N}
