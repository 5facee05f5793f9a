"""Devices: what a kernel runs on.  Nothing else in judge, runner or builder knows which.

A device promises: memory made by `create_arena` is seen by judge and runner alike; `tensor` and `address` look at the same bytes;
after `synchronize` nothing that was launched is still running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sandbox import wire

if TYPE_CHECKING:
    import torch


class Arena(Protocol):
    """Memory shared by judge and runner, as one side sees it. Nothing in it is believed."""

    fd: int
    size_bytes: int

    def address(self, offset: int) -> int:
        """The address of a byte, for a kernel that takes pointers."""

    def tensor(self, offset: int, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        """A contiguous tensor of torch's `dtype` over these bytes."""

    def close(self) -> None:
        """Give the memory back; no tensor over it may be used afterwards."""


class Device(Protocol):
    """What judge, runner and builder need of a device."""

    KIND: str
    CLOCK: wire.Clock

    def describe(self) -> tuple[str, dict[str, str]]:
        """The model's name, and versions of what matters."""

    def create_arena(self, size_bytes: int) -> Arena:
        """Make an arena; judge's side."""

    def attach_arena(self, fd: int, size_bytes: int) -> Arena:
        """Look at an arena that the judge made; runner's side."""

    def synchronize(self) -> None:
        """Wait until everything launched on the device has ended."""

    def stir(self, seed: int, torch_allocator: bool) -> None:
        """Make pointers and content of fresh memory unpredictable: allocate random sizes, fill with NaN, free."""

    def do_bench(self, run: Callable[[], None], budget_ns: int) -> tuple[int, ...]:
        """Time run as `triton.testing.do_bench` does (warm-up and repeat by time budget, cold cache); nanoseconds."""


def open_device(kind: str) -> Device:
    """The device of this kind."""
    from sandbox.devices.emulated import EmulatedDevice  # here, so that a device's own imports are paid by its users only

    devices: dict[str, Callable[[], Device]] = {EmulatedDevice.KIND: EmulatedDevice}
    return devices[kind]()
