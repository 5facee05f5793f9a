"""Launches that the runner reads out of a trace, and how they are counted."""

import contextlib

from grader_extensions.modes.box import torch_profile
from grader_extensions.modes.box.torch_profile import KIND_LIMIT, _launches_in, logged
from sandbox.launch.kernel import Loaded
from sandbox.protocol import wire


def event(name="k", grid=(2, 1, 1), dur=2.5, cat="kernel", **args):
    """As CUPTI's events are in a Chrome trace of torch's profiler."""
    about = {"grid": list(grid), "block": [128, 1, 1], "shared memory": 16, **args}
    return {"ph": "X", "cat": cat, "name": name, "dur": dur, "ts": 1.0, "args": about}


def test_launches_of_a_gpu_come_from_its_trace():
    """Those alike are one entry with their whole time in nanoseconds; copies and calls of the host are none."""
    others = [event("cudaLaunchKernel", cat="cuda_runtime"), event("Memcpy", cat="gpu_memcpy")]
    events = [event(), *others, event(dur=0.5), event(grid=(3, 1, 1))]
    first, second = _launches_in({"traceEvents": events})
    assert first == wire.KernelLaunch(kernel="k", grid=(2, 1, 1), block=(128, 1, 1), shared_bytes=16, count=2, duration_ns=3000)
    assert (second.grid, second.count, second.duration_ns) == ((3, 1, 1), 1, 2500)


def test_a_trace_of_very_many_kernels_is_cut():
    found = list(_launches_in({"traceEvents": [event(f"k{number}") for number in range(KIND_LIMIT + 9)]}))
    assert len(found) == KIND_LIMIT and list(_launches_in({})) == []


def test_a_library_without_a_place_for_the_hook_is_left_alone():
    """Such as one of a real device; the log is empty then."""
    import ctypes

    library = ctypes.CDLL(None)
    torch_profile.set_hook([library], None)
    kernel = Loaded(bind=lambda call: None, uses_torch=False, libraries=lambda: (library,))
    with logged(kernel, lambda name: contextlib.nullcontext()) as log:
        pass
    assert log.launches() == ()
