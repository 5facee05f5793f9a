"""Measures a device's ceilings, and computes the time under which no work of a given size can be done on it.

Each rate is an upper bound for a right kernel: the best of several ways, on data that costs the least power. So a floor made of it hits
nobody who did the work (timing.md 3.2, L3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

SAFETY = 0.9
# float32 on the FP32 units alone, as torch's precision "ieee"; FLOPS + "float32" is by TF32 tensor cores where there are some.
IEEE_FLOAT32 = "float32_ieee"
FLOAT8 = "float8_e4m3fn"
BYTES, FLOPS, CACHE = "bytes_per_s", "flops_per_s:", "l2_bytes"
# Where a problem's tolerance allows it, these do the work of float32; a floor that is too low hits nobody.
NARROWER = {"float32": ("float16", "bfloat16")}
MEMORY_BYTES = 1 << 30
SIDE = {"float32": 8192, "float16": 8192, "bfloat16": 8192, "float64": 4096}
# Enough for a device that was idle to reach its highest clock: a rate that is too low would be a floor that is too high.
REPEAT = 30


def physical_floor_ns(
    moved_bytes: int | None, flops: int | None, dtypes: Collection[str], written_bytes: int, ceilings: Mapping[str, float]
) -> int | None:
    """Nine tenths of the longer of both: moving the declared bytes, doing the declared arithmetic. None where nothing is known.

    An output may still lie in the cache when the kernel ends, so as much as fits there is not counted.
    """
    times_s = []
    if moved_bytes is not None and ceilings.get(BYTES):
        through_memory = moved_bytes - min(written_bytes, int(ceilings.get(CACHE, 0)))
        times_s.append(max(0, through_memory) / ceilings[BYTES])
    # Not by float8: next to float4, whose rate is not measured, it would make a floor that a good kernel falls under.
    named = [name for dtype in dtypes for name in (dtype, *NARROWER.get(dtype, ())) if name != FLOAT8]
    rate = max((ceilings.get(FLOPS + dtype, 0.0) for dtype in named), default=0.0)
    if flops is not None and rate:
        times_s.append(flops / rate)
    return round(SAFETY * max(times_s) * 1e9) if times_s else None


def measure(device: str) -> dict[str, float]:
    """Measure the rates; about three seconds. What a device can't do is not there."""
    import torch

    rates = {BYTES: _bandwidth(device)}
    # Three products of TF32 make one of float32, so it is never slower than what is right.
    with _matmul_precision("high"):
        rates |= {FLOPS + dtype: _matmul_rate(getattr(torch, dtype), side, device) for dtype, side in SIDE.items()}
    with _matmul_precision("highest"):
        rates[FLOPS + IEEE_FLOAT32] = _matmul_rate(torch.float32, SIDE["float32"], device)
    rates[FLOPS + FLOAT8] = _float8_rate(SIDE["float16"], device)
    half_rate = rates[FLOPS + "float16"]
    rates[FLOPS + "int8"] = 2 * half_rate if half_rate else None
    torch.cuda.empty_cache()
    cache_bytes = float(torch.cuda.get_device_properties(device).L2_cache_size)
    return {CACHE: cache_bytes, **{name: rate for name, rate in rates.items() if rate is not None}}


def _bandwidth(device: str) -> float | None:
    """Bytes a second: the best of copying (read and written), writing and reading."""
    import torch

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


def _matmul_rate(dtype: torch.dtype, side: int, device: str) -> float | None:
    import torch

    try:
        first, second = (torch.zeros((side, side), dtype=dtype, device=device) for _ in range(2))
        return float(2 * side**3 / _best_s(lambda: torch.matmul(first, second)))
    except RuntimeError:  # such as a dtype that its cuBLAS lacks
        return None


def _float8_rate(side: int, device: str) -> float | None:
    """By cuBLAS with one scale for each matrix, as fast as it accumulates."""
    import torch

    try:
        first, second = (torch.zeros((side, side), dtype=getattr(torch, FLOAT8), device=device) for _ in range(2))
        scale = torch.ones((), dtype=torch.float32, device=device)

        def run() -> object:
            # The right matrix has to be column-major.
            return torch._scaled_mm(first, second.t(), scale, scale, out_dtype=torch.bfloat16, use_fast_accum=True)

        return float(2 * side**3 / _best_s(run))
    except (RuntimeError, ValueError, AttributeError):  # a device, or a torch, without float8
        return None


@contextmanager
def _matmul_precision(name: str) -> Iterator[None]:
    """Multiply float32 with this precision: "high" is TF32, "highest" is float32 itself."""
    import torch

    was = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(was)


def _best_s(run: Callable[[], object]) -> float:
    import torch

    begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    times_ms = []
    for _ in range(REPEAT + 1):
        begun.record()
        run()
        ended.record()
        ended.synchronize()
        times_ms.append(begun.elapsed_time(ended))
    return float(min(times_ms[1:]) / 1e3)
