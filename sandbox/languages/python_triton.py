"""Gives Triton's interpreter a driver, and compiled kernels, that answer what modules and the autotuner ask of one: the emulated device's
own facts."""

from __future__ import annotations

import collections
import contextlib
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sandbox.languages import python_libdevice, triton_interpreter

WARP_SIZE = 32
SHARED_BYTES = 227 << 10
REGISTER_COUNT = 65536
# Of each kernel: numbers by which occupancy can be computed.
KERNEL_REGISTERS, KERNEL_SHARED_BYTES = 32, 1024


def install(torch: Any, *, capability: tuple[int, int], cores: int) -> None:
    """Make it the active driver, and prepare the interpreter; nothing where Triton is not there."""
    with contextlib.suppress(ImportError):
        set_driver(torch, capability=capability, cores=cores)
        _return_kernels()
        python_libdevice.install()
        triton_interpreter.install()


def set_driver(torch: Any, *, capability: tuple[int, int], cores: int) -> None:
    """Make it the active driver. Raises ImportError without Triton."""
    driver: Any = importlib.import_module("triton.runtime").driver
    target: Any = importlib.import_module("triton.backends.compiler").GPUTarget
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


def _return_kernels() -> None:
    """Let launches and `warmup` return a kernel, as they do where one is compiled; the interpreter returns nothing."""
    with contextlib.suppress(ImportError):
        function: Any = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
        interpret = function.run

        def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> _CompiledKernel:
            interpret(self, *arguments, grid=grid, warmup=warmup, **named)
            return _CompiledKernel(self, {**dict(zip(self.arg_names, arguments, strict=False)), **named})

        function.run = run


class _CompiledKernel:
    """A kernel for certain arguments. given: those that it was made with, by name, for what a launch leaves out."""

    n_regs, n_spills, n_max_threads = KERNEL_REGISTERS, 0, 1024

    def __init__(self, kernel: Any, given: Mapping[str, Any]) -> None:
        self._kernel, self._given = kernel, given
        self.name = kernel.__name__
        self.asm: Mapping[str, str] = collections.defaultdict(str)
        self.metadata = SimpleNamespace(
            name=self.name,
            shared=KERNEL_SHARED_BYTES,
            num_warps=given.get("num_warps", 4),
            num_stages=given.get("num_stages", 3),
            num_ctas=given.get("num_ctas", 1),
        )

    def _init_handles(self) -> None:
        """Nothing is loaded."""

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        def launch(*arguments: Any) -> object:
            later = self._kernel.arg_names[len(arguments) :]
            return self._kernel[grid](*arguments, **{name: self._given[name] for name in later if name in self._given})

        return launch
