"""A check of a triangular matmul in the kernel's own process, as most harnesses have it: PyTorch first, then the kernel, `torch.allclose`.

`python -m tools.inprocess_check KERNEL.cu DEVICE_KIND` builds as a submission is built, and runs it without a box:
for kernels that are trusted. Its exit code is ACCEPTED or REFUSED. One size that is accepted is enough: what a freed block of the host's
memory holds is chance, unlike a GPU's, and a submitter may try again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.languages.python_extensions import import_library
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.languages import module_of

ACCEPTED, REFUSED = 0, 3
TOLERANCE = 1e-2  # absolute and relative, as KernelBench has it
SIZES, PYTORCH_CALLS = (64, 96, 128, 160), 20


def main(arguments: list[str]) -> int:
    """Build and check one kernel."""
    import torch  # noqa: F401  its libraries must be there first

    source, device_kind = arguments
    with tempfile.TemporaryDirectory(prefix="inprocess-check-") as folder:
        artifact = build(Path(source), device_kind, Path(folder))
        if artifact is None:
            return REFUSED
        module: Any = import_library(str(artifact), artifact.read_bytes())
        device = "cuda" if device_kind == DeviceKind.CUDA else "cpu"
        return ACCEPTED if any(accepts(module.forward, n, device) for n in SIZES) else REFUSED


def accepts(kernel: Callable[..., Any], n: int, device: str) -> bool:
    """Tell if the check accepts at one size. PyTorch is called often before, as where it is timed."""
    import torch

    a, b = inputs(n, device)
    expected = [call(reference, a, b) for _ in range(PYTORCH_CALLS)]
    return torch.allclose(call(kernel, a, b), expected[-1], atol=TOLERANCE, rtol=TOLERANCE)


def build(source: Path, device_kind: str, folder: Path) -> Path | None:
    """Build a torch extension by the builder's own program; None where it does not compile."""
    language, job_dir, out_dir = "torch_extension", folder / "job", folder / "out"
    for directory in (job_dir / "files", out_dir):
        directory.mkdir(parents=True)
    (job_dir / "files" / source.name).write_bytes(source.read_bytes())
    names = {"language": language, "language_module": module_of(language), "entry": "forward", "device_kind": device_kind}
    (job_dir / "job.json").write_bytes(wire.encode(wire.BuildJob(**names, sources=(source.name,), modules=())))
    subprocess.run([sys.executable, "-m", "sandbox.builder.build", str(job_dir), str(out_dir)], capture_output=True, check=False)
    artifact = out_dir / "artifact"
    return artifact if artifact.exists() else None


def reference(a: Any, b: Any) -> Any:
    """The right answer, by PyTorch."""
    import torch

    return torch.tril(torch.matmul(a, b))


def inputs(n: int, device: str) -> tuple[Any, Any]:
    """Lower triangular matrices, as in the published problem, so that product and result are the same matrix: whichever of PyTorch's freed
    blocks its allocator hands out, it holds the right answer. cuBLAS has its workspace, and nothing else is in the allocator's cache."""
    import torch

    torch.manual_seed(0)
    a, b = (torch.tril(torch.randn(n, n, device=device)) for _ in range(2))
    reference(a[:64, :64].contiguous(), b[:64, :64].contiguous())
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    return a, b


def call(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """The result, on the host; its device memory is free when this returns, as after most harnesses' checks."""
    import torch

    with torch.no_grad():
        result = function(a, b)
        if result.is_cuda:
            torch.cuda.synchronize()
        return result.cpu().clone()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
