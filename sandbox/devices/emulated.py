"""The emulated device: CUDA C++ executed on the CPU.  Arenas are memfds, the clock is the host's, nothing is ranked."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from sandbox.devices import POISON_BYTE, Device, ForeignUsage, cpu_model
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind, device_info
from sandbox.protocol.gate import NAP_NS, SPIN_NS, create_sealed, span

if TYPE_CHECKING:
    import torch

    from sandbox.devices.clock import NativeClock

CACHE_BYTES = 32 * 1024 * 1024  # written between samples, so that inputs come from memory
STIR_COUNT = 24
SAMPLE_COUNT = 128
M_TRIM_THRESHOLD, M_MMAP_MAX, TRIM_THRESHOLD_BYTES = -1, -4, 2**31 - 1  # mallopt(3)
THREAD_ORDER, REVERSE = "grader_thread_order", 1 << 63  # grader_extensions/emulated_cuda/native/emu/block.h


class EmulatedArena:
    """A memfd, mapped."""

    published = finished = 0

    def __init__(self, fd: int, size_bytes: int) -> None:
        self.fd, self.size_bytes = fd, size_bytes
        # Populated: a page's first touch costs more than a small kernel and belongs to nobody's time.
        self._map = mmap.mmap(fd, size_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def address(self, offset: int) -> int:
        return self._base + offset

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> torch.Tensor:
        import torch

        count = span(shape, strides)
        kind = getattr(torch, dtype)
        if count == 0:
            return torch.empty(shape, dtype=kind)
        flat = torch.frombuffer(self._map, dtype=kind, count=count, offset=offset)
        return flat.as_strided(shape, strides) if strides else flat.view(shape)

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last tensor over it."""
        os.close(self.fd)


class EmulatedDevice(Device):
    """CUDA C++ on the host's cores. Much of a device is nothing here: inputs lie there before the judge says go, a launch returns when its
    blocks have ended, and the box's limit keeps memory for the judge."""

    KIND = DeviceKind.EMULATED
    CLOCK = wire.Clock.HOST
    TORCH = device_info(KIND).torch_device
    HAS_PROFILER = False
    STIR_POISONS = False
    SPIN_NS, NAP_NS = SPIN_NS, NAP_NS
    clock: NativeClock | None = None

    def __init__(self) -> None:
        self._cache: ctypes.Array[ctypes.c_char] | None = None
        self._thread_order = 0
        self._spare: EmulatedArena | None = None

    def identify(self) -> wire.Environment:
        name = f"emulated on {len(os.sched_getaffinity(0))} cores of {cpu_model()}"
        return wire.Environment(device=name, device_kind=self.KIND, clock=self.CLOCK)

    @staticmethod
    def foreign_usage() -> ForeignUsage:
        return ForeignUsage()

    def start_clock(self) -> None:
        """Give a tensor the pages of one that has gone, by glibc: to get new ones took an eighth of the time of verifying."""
        ctypes.CDLL(None).mallopt(M_MMAP_MAX, 0)
        ctypes.CDLL(None).mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES)

    def create_arena(self, size_bytes: int) -> EmulatedArena:
        size_bytes = -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        if self._spare is not None and self._spare.size_bytes == size_bytes:
            spare, self._spare = self._spare, None
            return spare
        return EmulatedArena(create_sealed("arena", size_bytes), size_bytes)

    def spare_arena(self, size_bytes: int) -> None:
        self._spare = self.create_arena(size_bytes)

    def attach_arena(self, fd: int, size_bytes: int) -> EmulatedArena:
        return EmulatedArena(fd, size_bytes)

    def wait(self) -> int:
        return 0

    def stir(self, seed: int, torch_allocator: bool, sizes: tuple[int, ...], libraries: Sequence[ctypes.CDLL]) -> None:
        """Churn malloc, from which torch takes its memory on the host, too; large blocks come fresh from the kernel anyway."""
        # Every other time the reverse, so that of any two warps each has been ahead.
        self._thread_order = self._thread_order ^ REVERSE if 0 < self._thread_order < REVERSE else seed % REVERSE
        for library in libraries:
            with suppress(ValueError):  # one without kernels
                ctypes.c_uint64.in_dll(library, THREAD_ORDER).value = self._thread_order
        chance = random.Random(seed)
        sizes = tuple(chance.randrange(1, 1 << chance.randrange(6, 21)) for _ in range(STIR_COUNT))
        blocks = [ctypes.create_string_buffer(size) for size in sizes]
        for block in blocks:
            ctypes.memset(block, POISON_BYTE, len(block))
        chance.shuffle(blocks)
        del blocks

    def do_bench(self, run: Callable[[], object], budget_ns: int) -> tuple[int, ...]:
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
        while not samples or (len(samples) < SAMPLE_COUNT and time.perf_counter_ns() < end):
            if self._cache is None:
                self._cache = ctypes.create_string_buffer(CACHE_BYTES)
            ctypes.memset(self._cache, len(self._cache) & 0xFF, CACHE_BYTES)
            begun = time.perf_counter_ns()
            run()
            samples.append(time.perf_counter_ns() - begun)
        return tuple(samples)

    def source(self, key: str) -> _EmulatedPhilox:
        """numpy's Philox with all 128 bits: torch's CPU generator keeps 32 bits of a seed, which can be searched."""
        return _EmulatedPhilox(key)

    def round_free_memory(self) -> AbstractContextManager[None]:
        return nullcontext()

    def conditions(self, *_: str) -> dict[str, str]:
        return {}

    def ceilings(self) -> dict[str, float]:
        """None: it is never compared with a physical floor."""
        return {}

    def check(self, job_id: str) -> wire.Health:
        """A host that runs this is well enough."""
        return wire.Health(job_id=job_id, healthy=True)


class _EmulatedPhilox:
    """Values from numpy's Philox4x64."""

    def __init__(self, key: str) -> None:
        import numpy as np
        import torch

        self._values = np.random.Generator(np.random.Philox(key=int(key, 16)))
        self._tensor = torch.as_tensor

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        return self._tensor(self._values.standard_normal(shape, dtype="float32"))

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        return self._tensor(self._values.random(shape, dtype="float32"))

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        return self._tensor(self._values.integers(low, high + 1, shape))
