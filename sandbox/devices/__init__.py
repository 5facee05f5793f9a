"""Devices: what a kernel runs on.  Nothing else in judge, runner or builder knows which.

A device promises: memory made by `create_arena` is seen by judge and runner alike; `tensor` and `address` look at the same bytes;
after `synchronize` nothing that was launched is still running.
"""

from __future__ import annotations

import ctypes
import importlib
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind, device_info

if TYPE_CHECKING:
    import torch

    from sandbox.devices.clock import NativeClock

_CPU_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
# Names of ceilings, of which FLOPS is followed by a dtype, and the dtype for which they are measured on tensor cores only.
BYTES, FLOPS, CACHE, FLOAT8 = "bytes_per_s", "flops_per_s:", "l2_bytes", "float8_e4m3fn"
POISON_BYTE = 0xFF  # all bits set is a NaN in every float format


class Arena(Protocol):
    """Memory shared by judge and runner, as one side sees it. Nothing in it is believed."""

    fd: int
    size_bytes: int
    published: int  # the address of what says which inputs lie there; 0 where the judge publishes before it says go
    finished: int  # the address of what says which run has ended; 0 where `done` says it

    def address(self, offset: int) -> int:
        """The address of a byte, for a kernel that takes pointers."""

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] = ()) -> torch.Tensor:
        """A tensor of torch's `dtype` over these bytes; contiguous without strides."""

    def close(self) -> None:
        """Give the memory back; no tensor over it may be used afterwards."""


class RandomSource(Protocol):
    """Random numbers as tensors on a device; the same key gives the same numbers."""

    def normal(self, shape: tuple[int, ...]) -> torch.Tensor:
        """float32, mean 0, variance 1."""

    def uniform(self, shape: tuple[int, ...]) -> torch.Tensor:
        """float32 in [0, 1)."""

    def integers(self, low: int, high: int, shape: tuple[int, ...]) -> torch.Tensor:
        """int64 in [low, high]."""


class Device(Protocol):
    """A device, as judge, runner and builder need it. One that inherits from this does nothing where it does not say what."""

    KIND: DeviceKind
    CLOCK: wire.Clock
    TORCH: str  # torch's name for it
    HAS_PROFILER: bool  # torch's profiler sees the kernels that run on it
    STIR_POISONS: bool  # `stir` leaves NaN in all that torch's allocator has free; else torch has to fill what it allocates
    SPIN_NS: int  # how long a runner spins before it sleeps, where something is timed
    NAP_NS: int  # how long it sleeps before it looks at the gate, if nobody wakes it
    clock: NativeClock | None  # the judge's; None: Python will do

    @staticmethod
    def foreign_usage() -> ForeignUsage:
        """Return the use of the device before this process opens it."""

    def create_arena(self, size_bytes: int) -> Arena:
        """Make an arena of at least size_bytes; judge's side."""

    def spare_arena(self, size_bytes: int) -> None:
        """Make the arena that `create_arena` returns next for this size, while no job waits: its pages take 24 ms for 16 MiB."""

    def attach_arena(self, fd: int, size_bytes: int) -> Arena:
        """Look at an arena that the judge made; runner's side."""

    def hold(self, arena: Arena, number: int) -> None:
        """Let what is launched from now on wait, on the device, until the judge has published the inputs of that call."""

    def finish(self, arena: Arena, number: int) -> None:
        """Let the device write the call's number when what was launched for it has ended: the judge's clock waits for that."""

    def wait_for_inputs(self) -> None:
        """Wait until what the last `hold` held back may run, and for nothing more."""

    def synchronize(self) -> None:
        """Wait until everything launched on the device by this process has ended; DeviceFault where the device stopped it."""

    def wait(self) -> int:
        """As `synchronize`, but 0 or the driver's code; as plain a function as there is, for it ends inside the clock."""

    def launch_null(self) -> None:
        """Launch the smallest kernel there is; not waited for."""

    def touch(self, read: Sequence[tuple[int, int]], written: Sequence[tuple[int, int]]) -> None:
        """Launch a kernel that reads and writes these bytes, by address and size, and computes nothing; not waited for. Only where the
        clock is the device's."""

    def stir(self, seed: int, torch_allocator: bool, sizes: tuple[int, ...], libraries: Sequence[ctypes.CDLL]) -> None:
        """Make pointers and content of fresh memory unpredictable: allocate random sizes and these, in bytes, fill with NaN, free.
        An emulated device also runs the warps of these libraries' kernels in another order."""

    def do_bench(self, run: Callable[[], object], budget_ns: int) -> tuple[int, ...]:
        """Time run as `triton.testing.do_bench` does (warm-up and repeat by time budget, cold cache); nanoseconds."""

    # -- the judge's side only ---------------------------------------------------------------------------------------------

    def acquire_context(self) -> None:
        """Bring the device into this process's hands, whatever a runner did before, and wait until it is."""

    def start_clock(self) -> None:
        """Make what the judge's clock needs, where that is more than Python."""

    def identify(self) -> wire.Environment:
        """Which device it is, what is built for it, and what drives it."""

    def source(self, key: str) -> RandomSource:
        """Random numbers from a 128-bit key, given as hex."""

    def reserve(self, size_bytes: int) -> None:
        """Take so much memory for this process's later tensors, before untrusted code can take it."""

    def free_bytes(self) -> int | None:
        """How much memory is free on the device; None where it is the host's."""

    def release_cached_memory(self) -> None:
        """Give back the memory that torch keeps for later tensors."""

    def round_free_memory(self) -> AbstractContextManager[None]:
        """Hold so much that what an untrusted process sees free on the device is a round number."""

    def conditions(self, *names: str) -> dict[str, str]:
        """Clocks, temperature, throttle reasons and so on, now; those of these names where there are any."""

    def ceilings(self) -> dict[str, float]:
        """Return the device's ceilings, measured once: "bytes_per_s", "flops_per_s:DTYPE"."""

    def record_baseline_usage(self, before: ForeignUsage, record_path: Path | None) -> None:
        """Take judge and baseline, which have begun since before, for what belongs on the device; of others only what was there when the
        server's first judge began, which is kept in a file: a judge that is started anew must not take a leftover for its own."""

    def check(self, job_id: str) -> wire.Health:
        """Check that the device is as it was before the first job: nobody else's work on it, memory given back, a canary kernel right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUsage:
    """Use of a device that is not ours: whose contexts, and memory that belongs to no process."""

    pids: frozenset[int] = frozenset()
    untold_bytes: int = 0


class DeviceFault(Exception):
    """The device stopped what this process ran. code: the driver's name, such as CUDA_ERROR_ILLEGAL_ADDRESS."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the device reports {code}")
        self.code = code


def cpu_model() -> str:
    """Return the name of the host's processor."""
    with suppress(OSError):
        if match := _CPU_MODEL.search(Path("/proc/cpuinfo").read_text("utf-8", "replace")):
            return match[1].strip()
    return platform.machine()


def driver_result(answer: tuple[Any, ...]) -> Any:
    """Return the result of a call of CUDA's bindings, without its code; DeviceFault where that is an error."""
    code = answer[0]
    if int(code) != 0:
        raise DeviceFault(getattr(code, "name", str(code)))
    return answer[1] if len(answer) == 2 else answer[1:]


def implementation(kind: str) -> Any:
    """The class of this kind of device; imported here, so that a device's own imports are paid by its users only."""
    module, name = device_info(kind).implementation.split(":")
    return getattr(importlib.import_module(module), name)


def open_device(kind: str) -> Device:
    """The device of this kind; ValueError where there is none."""
    opened: Device = implementation(kind)()
    return opened
