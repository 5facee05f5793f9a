"""Some launches under torch's profiler, and the grid, block and shared memory of each.  A claim: it shares its process with the submission.

CUDA C++ calls a hook of the emulated device; the interpreters of Triton and Numba are wrapped, where a submission has imported them.
"""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.devices import Device
from sandbox.launch.loop import Loaded, Profile, RunnerSetup
from sandbox.protocol import box_files, wire
from sandbox.protocol.box_files import leave
from sandbox.protocol.wire import ToolOutcome

LAUNCH_COUNT = 3
ROW_COUNT = 100
ERROR_CHARS = 300
KIND_LIMIT = 64
WARP_SIZE, USUAL_WARPS = 32, 4
# What the emulated device calls before and after each launch, where one is set; see native/emu/once.h there.
HOOK = "grader_launch_hook"
LaunchHook = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_size_t, ctypes.c_int)
Three = tuple[int, int, int]
Range = Callable[[str], AbstractContextManager[object]]


def instrument(setup: RunnerSetup, out_dir: Path | None) -> tuple[Loaded, Profile]:
    """Load a kernel, to be launched under the profiler."""
    assert out_dir is not None
    kernel = setup.load()
    return kernel, partial(profile, kernel=kernel, device=setup.device, out_dir=out_dir)


def profile(launch: Callable[[], object], kernel: Loaded, device: Device, out_dir: Path) -> None:
    """Launch under the profiler, and leave its table, its Chrome trace and a note."""
    try:
        note = _profiled(launch, kernel, device, out_dir)
    except Exception as error:  # noqa: BLE001  the note says it; what the kernel throws it threw in verification too
        detail = f"{type(error).__name__}: {error}"[:ERROR_CHARS]
        note = wire.ProfileNote(profile=_claim(ToolOutcome.FAILED, detail))
    leave(out_dir, box_files.PROFILE_NOTE, wire.encode(note))


def _profiled(launch: Callable[[], object], kernel: Loaded, device: Device, out_dir: Path) -> wire.ProfileNote:
    import torch
    from torch.profiler import ProfilerActivity, record_function

    os.environ["KINETO_LOG_LEVEL"] = "99"  # else it writes of itself into what the kernel prints
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.HAS_PROFILER else [])]
    launch()
    device.synchronize()
    with (
        logged(kernel, lambda name: record_function(f"kernel {name}")) as log,
        torch.profiler.profile(activities=activities, record_shapes=True) as profiled,
    ):
        for number in range(LAUNCH_COUNT):
            with record_function(f"call {number + 1} of the kernel's entry"):
                launch()
                device.synchronize()
    by = "device_time_total" if device.HAS_PROFILER else "cpu_time_total"
    leave(out_dir, box_files.TORCH_TABLE, profiled.key_averages().table(sort_by=by, row_limit=ROW_COUNT).encode())
    trace = _trace(profiled)
    files = {box_files.TORCH_TABLE: box_files.TORCH_PROFILER}
    for name, content in ((box_files.TORCH_TRACE, trace), (box_files.TORCH_TRACE_PACKED, gzip.compress(trace))):
        if len(content) <= box_files.FILE_LIMIT_BYTES:
            leave(out_dir, name, content)
            files[name] = box_files.TORCH_PROFILER
            break
    launches = _launches_in(json.loads(trace)) if device.HAS_PROFILER else log.launches()
    coverage = "CPU and CUDA" if device.HAS_PROFILER else "CPU only, because there is no GPU here: its times say nothing about one"
    cut = "" if len(files) > 1 else "; the trace is too large and was left out"
    detail = f"{LAUNCH_COUNT} calls; activities: {coverage}{cut}"
    return wire.ProfileNote(profile=_claim(ToolOutcome.RAN, detail, launches), files=files)


def _claim(outcome: ToolOutcome, detail: str, launches: tuple[wire.KernelLaunch, ...] = ()) -> wire.KernelProfile:
    tool = wire.ProfileTool(name=box_files.TORCH_PROFILER, outcome=outcome, detail=detail)
    return wire.KernelProfile(tools=(tool,), launches=launches)


def _trace(profiled: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="trace-") as place:
        path = Path(place) / box_files.TORCH_TRACE
        profiled.export_chrome_trace(str(path))
        return path.read_bytes()


def _launches_in(trace: Mapping[str, Any]) -> tuple[wire.KernelLaunch, ...]:
    """The kernels in a Chrome trace of a GPU. Times in it are microseconds."""
    log = LaunchLog()
    for event in trace.get("traceEvents", ()):
        if event.get("cat") == "kernel":
            about = event.get("args", {})
            grid, block = (_three(about.get(name, (0, 0, 0))) for name in ("grid", "block"))
            duration_ns = 1000 * float(event.get("dur", 0.0))
            log.add(str(event.get("name", "")), grid, block, int(about.get("shared memory", 0)), duration_ns)
    return log.launches()


@dataclass(slots=True)
class LaunchLog:
    """Launches by kernel and configuration, in order: how many, and how long they took together; 0 where nothing took it."""

    kinds: dict[tuple[str, Three, Three, int], tuple[int, float]] = field(default_factory=dict)

    def add(self, kernel: str, grid: Three, block: Three, shared_bytes: int, duration_ns: float = 0.0) -> None:
        """Note one."""
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

    hook = LaunchHook(on_launch)
    libraries = kernel.libraries()
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
        log.add(name, _three(self.grid_dim), _three(self.block_dim), int(self.dynshared_size or 0))
        with within(name):
            return call(self, *arguments)

    kernel.__call__ = launch
    try:
        yield
    finally:
        kernel.__call__ = call


def _three(sizes: Any) -> Three:
    x, y, z = (*(int(size) for size in sizes), 1, 1)[:3]
    return x, y, z
