"""Gives Triton's interpreter a driver that answers what modules and the autotuner ask of one: the emulated device's own facts."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

WARP_SIZE = 32
SHARED_BYTES = 227 << 10
REGISTER_COUNT = 65536


def install(torch: Any, *, capability: tuple[int, int], cores: int) -> None:
    """Make it the active driver; nothing where Triton is not there."""
    try:
        driver: Any = importlib.import_module("triton.runtime").driver
        target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
    except ImportError:
        return
    properties = {
        "multiprocessor_count": cores,
        "warpSize": WARP_SIZE,
        "max_shared_mem": SHARED_BYTES,
        "max_num_regs": REGISTER_COUNT,
        "sm_clock_rate": 1_000_000,
        "mem_clock_rate": 1_000_000,
        "mem_bus_width": 64,
    }
    found = target("cuda", capability[0] * 10 + capability[1], WARP_SIZE)
    driver.set_active(
        SimpleNamespace(
            get_current_device=lambda: 0,
            set_current_device=lambda device: None,
            get_current_stream=lambda device=None: 0,
            get_device_capability=lambda device=None: capability,
            get_current_target=lambda: found,
            get_active_torch_device=lambda: torch.device("cuda", 0),
            get_device_interface=lambda: torch.cuda,
            get_empty_cache_for_benchmark=lambda: torch.empty(1),
            clear_cache=lambda cache: None,
            get_benchmarker=lambda: _bench,
            utils=SimpleNamespace(get_device_properties=lambda device=None: properties),
        )
    )


def _bench(kernel: Callable[[], object], *, quantiles: Sequence[float] = (0.5,), **named: object) -> list[float]:
    """One launch's milliseconds, for every quantile: an interpreter's times choose nothing that matters."""
    begun_ns = time.perf_counter_ns()
    kernel()
    return [(time.perf_counter_ns() - begun_ns) / 1e6] * len(quantiles)
