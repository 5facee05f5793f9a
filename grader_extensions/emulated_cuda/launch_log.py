"""Notes the launches of the emulated device, with grid, block and shared memory.  A claim: it shares its process with the submission.

CUDA C++ calls a hook; the interpreters of Triton and Numba are wrapped, where a submission has imported them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from sandbox.protocol import wire

KIND_LIMIT = 64
WARP_SIZE, USUAL_WARPS = 32, 4
HOOK = "grader_launch_hook"  # called before and after each launch, where one is set; see native/emu/once.h
LaunchHook = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_int)
Three = tuple[int, int, int]
Range = Callable[[str], AbstractContextManager[object]]


@dataclass(slots=True)
class LaunchLog:
    """Launches by kernel and configuration, in order: how many, and how long they took together; 0 where nothing took it."""

    count: int = 0  # of all
    kinds: dict[tuple[str, Three, Three, int], tuple[int, float]] = field(default_factory=dict)

    def add(self, kernel: str, grid: Three, block: Three, shared_bytes: int, duration_ns: float = 0.0) -> None:
        """Note one."""
        self.count += 1
        key = (kernel, grid, block, shared_bytes)
        if key in self.kinds or len(self.kinds) < KIND_LIMIT:
            count, total_ns = self.kinds.get(key, (0, 0.0))
            self.kinds[key] = (count + 1, total_ns + duration_ns)

    def launches(self) -> tuple[wire.KernelLaunch, ...]:
        """All of them."""
        return tuple(
            wire.KernelLaunch(kernel=kernel, grid=grid, block=block, shared_bytes=size, count=count, duration_ns=round(total_ns) or None)
            for (kernel, grid, block, size), (count, total_ns) in self.kinds.items()
        )


@contextmanager
def logged(libraries: Collection[ctypes.CDLL], within: Range = nullcontext) -> Iterator[LaunchLog]:
    """Note launches while inside, those of these libraries among them. within: a context, by the kernel's name, that each launch is done
    in."""
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

    hook = LaunchHook(on_launch)
    set_hook(libraries, hook)
    try:
        with _of_triton(log, within), _of_numba(log, within):
            yield log
    finally:
        set_hook(libraries, None)


def set_hook(libraries: Iterable[ctypes.CDLL], hook: Any) -> None:
    """Have libraries call a `LaunchHook`, or nothing for None; one of a real device has no such place. The caller keeps the hook alive."""
    for library in libraries:
        try:
            place = ctypes.c_void_p.in_dll(library, HOOK)
        except ValueError:
            continue
        place.value = None if hook is None else ctypes.cast(hook, ctypes.c_void_p).value


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
        log.add(name, three(self.grid_dim), three(self.block_dim), int(self.dynshared_size or 0))
        with within(name):
            return call(self, *arguments)

    kernel.__call__ = launch
    try:
        yield
    finally:
        kernel.__call__ = call


def three(sizes: Any) -> Three:
    """A size in x, y and z."""
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z
