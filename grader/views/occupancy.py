"""Theoretical occupancy: how many warps of a kernel fit on a multiprocessor, by registers, shared memory and threads.  Pure.

Limits are from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the rounding of registers and shared
memory is that of NVIDIA's occupancy calculator (cuda_occupancy.h).
"""

from __future__ import annotations

from dataclasses import dataclass

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

    shared_bytes: of a block, static and dynamic.
    """
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
    found = (occupancy(architecture, registers, shared_bytes, threads) for threads in BLOCK_SIZES)
    return [one for one in found if one is not None]
