"""Notes each launch of a kernel on the emulated device: its grid, its block, its shared memory.  A claim, like all that a runner says.

CUDA C++ calls a hook; the interpreters of Triton and Numba are wrapped, where a submission has imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from sandbox.languages import launch_hook
from sandbox.launch.kernel import Loaded
from sandbox.protocol import wire

KIND_LIMIT = 64
WARP_SIZE, USUAL_WARPS = 32, 4
Three = tuple[int, int, int]
Range = Callable[[str], AbstractContextManager[object]]


@dataclass(slots=True)
class LaunchLog:
    """Launches by kernel and configuration, in order."""

    counts: dict[tuple[str, Three, Three, int], int] = field(default_factory=dict)

    def add(self, kernel: str, grid: Three, block: Three, shared_bytes: int) -> None:
        """Note one."""
        key = (kernel, grid, block, shared_bytes)
        if key in self.counts or len(self.counts) < KIND_LIMIT:
            self.counts[key] = self.counts.get(key, 0) + 1

    def launches(self) -> tuple[wire.KernelLaunch, ...]:
        """All of them."""
        return tuple(
            wire.KernelLaunch(kernel=kernel, grid=grid, block=block, shared_bytes=shared_bytes, count=count)
            for (kernel, grid, block, shared_bytes), count in self.counts.items()
        )


@contextmanager
def logged(kernel: Loaded, within: Range) -> Iterator[LaunchLog]:
    """Note launches while inside. within: a context, by the kernel's name, that each launch is done in."""
    log = LaunchLog()
    running: list[AbstractContextManager[object]] = []

    def on_launch(name: bytes, sizes: Any, dynamic_bytes: int, begins: int) -> None:
        if begins:
            title = name.decode("utf-8", "replace")
            log.add(title, (sizes[0], sizes[1], sizes[2]), (sizes[3], sizes[4], sizes[5]), dynamic_bytes)
            running.append(within(title))
            running[-1].__enter__()
        elif running:
            running.pop().__exit__(None, None, None)

    hook = launch_hook.LaunchHook(on_launch)
    libraries = kernel.libraries()
    launch_hook.set_hook(libraries, hook)
    try:
        with _of_triton(log, within), _of_numba(log, within):
            yield log
    finally:
        launch_hook.set_hook(libraries, None)


@contextmanager
def _of_triton(log: LaunchLog, within: Range) -> Iterator[None]:
    interpreter: Any = sys.modules.get("triton.runtime.interpreter")
    if interpreter is None:
        yield
        return
    builder, executor = interpreter.interpreter_builder, interpreter.GridExecutor
    set_grid_dim, call = builder.set_grid_dim, executor.__call__
    grid: list[Three] = []

    def note_grid(x: int, y: int, z: int) -> None:
        grid.append((x, y, z))
        set_grid_dim(x, y, z)

    def launch(self: Any, *arguments: Any, **named: Any) -> Any:
        name = str(getattr(self.fn, "__name__", "kernel"))
        with within(name):
            result = call(self, *arguments, **named)
        if grid:
            log.add(name, grid.pop(), (WARP_SIZE * int(named.get("num_warps", USUAL_WARPS)), 1, 1), 0)
        return result

    builder.set_grid_dim, executor.__call__ = note_grid, launch
    try:
        yield
    finally:
        executor.__call__ = call
        builder.set_grid_dim = set_grid_dim


@contextmanager
def _of_numba(log: LaunchLog, within: Range) -> Iterator[None]:
    simulator: Any = sys.modules.get("numba.cuda.simulator.kernel")
    if simulator is None:
        yield
        return
    kernel = simulator.FakeCUDAKernel
    call = kernel.__call__

    def launch(self: Any, *arguments: Any) -> Any:
        if self._device or self.grid_dim is None:
            return call(self, *arguments)
        name = str(getattr(self.fn, "__name__", "kernel"))
        log.add(name, _three(self.grid_dim), _three(self.block_dim), int(self.dynshared_size or 0))
        with within(name):
            return call(self, *arguments)

    kernel.__call__ = launch
    try:
        yield
    finally:
        kernel.__call__ = call


def _three(sizes: Any) -> Three:
    x, y, z = (*(int(one) for one in sizes), 1, 1)[:3]
    return x, y, z
