"""The runner's part of the emulated device's sanitizer: a library that lies in a file, and the names of the arguments' memory."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sandbox.devices import Arena
from sandbox.launch.kernel import Bound, Loaded
from sandbox.protocol import wire
from sandbox.protocol.gate import Call, Slot

PLACE = "GRADER_SANITIZER_PLACE"  # the directory that `emulated_sanitizer` has made
LOG, LIBRARY = "log", "library.so"


def keep_library(artifact_fd: int) -> None:
    """Copy the artifact to where addresses of the log are looked up, once this process has gone."""
    place = os.environ.get(PLACE)
    if place:
        (Path(place) / LIBRARY).write_bytes(Path(f"/proc/self/fd/{artifact_fd}").read_bytes())


def with_named_memory(kernel: Loaded, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Tell the sanitizer, before each launch, where each argument begins and ends."""

    def bind(call: Call) -> Bound:
        bound = kernel.bind(call)
        named = [
            *zip(call.inputs, job.inputs, [1] * len(job.inputs), strict=True),
            *zip(call.outputs, job.outputs, [0] * len(job.outputs), strict=True),
        ]
        for library in _sanitized(kernel.libraries()):
            for slot, tensor, initialised in named:
                if slot.shape:
                    size_bytes = _byte_count(slot, tensor.dtype)
                    library.emu_sanitizer_region(
                        ctypes.c_void_p(arena.address(slot.offset)), ctypes.c_size_t(size_bytes), tensor.name.encode(), 1, initialised
                    )
        return bound

    return replace(kernel, bind=bind)


def _sanitized(libraries: Sequence[ctypes.CDLL]) -> list[ctypes.CDLL]:
    return [one for one in libraries if hasattr(one, "emu_sanitizer_region")]


def _byte_count(slot: Slot, dtype: str) -> int:
    import torch  # preloaded in such a box

    return slot.element_count * int(getattr(torch, dtype).itemsize)
