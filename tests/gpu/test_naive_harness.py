"""What a harness in the kernel's own process says of `stale_memory.cu`, which computes one row of a triangular matmul."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.dispatch.gpus import Gpu
from tests.gpu.conftest import show_flow_only
from tests.gpu.figures import shown_us
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
    found = run_program("tests.gpu.naive_harness", plan, tmp_path, maybe_gpu)
    times = (shown_us(found["kernel_us"]), shown_us(found["reference_us"]), f"{found['speedup']:.1f}")
    section.table(*COLUMNS).add(order, way, found["correct"], f"{found['right_rows']} of {n}", *times)
    show_flow_only(device)
    assert found["correct"] is accepted
