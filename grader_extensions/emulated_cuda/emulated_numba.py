"""Makes Numba's simulator fit for problems of a useful size: kernels get plain arrays, and threads only where they wait for each other."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import threading
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MODULES = ("numba.cuda", "numba.cuda.simulator.kernel", "numba.cuda.simulator.cudadrv.devicearray")
# A kernel that names none of these, nor a device function that does, has threads that can run one after the other.
WAITS = ("sync", "cg", "nanosleep")


def install(torch: Any) -> None:
    """Replace what takes the simulator's time, and let it take tensors; nothing where Numba is not there or no simulator."""
    answer_without_runtime()
    try:
        modules: list[Any] = [importlib.import_module(name) for name in MODULES]
    except ImportError:
        return
    cuda, kernel, devicearray = modules

    def array_of(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else value

    def plain(value: Any) -> np.ndarray[Any, Any]:
        return value._ary  # type: ignore[no-any-return]

    launch, run_threads, dim3 = kernel.FakeCUDAKernel.__call__, kernel.BlockManager.run, kernel.Dim3

    def run_block(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        if waits(self._f):
            run_threads(self, grid_point, *arguments)
            return
        thread: Any = threading.current_thread()
        thread.blockIdx = dim3(*grid_point)
        width, height, depth = self._block_dim
        for number, (z, y, x) in enumerate(itertools.product(range(depth), range(height), range(width))):
            thread.threadIdx, thread.thread_id = dim3(x, y, z), number
            self._f(*arguments)

    kernel.FakeCUDAKernel.__call__ = lambda self, *arguments: launch(self, *map(array_of, arguments))
    kernel.FakeWithinKernelCUDAArray = plain
    kernel.BlockManager.run = run_block
    cuda.as_cuda_array = lambda value, sync=True: devicearray.FakeCUDAArray(array_of(value))


def answer_without_runtime() -> None:
    """Let `numba.cuda` be imported on a machine without libcudart."""
    with contextlib.suppress(ImportError):
        answer_runtime_version(importlib.import_module("cuda.bindings.runtime"))


def answer_runtime_version(runtime: Any) -> None:
    """Numba asks for the library's version when it is imported, and neither its simulator nor its compiler uses the library."""
    try:
        runtime.getLocalRuntimeVersion()
    except RuntimeError:  # cuda.pathfinder's DynamicLibNotFoundError is one
        runtime.getLocalRuntimeVersion = lambda: (0, 0)


def waits(function: Any, visited: frozenset[int] = frozenset()) -> bool:
    """Return whether a kernel, or a function that it names, may wait for other threads."""
    if not isinstance(function, FunctionType) or id(function) in visited:
        return False
    names = list(_names(function.__code__))
    if any(word in name for name in names for word in WAITS):
        return True
    variables = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    values = [variables.get(name) for name in names]
    return any(waits(getattr(value, "fn", value), visited | {id(function)}) for value in values)


def _names(code: CodeType) -> list[str]:
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    return [*code.co_names, *code.co_freevars, *inner]
