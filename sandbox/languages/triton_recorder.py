"""Lets a module's Triton kernels be launched where there is no GPU, and compiles each for the arguments that it meets: nothing is run.

Triton compiles without a driver; only what it asks one for is answered here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from sandbox.languages import python_triton

GPU_CORES = 132  # of an H100; a module may choose its grid by it
KERNEL_LIMIT = 8


@dataclass(slots=True)
class RecordedTriton:
    """What was compiled, Triton's own `CompiledKernel`s, each once; tuned: names of kernels of whose configurations the first was taken."""

    kernels: list[Any] = field(default_factory=list)
    tuned: list[str] = field(default_factory=list)


def install(torch: Any, architecture: int) -> RecordedTriton:
    """Replace launches, until the process ends. architecture: such as 90. Raises ImportError without Triton."""
    recorded = RecordedTriton()
    python_triton.set_driver(torch, capability=(architecture // 10, architecture % 10), cores=GPU_CORES)
    function: Any = importlib.import_module("triton.runtime.jit").JITFunction
    tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
    compile_or_launch = function.run

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        kernel = compile_or_launch(self, *arguments, grid=grid, warmup=True, **named)
        if kernel is not None and not any(kernel is one for one in recorded.kernels) and len(recorded.kernels) < KERNEL_LIMIT:
            recorded.kernels.append(kernel)
        return kernel

    def bench(self: Any, *arguments: Any, config: Any, **named: Any) -> list[float]:
        name = str(getattr(self.base_fn, "__name__", "kernel"))
        if name not in recorded.tuned:
            recorded.tuned.append(name)
        return [1.0, 1.0, 1.0]  # all alike: the first is taken

    function.run, tuner._bench = run, bench
    return recorded
