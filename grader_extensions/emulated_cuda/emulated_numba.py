"""Makes Numba's simulator fit for problems of a useful size: kernels get plain arrays, and the threads of a block take turns in one process
thread, from barrier to barrier, in an order that is drawn."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import math
import random
import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MODULES = ("numba.cuda", "numba.cuda.simulator.kernel", "numba.cuda.simulator.kernelapi", "numba.cuda.simulator.cudadrv.devicearray")
# A kernel that names none of these, nor a device function that does, has threads that can run one after the other.
WAITS = ("sync", "cg", "nanosleep", "activemask")
WARP, ALL_LANES = 32, 0xFFFFFFFF


def install(torch: Any) -> None:
    """Replace what takes the simulator's time, and let it take tensors; nothing where Numba is not there or no simulator."""
    answer_without_runtime()
    try:
        modules: list[Any] = [importlib.import_module(name) for name in MODULES]
        turns = ThreadTurns()
    except ImportError:
        return
    cuda, kernel, kernelapi, devicearray = modules

    def array_of(value: Any) -> Any:
        return value.detach().numpy() if isinstance(value, torch.Tensor) else value

    def plain(value: Any) -> np.ndarray[Any, Any]:
        return value._ary  # type: ignore[no-any-return]

    launch, dim3 = kernel.FakeCUDAKernel.__call__, kernel.Dim3

    def run_block(self: Any, grid_point: tuple[int, ...], *arguments: Any) -> None:
        if waits(self._f):
            points = [point[::-1] for point in itertools.product(*map(range, reversed(self._block_dim)))]
            turns.run([kernel.BlockThread(lambda: self._f(*arguments), self, grid_point, point, self._debug) for point in points])
            return
        thread: Any = threading.current_thread()
        thread.blockIdx = dim3(*grid_point)
        width, height, depth = self._block_dim
        for number, (z, y, x) in enumerate(itertools.product(range(depth), range(height), range(width))):
            thread.threadIdx, thread.thread_id = dim3(x, y, z), number
            self._f(*arguments)

    kernelapi.threading = turns
    kernel.BlockThread.syncthreads = lambda self: turns.wait()
    # Who waits for another thread of the block asks again by one of these.
    for fence in ("threadfence", "threadfence_block", "threadfence_system", "nanosleep"):
        setattr(kernelapi.FakeCUDAModule, fence, lambda self, *arguments: turns.pause())
    for name, operation in inspect.getmembers(kernelapi.FakeCUDAAtomic, inspect.isfunction):
        setattr(kernelapi.FakeCUDAAtomic, name, turns.pausing(operation))
    for name, function in warp_functions(turns).items():
        setattr(kernelapi.FakeCUDAModule, name, function)
    kernelapi.FakeCUDAModule.libdevice = Libdevice()
    kernel.FakeCUDAKernel.__call__ = lambda self, *arguments: launch(self, *map(array_of, arguments))
    kernel.FakeWithinKernelCUDAArray = plain
    kernel.BlockManager.run = run_block
    cuda.as_cuda_array = lambda value, sync=True: devicearray.FakeCUDAArray(array_of(value))


class ThreadTurns(threading.local):
    """Stands for `threading` in the simulator: a CUDA thread is a greenlet, for a block has more threads than a box may have processes."""

    def __init__(self) -> None:
        greenlets = importlib.import_module("greenlet")  # it comes with the packages of a box
        self._fiber, self._running, self._random = greenlets.greenlet, greenlets.getcurrent, random.Random()
        self._current: Any = None
        self._waiting: set[Any] = set()  # at the barrier
        self._apart: set[Any] = set()  # where lanes of a warp meet
        self._meetings: dict[tuple[object, ...], dict[int, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)

    def current_thread(self) -> Any:
        """Return the CUDA thread whose turn it is, else the Python thread."""
        return self._current or threading.current_thread()

    def run(self, threads: list[Any]) -> None:
        """Run the threads of a block to their ends, in each round in another order. Raises what the first of them raised."""
        fibers = {thread: self._fiber(thread.run) for thread in threads}
        self._waiting, self._apart, self._meetings, self._fibers = set(), set(), {}, list(fibers.items())
        try:
            while fibers:
                ready = [thread for thread in fibers if thread not in self._waiting]
                for thread in self._random.sample(ready, len(ready)):
                    self._current = thread
                    fibers[thread].switch()
                    if thread.exception:
                        raise thread.exception[0].with_traceback(thread.exception[1])
                fibers = {thread: fiber for thread, fiber in fibers.items() if not fiber.dead}
                if len(self._waiting) == len(fibers):
                    self._waiting = set()
        finally:
            self._current = None

    def wait(self) -> None:
        """Let the current thread wait until all others wait or are at their ends."""
        self._waiting.add(self._current)
        self.pause()

    def meet(self, place: object, mask: int | None, value: Any = None) -> dict[int, Any]:
        """Return what the lanes of a warp brought to a place, once all of the mask are there or at their ends; without a mask, once all
        others of the warp wait elsewhere."""
        warp, lane = divmod(self._current.thread_id, WARP)
        key, lanes = (warp, place, mask), self._fibers[warp * WARP : (warp + 1) * WARP]
        values = self._meetings.setdefault(key, {})
        values[lane] = value
        self._apart.add(self._current)

        def is_missed(number: int, thread: Any) -> bool:
            return bool(int(mask) >> number & 1) if mask is not None else thread not in self._waiting and thread not in self._apart

        while self._meetings.get(key) is values:
            if any(number not in values and not fiber.dead and is_missed(number, thread) for number, (thread, fiber) in enumerate(lanes)):
                self.pause()
            else:
                del self._meetings[key]
                self._apart -= {lanes[number][0] for number in values}
        return values

    def pause(self) -> None:
        """End the turn of the current thread, where threads take turns."""
        thread = self._current
        if thread is not None:
            self._running().parent.switch()
            self._current = thread

    def pausing(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        """Return an operation that ends the turn of its thread."""

        @functools.wraps(operation)
        def paused(*arguments: Any, **named: Any) -> Any:
            value = operation(*arguments, **named)
            self.pause()
            return value

        return paused


def warp_functions(turns: ThreadTurns) -> dict[str, Callable[..., Any]]:
    """Return the functions of `numba.cuda` by which the threads of a warp meet, as methods of the simulator's module."""

    def shuffle(source: Callable[[int, int], int]) -> Callable[..., Any]:
        return lambda cuda, mask, value, number: turns.meet(source, mask, value).get(source(cuda.laneid, int(number)), value)

    def vote(outcome: Callable[[dict[int, Any]], Any]) -> Callable[..., Any]:
        return lambda cuda, mask, value: outcome(turns.meet(outcome, mask, value))

    def lanes(values: dict[int, Any], value: Any) -> int:
        return sum(1 << lane for lane, brought in values.items() if brought == value)

    def match_all(values: dict[int, Any]) -> tuple[int, bool]:
        return (lanes(values, next(iter(values.values()))), True) if len({*values.values()}) == 1 else (0, False)

    return {
        "shfl_sync": shuffle(lambda lane, source: source % WARP),
        "shfl_up_sync": shuffle(lambda lane, delta: lane - delta),
        "shfl_down_sync": shuffle(lambda lane, delta: lane + delta),
        "shfl_xor_sync": shuffle(lambda lane, bits: lane ^ bits),
        "syncwarp": lambda cuda, mask=ALL_LANES: turns.meet("syncwarp", mask) and None,
        "all_sync": vote(lambda values: all(values.values())),
        "any_sync": vote(lambda values: any(values.values())),
        "eq_sync": vote(lambda values: len({*map(bool, values.values())}) == 1),
        "ballot_sync": vote(lambda values: lanes({lane: bool(value) for lane, value in values.items()}, True)),
        "match_any_sync": lambda cuda, mask, value: lanes(turns.meet("match", mask, value), value),
        "match_all_sync": vote(match_all),
        "activemask": lambda cuda: lanes(turns.meet(inspect.currentframe().f_back.f_lasti, None, True), True),  # type: ignore[union-attr]
        "lanemask_lt": lambda cuda: (1 << cuda.laneid) - 1,
    }


class Libdevice:
    """`cuda.libdevice` by functions of numpy and math. Those of float32 end in f, less exact ones begin with fast_."""

    def __init__(self) -> None:
        import numpy as np

        self._numpy = np
        self._functions: dict[str, Callable[..., Any]] = {
            **{kind: getattr(math, kind) for kind in ("erf", "erfc", "remainder")},
            **{"abs": abs, "max": max, "min": min},
            "exp10": lambda x: np.power(10.0, x),
            "fdivide": lambda x, y: x / y,
            "fma": lambda x, y, z: x * y + z,
            "rcbrt": lambda x: 1.0 / np.cbrt(x),
            "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
            "rsqrt": lambda x: 1.0 / np.sqrt(x),
            "saturate": lambda x: np.clip(x, 0.0, 1.0),
            "sincos": lambda x: (np.sin(x), np.cos(x)),
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        np, functions = self._numpy, self._functions
        base = name.removeprefix("fast_")
        if (double := functions.get(base) or getattr(np, base, None)) is not None:
            return double
        single = functions.get(base.removesuffix("f")) or getattr(np, base.removesuffix("f"), None)
        if single is None:
            raise AttributeError(f"the emulated device has no cuda.libdevice.{name}; use a CUDA device for this kernel")

        def rounded(*arguments: Any) -> Any:
            result = single(*(np.float64(np.float32(value)) if isinstance(value, (float, np.floating)) else value for value in arguments))
            return tuple(map(np.float32, result)) if isinstance(result, tuple) else np.float32(result)

        return rounded


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
