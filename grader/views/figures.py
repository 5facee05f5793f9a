"""Meaning of times for a device: rates, shares of the ceilings that apply, intensity, and speedups by do_bench.  Pure.

A ceiling is named by the unit of the device that it is of: a kernel on the FP32 units is not compared with the tensor cores alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from grader.v1 import report_pb2

BYTES_PER_S, FLOPS_PER_S = "bytes_per_s", "flops_per_s:"
# What measured the ceiling `flops_per_s:NAME`, see sandbox/devices/ceilings.py: matrix products of cuBLAS.
UNITS = {
    "float32_ieee": "FP32 units",
    "float32": "TF32 tensor cores",
    "float16": "FP16 tensor cores",
    "bfloat16": "BF16 tensor cores",
    "float8_e4m3fn": "FP8 tensor cores",
    "float64": "FP64 units or tensor cores",
    "int8": "INT8 tensor cores (twice FP16, not measured)",
}
# The ceilings that apply to a problem's dtype, lowest first.
_OF_DTYPE = {"float32": ("float32_ieee", "float32"), "float8_e5m2": ("float8_e4m3fn",), "uint8": ("int8",)}
_SAME = 1.2  # a device without TF32 does float32 at one rate, whatever it is asked for
_EXCEEDED = 1.05  # what a right kernel may exceed a measured ceiling by


@dataclass(frozen=True, slots=True)
class CeilingShare:
    """How near to what a unit can do at most. unit: its name for people; of 1."""

    unit: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Rates of one measurement, by the certified median; None where the problem does not declare the amount. intensity: FLOP per byte.
    shares: of the units that compute in the problem's dtype, lowest ceiling first. limit: which ceiling is the nearest, by the roofline; ""
    where none is known."""

    bytes_per_s: float | None
    flops_per_s: float | None
    intensity: float | None
    bandwidth: CeilingShare | None
    shares: tuple[CeilingShare, ...]
    limit: str


def throughput(measurement: report_pb2.Measurement, ceilings: Mapping[str, float]) -> Throughput | None:
    """Rates by the certified time; None where nothing is declared, or the time was not resolved."""
    seconds = seconds_of(measurement.certified.median_duration)
    if not measurement.HasField("declared_work") or seconds <= 0:
        return None
    work = measurement.declared_work
    moved = work.moved_bytes if work.moved_bytes > 0 else None
    computed = work.flops if work.flops > 0 else None
    if moved is None and computed is None:
        return None
    by_memory = moved / seconds if moved else None
    by_units = computed / seconds if computed else None
    of_memory = CeilingShare("memory bandwidth", by_memory / ceilings[BYTES_PER_S]) if by_memory and ceilings.get(BYTES_PER_S) else None
    shares = tuple(CeilingShare(unit, by_units / rate) for unit, rate in compute_ceilings(ceilings, work.dtype)) if by_units else ()
    # Memory, or the lowest unit that the kernel does not exceed: what is faster than the FP32 units uses the tensor cores.
    unit = next((share for share in shares if share.share <= _EXCEEDED), shares[-1] if shares else None)
    nearest = [ceiling for ceiling in (of_memory, unit) if ceiling is not None]
    return Throughput(
        bytes_per_s=by_memory,
        flops_per_s=by_units,
        intensity=computed / moved if moved and computed else None,
        bandwidth=of_memory,
        shares=shares,
        limit=max(nearest, key=lambda ceiling: ceiling.share).unit if nearest else "",
    )


def compute_ceilings(ceilings: Mapping[str, float], dtype: str) -> list[tuple[str, float]]:
    """The units that compute in dtype, with their FLOP/s, lowest first. Measurements of one and the same unit are one ceiling."""
    units: list[tuple[str, float]] = []
    for name in _OF_DTYPE.get(dtype, (dtype,)):
        rate = ceilings.get(FLOPS_PER_S + name, 0.0)
        if rate > 0 and not (units and rate < units[-1][1] * _SAME):
            units.append((UNITS.get(name, name), rate))
    return units


def reported_speedup(measurement: report_pb2.Measurement, baseline: str) -> float | None:
    """The speedup that do_bench shows: a claim of the kernel's process, next to the certified one. None where a time is missing."""
    if not measurement.HasField("reported") or baseline not in measurement.reported_baselines:
        return None
    pair = (measurement.reported, measurement.reported_baselines[baseline])
    kernel_s, baseline_s = (seconds_of(samples.median_duration) for samples in pair)
    return baseline_s / kernel_s if kernel_s > 0 and baseline_s > 0 else None


def seconds_of(time: Duration | Timestamp) -> float:
    """A protobuf duration or moment in seconds."""
    return float(time.seconds) + time.nanos / 1e9


WARP = 32
BLOCK_SIZES = (128, 256, 512, 1024)  # what is shown where nobody knows how a kernel is launched
_REGISTERS = 65_536  # of a multiprocessor, since Maxwell
_REGISTER_UNIT = 256  # registers are given to a warp in units of this many


@dataclass(frozen=True, slots=True)
class MultiprocessorLimits:
    """Of one multiprocessor: resident warps and blocks, shared memory in bytes, and what each block takes of it for the system."""

    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024
    shared_unit: int = 128


_LIMITS = {
    "sm_70": MultiprocessorLimits(64, 32, 96 << 10, 0, 256),
    "sm_75": MultiprocessorLimits(32, 16, 64 << 10, 0, 256),
    "sm_80": MultiprocessorLimits(64, 32, 164 << 10),
    "sm_86": MultiprocessorLimits(48, 16, 100 << 10),
    "sm_87": MultiprocessorLimits(48, 16, 164 << 10),
    "sm_89": MultiprocessorLimits(48, 24, 100 << 10),
    "sm_90": MultiprocessorLimits(64, 32, 228 << 10),
    "sm_100": MultiprocessorLimits(64, 32, 228 << 10),
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Of one block size. share: resident warps over the most that fit, 0 where not even one block fits. limit: what stops more."""

    threads: int
    share: float
    limit: str


def occupancy(architecture: str, registers: int, shared_bytes: int, threads: int) -> Occupancy | None:
    """The occupancy of blocks of so many threads; None for an architecture that is not in the table, or without a register count.
    shared_bytes: of a block, static and dynamic."""
    limits = _LIMITS.get(architecture.rstrip("af"))
    if limits is None or registers <= 0 or threads <= 0:
        return None
    warps = -(-threads // WARP)
    of_warp = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    of_block = -(-(shared_bytes + limits.reserved_bytes) // limits.shared_unit) * limits.shared_unit
    blocks = {
        "threads": limits.warps // warps,
        "blocks": limits.blocks,
        # Each of the four schedulers has a quarter of the registers.
        "registers": 4 * (_REGISTERS // 4 // of_warp) // warps,
        "shared memory": limits.shared_bytes // of_block if of_block else limits.blocks,
    }
    fewest = min(blocks.values())
    limit = next(name for name, count in blocks.items() if count == fewest)
    return Occupancy(threads, fewest * warps / limits.warps, limit)


def occupancies(architecture: str, registers: int, shared_bytes: int) -> list[Occupancy]:
    """For each of BLOCK_SIZES, where it is known."""
    results = (occupancy(architecture, registers, shared_bytes, threads) for threads in BLOCK_SIZES)
    return [result for result in results if result is not None]
