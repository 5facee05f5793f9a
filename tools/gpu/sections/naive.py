"""What a harness in one process says of a kernel that computes one row."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from grader.dispatch.gpus import discover
from tools.gpu import host
from tools.gpu.builds import ROOT, build
from tools.gpu.figures import shown_us
from tools.gpu.run import Run

KERNEL = ROOT / "kernels_examples" / "tril_matmul" / "stale_memory.cu"
N, TINY_N = 4096, 64
ORDERS = {"kernel": "kernel first", "pytorch": "PyTorch first"}
EXPECTED = {"kernel": False, "pytorch": True}
TIMEOUT_S = 300.0


async def run(run: Run) -> None:
    """Run the harness in both orders, each in a process of its own."""
    artifact = f"load:{KERNEL}"
    if not run.choices.naive_load:
        built = await asyncio.to_thread(build, "naive", KERNEL.read_text("utf-8"), "torch_extension", run.place, run.choices.device)
        artifact = str(built.artifact)
        run.say(f"built in {built.seconds:.1f} s")
    n = TINY_N if run.choices.emulated else N
    table = run.section.table(
        "order", "torch.allclose says", "rows that are right", "kernel, us", "PyTorch, us", "speedup it would publish"
    )
    for order, shown in ORDERS.items():
        found = await asyncio.to_thread(_evaluated, run, order, artifact, n)
        run.section.raw[order] = found
        run.say(f"{shown}: {found['correct']}")
        times = (shown_us(found["kernel_us"]), shown_us(found["reference_us"]), f"{found['speedup']:.1f}")
        table.rows.append((shown, found["correct"], f"{found['right_rows']} of {found['rows']}", *times))
        run.claim(
            f"the naive harness says {EXPECTED[order]} of stale_memory, {shown}", found["correct"] is EXPECTED[order], str(found["correct"])
        )
    way = "torch.utils.cpp_extension.load" if run.choices.naive_load else "this project's builder, imported as a module"
    run.section.notes += [
        f"`tools/gpu/naive_harness.py`, N = {n}, kernel and PyTorch in one process; the kernel was built by {way}. "
        "The kernel writes row 0 and returns an `empty_like`; PyTorch first, that is the block which held PyTorch's result."
    ]


def _evaluated(run: Run, order: str, artifact: str, n: int) -> dict[str, Any]:
    out = run.place / f"naive-{order}.json"
    device = "cpu" if run.choices.emulated else "cuda"
    command = [sys.executable, "-m", "tools.gpu.naive_harness", order, artifact, str(n), device, str(out)]
    gpus = discover()
    environment = host.gpu_environment(gpus[0] if gpus else None)
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S
    )
    if done.returncode != 0 or not Path(out).exists():
        raise RuntimeError(f"the naive harness failed with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    return found
