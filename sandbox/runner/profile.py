"""Some launches under torch's profiler.  What it leaves in {out} is a claim: it shares its process with the submission."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.devices import Device
from sandbox.launch.kernel import Loaded
from sandbox.protocol import wire
from sandbox.protocol.box_files import (
    FILE_LIMIT_BYTES,
    PROFILE_NOTE,
    TORCH_PROFILER,
    TORCH_TABLE,
    TORCH_TRACE,
    TORCH_TRACE_PACKED,
    leave,
)
from sandbox.protocol.wire import ToolOutcome
from sandbox.runner.launches import KIND_LIMIT, logged

LAUNCH_COUNT = 3
ROW_COUNT = 100
ERROR_CHARS = 300


def profile(launch: Callable[[], object], kernel: Loaded, device: Device, out_dir: Path) -> None:
    """Launch under the profiler, and leave its table, its Chrome trace and a note."""
    try:
        note = _profiled(launch, kernel, device, out_dir)
    except Exception as error:  # noqa: BLE001  the note says it; what the kernel throws it threw in verification too
        failed = wire.ProfileTool(name=TORCH_PROFILER, outcome=ToolOutcome.FAILED, detail=f"{type(error).__name__}: {error}"[:ERROR_CHARS])
        note = wire.ProfileNote(profile=wire.KernelProfile(tools=(failed,)))
    leave(out_dir, PROFILE_NOTE, wire.encode(note))


def launch_in_range(launch: Callable[[], object], device: Device) -> None:
    """One launch between the driver's start and stop of profilers, so that ncu looks at nothing else."""
    import torch

    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


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
    leave(out_dir, TORCH_TABLE, profiled.key_averages().table(sort_by=by, row_limit=ROW_COUNT).encode())
    trace = _trace(profiled)
    files = {TORCH_TABLE: TORCH_PROFILER}
    for name, content in ((TORCH_TRACE, trace), (TORCH_TRACE_PACKED, gzip.compress(trace))):
        if len(content) <= FILE_LIMIT_BYTES:
            leave(out_dir, name, content)
            files[name] = TORCH_PROFILER
            break
    launches = tuple(_launches_in(json.loads(trace))) if device.HAS_PROFILER else log.launches()
    what = "CPU and CUDA" if device.HAS_PROFILER else "CPU only, because there is no GPU here: its times say nothing about one"
    cut = "" if len(files) > 1 else "; the trace is too large and was left out"
    detail = f"{LAUNCH_COUNT} calls; activities: {what}{cut}"
    found = wire.KernelProfile(tools=(wire.ProfileTool(name=TORCH_PROFILER, outcome=ToolOutcome.RAN, detail=detail),), launches=launches)
    return wire.ProfileNote(profile=found, files=files)


def _trace(profiled: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="trace-") as place:
        path = Path(place) / TORCH_TRACE
        profiled.export_chrome_trace(str(path))
        return path.read_bytes()


def _launches_in(trace: Mapping[str, Any]) -> Iterator[wire.KernelLaunch]:
    """The kernels in a Chrome trace of a GPU, those alike together. Times in it are microseconds."""
    found: dict[tuple[str, tuple[int, ...], tuple[int, ...], int], list[float]] = {}
    for event in trace.get("traceEvents", ()):
        if event.get("cat") != "kernel":
            continue
        about = event.get("args", {})
        grid, block = (tuple(int(one) for one in about.get(name, (0, 0, 0))) for name in ("grid", "block"))
        key = (str(event.get("name", "")), grid, block, int(about.get("shared memory", 0)))
        found.setdefault(key, []).append(float(event.get("dur", 0.0)))
    for (name, grid, block, shared_bytes), times_us in list(found.items())[:KIND_LIMIT]:
        total_ns = round(sum(times_us) * 1000)
        yield wire.KernelLaunch(kernel=name, grid=grid, block=block, shared_bytes=shared_bytes, count=len(times_us), duration_ns=total_ns)
