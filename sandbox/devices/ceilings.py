"""Measures a device's ceilings: rates that no right kernel exceeds.

Each is the best of several ways, on data that costs the least power. So a floor made of it hits nobody who did the work (timing.md 3.2,
L3).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from sandbox.devices import BYTES, CACHE, FLOAT8, FLOPS

# float32 on the FP32 units alone, as torch's precision "ieee"; FLOPS + "float32" is by TF32 tensor cores where there are some.
IEEE_FLOAT32 = "float32_ieee"
MEMORY_BYTES = 1 << 30
SIDE = {"float32": 8192, "float16": 8192, "bfloat16": 8192, "float64": 4096, FLOAT8: 8192}
# Enough for a device that was idle to reach its highest clock: a rate that is too low would be a floor that is too high.
REPEAT = 30


def measure(device: str) -> dict[str, float]:
    """Measure the rates; about three seconds. What a device can't do is not there."""
    rates, precision = {BYTES: _bandwidth(device)}, torch.get_float32_matmul_precision()
    try:
        # Three products of TF32 make one of float32, so it is never slower than what is right.
        torch.set_float32_matmul_precision("high")
        rates |= {FLOPS + dtype: _matmul_rate(dtype, side, device) for dtype, side in SIDE.items()}
        torch.set_float32_matmul_precision("highest")
        rates[FLOPS + IEEE_FLOAT32] = _matmul_rate("float32", SIDE["float32"], device)
    finally:
        torch.set_float32_matmul_precision(precision)
    half_rate = rates[FLOPS + "float16"]
    rates[FLOPS + "int8"] = 2 * half_rate if half_rate else None
    torch.cuda.empty_cache()
    cache_bytes = float(torch.cuda.get_device_properties(device).L2_cache_size)
    return {CACHE: cache_bytes, **{name: rate for name, rate in rates.items() if rate is not None}}


def _bandwidth(device: str) -> float | None:
    """Bytes a second: the best of copying (read and written), writing and reading."""
    try:
        source = torch.zeros(MEMORY_BYTES // 4, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
    except torch.OutOfMemoryError:
        return None
    ways: tuple[tuple[int, Callable[[], object]], ...] = (
        (2 * MEMORY_BYTES, lambda: target.copy_(source)),
        (MEMORY_BYTES, lambda: target.fill_(1.0)),
        (MEMORY_BYTES, source.sum),
        (3 * MEMORY_BYTES, lambda: torch.add(source, target, out=target)),
    )
    return max(size / _best_s(run) for size, run in ways)


def _matmul_rate(dtype: str, side: int, device: str) -> float | None:
    """Operations a second by cuBLAS; of float8 with one scale for each matrix, as fast as it accumulates."""
    try:
        first, second = (torch.zeros((side, side), dtype=getattr(torch, dtype), device=device) for _ in range(2))
        scale = torch.ones((), dtype=torch.float32, device=device)

        def multiply() -> object:
            if dtype != FLOAT8:
                return torch.matmul(first, second)
            # The right matrix has to be column-major.
            return torch._scaled_mm(first, second.t(), scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)

        return float(2 * side**3 / _best_s(multiply))
    except (RuntimeError, ValueError, AttributeError):  # such as a dtype that this device, its cuBLAS or this torch lacks
        return None


def _best_s(run: Callable[[], object]) -> float:
    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    times_ms = []
    for _ in range(REPEAT + 1):
        begun.record()
        run()
        ended.record()
        ended.synchronize()
        times_ms.append(begun.elapsed_time(ended))
    return float(min(times_ms[1:]) / 1e3)
