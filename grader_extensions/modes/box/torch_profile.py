"""Some launches under torch's profiler, with grid, block and shared memory.  A claim: it shares its process with the submission."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from grader_extensions.emulated_cuda.launch_log import LaunchLog, logged, three
from sandbox.devices import Device
from sandbox.launch.loop import Loaded, Profile, RunnerSetup
from sandbox.protocol import box_files, wire
from sandbox.protocol.box_files import leave
from sandbox.protocol.wire import ToolOutcome

LAUNCH_COUNT = 3
ROW_COUNT = 100
ERROR_CHARS = 300


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
        logged(kernel.libraries(), lambda name: record_function(f"kernel {name}")) as log,
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
            grid, block = (three(about.get(name, (0, 0, 0))) for name in ("grid", "block"))
            duration_ns = 1000 * float(event.get("dur", 0.0))
            log.add(str(event.get("name", "")), grid, block, int(about.get("shared memory", 0)), duration_ns)
    return log.launches()
