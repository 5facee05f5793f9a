"""A benchmark harness as the published ones are: kernel, reference and clock in one process, judged by `torch.allclose`.

`python -m tests.gpu.naive_harness PLAN OUT` evaluates once. The plan names the artifact (`load:SOURCE.cu` builds by
`torch.utils.cpp_extension.load`), N, the device, and the order: `kernel` or `pytorch`, whichever is called first. It shows what such a
harness says of `stale_memory.cu`, and why: the kernel writes a row and returns a fresh `empty_like`, which is the block that PyTorch's
result has just left. The order `chained` launches a raw kernel twice instead.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.unboxed import extension, raw_call
from tools.inprocess_check import TOLERANCE, call, inputs, reference

RUNS, WARM_RUNS = 20, 3


def main(arguments: list[str]) -> int:
    """Evaluate once, in one order, and write what was concluded."""
    plan_path, out = arguments
    plan = json.loads(Path(plan_path).read_text("utf-8"))
    n, device = plan["n"], plan["device"]
    import torch

    if plan["order"] == "chained":
        Path(out).write_text(json.dumps(_chained(Path(plan["artifact"]), n)), "utf-8")
        return 0
    kernel = _load(plan["artifact"])
    a, b = inputs(n, device)
    calls = {"kernel": kernel, "pytorch": reference}
    results = {name: call(calls[name], a, b) for name in sorted(calls, key=plan["order"].__ne__)}
    got, expected = results["kernel"], results["pytorch"]
    kernel_us, reference_us = (_timed_us(timed, a, b, device) for timed in (kernel, reference))
    result = {
        "correct": torch.allclose(got, expected, atol=TOLERANCE, rtol=TOLERANCE),
        "right_rows": int((got == expected).all(dim=1).sum()),
        "kernel_us": kernel_us,
        "reference_us": reference_us,
        "speedup": reference_us / kernel_us,
    }
    Path(out).write_text(json.dumps(result), "utf-8")
    return 0


def _load(artifact: str) -> Callable[..., Any]:
    if artifact.startswith("load:"):
        from torch.utils.cpp_extension import load

        return load(name="naive_kernel", sources=[artifact.removeprefix("load:")]).forward  # type: ignore[no-any-return]
    return extension(Path(artifact)).forward  # type: ignore[no-any-return]


def _chained(artifact: Path, n: int) -> dict[str, int]:
    """Launch a raw kernel of 2 * a + b twice in one stream, the second on the first's result, and count the elements that it found."""
    import torch

    a, b, between, after = torch.randn(4, n, device="cuda")
    launches = [raw_call(artifact, (a, b), (between,), (n,)), raw_call(artifact, (between, b), (after,), (n,))]
    for _ in ("loads the kernel", "counts"):
        between.zero_()
        torch.cuda.synchronize()
        for launch in launches:
            launch()
        torch.cuda.synchronize()
    return {"right_elements": int((after == 2 * between + b).sum())}


def _timed_us(call: Callable[..., Any], a: Any, b: Any, device: str) -> float:
    """The mean of so many runs, by events."""
    import torch

    for _ in range(WARM_RUNS):
        call(a, b)
    if device != "cuda":
        begun = time.perf_counter()
        for _ in range(RUNS):
            call(a, b)
        return (time.perf_counter() - begun) / RUNS * 1e6
    event: Any = torch.cuda.Event
    pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(RUNS)]
    for start, end in pairs:
        start.record()
        call(a, b)
        end.record()
    torch.cuda.synchronize()
    return float(sum(start.elapsed_time(end) for start, end in pairs) / RUNS * 1e3)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
