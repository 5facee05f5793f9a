"""The emulated device: CUDA C++ executed on the CPU.  Arenas are memfds, the clock is the host's, nothing is ranked."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sandbox import wire
from sandbox.gate import SAMPLE_LIMIT, create_sealed

if TYPE_CHECKING:
    import torch

CACHE_BYTES = 32 * 1024 * 1024  # written between samples, so that inputs come from memory
STIR_COUNT = 24


class EmulatedArena:
    """A memfd, mapped."""

    def __init__(self, fd: int, size_bytes: int) -> None:
        self.fd, self.size_bytes = fd, size_bytes
        # Populated: a page's first touch costs more than a small kernel and belongs to nobody's time.
        self._map = mmap.mmap(fd, size_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def address(self, offset: int) -> int:
        """The address of a byte."""
        return self._base + offset

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A contiguous tensor over these bytes."""
        import torch

        count = math.prod(shape)
        kind = getattr(torch, dtype)
        if count == 0:
            return torch.empty(shape, dtype=kind)
        return torch.frombuffer(self._map, dtype=kind, count=count, offset=offset).view(shape)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last tensor over it."""
        os.close(self.fd)


class EmulatedDevice:
    """CUDA C++ on the host's cores."""

    KIND = "emulated"
    CLOCK = wire.Clock.HOST

    def __init__(self) -> None:
        self._cache: ctypes.Array[ctypes.c_char] | None = None

    def describe(self) -> tuple[str, dict[str, str]]:
        """The host's CPU and Python."""
        model = next(
            (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
            platform.machine(),
        )
        return f"emulated on {len(os.sched_getaffinity(0))} cores of {model}", {"python": platform.python_version()}

    def create_arena(self, size_bytes: int) -> EmulatedArena:
        """Make an arena of at least size_bytes."""
        size_bytes = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        return EmulatedArena(create_sealed("arena", size_bytes), size_bytes)

    def attach_arena(self, fd: int, size_bytes: int) -> EmulatedArena:
        """Look at the judge's arena."""
        return EmulatedArena(fd, size_bytes)

    def synchronize(self) -> None:
        """Nothing to wait for: a launch returns when its blocks have ended."""

    def stir(self, seed: int, torch_allocator: bool) -> None:
        """Churn malloc, and torch's allocator on top of it where it is loaded."""
        chance = random.Random(seed)
        sizes = [chance.randrange(1, 1 << chance.randrange(6, 21)) for _ in range(STIR_COUNT)]
        if torch_allocator:
            import torch

            blocks = [torch.full((size // 4 + 1,), math.nan) for size in sizes]
            chance.shuffle(blocks)
            del blocks
        else:
            raw = [(ctypes.c_float * (size // 4 + 1))(*([math.nan] * min(size // 4 + 1, 256))) for size in sizes]
            chance.shuffle(raw)
            del raw

    def do_bench(self, run: Callable[[], None], budget_ns: int) -> tuple[int, ...]:
        """The shape of `triton.testing.do_bench` (triton 3.6, testing.py): estimate, warm up, repeat, cache written before each."""
        run()
        begun = time.perf_counter_ns()
        for _ in range(2):
            run()
        estimate_ns = max(1, (time.perf_counter_ns() - begun) // 2)
        for _ in range(min(8, budget_ns // 5 // estimate_ns)):
            run()
        samples: list[int] = []
        end = time.perf_counter_ns() + budget_ns
        while not samples or (len(samples) < SAMPLE_LIMIT and time.perf_counter_ns() < end):
            self._clear_cache()
            begun = time.perf_counter_ns()
            run()
            samples.append(time.perf_counter_ns() - begun)
        return tuple(samples)

    def _clear_cache(self) -> None:
        if self._cache is None:
            self._cache = ctypes.create_string_buffer(CACHE_BYTES)
        ctypes.memset(self._cache, len(self._cache) & 0xFF, CACHE_BYTES)
