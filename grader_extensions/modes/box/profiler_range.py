"""Launches between the driver's start and stop of profilers, so that ncu looks at nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from sandbox.devices import Device
from sandbox.launch.kernel import Loaded, RunnerSetup
from sandbox.launch.loop import Profile


def instrument(setup: RunnerSetup, out_dir: Path | None) -> tuple[Loaded, Profile]:
    """Load a kernel, to be launched in the range. out_dir: nothing is left there."""
    return setup.load(), partial(launch_in_range, device=setup.device)


def launch_in_range(launch: Callable[[], object], device: Device) -> None:
    """Launch once before the range, and once in it."""
    import torch

    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]
